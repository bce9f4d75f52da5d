// Draws a plot when it comes into view; plotly is loaded once a page, and only if the page has a plot.
const here = document.currentScript.src;
const plots = document.querySelectorAll(".book-plot");
if (plots.length) {
  const script = document.createElement("script");
  script.src = new URL("plotly.min.js", here).href;
  script.onload = () => {
    const seen = new IntersectionObserver((entries) => {
      for (const { target, isIntersecting } of entries) {
        if (!isIntersecting) continue;
        seen.unobserve(target);
        const { data, layout, config } = JSON.parse(target.nextElementSibling.textContent);
        delete layout.width;
        Plotly.newPlot(target, data, { ...layout, autosize: true }, { ...config, responsive: true }).then(() => accompany(target)());
      }
    }, { rootMargin: "300px" });
    plots.forEach((plot) => seen.observe(plot));
  };
  document.head.append(script);
}
// what scrolls can be reached with the keyboard
for (const box of document.querySelectorAll(".highlight pre, .table-wrapper, .output pre, .output.text_html")) {
  if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
}
// the widgets' style sheet knows dark pages as Jupyter marks them
const dark = matchMedia("(prefers-color-scheme: dark)");
const mark = () => {
  const theme = document.body.dataset.theme;
  document.body.dataset.jpThemeLight = String(theme === "light" || (theme !== "dark" && !dark.matches));
};
mark();
dark.addEventListener("change", mark);
new MutationObserver(mark).observe(document.body, { attributeFilter: ["data-theme"] });
