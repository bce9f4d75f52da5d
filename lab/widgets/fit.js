// Brings the style sheet, and gives the handles of Jupyter's sliders the name that stands beside them.
function render({ model, el }) {
  el.style.display = "none";
  const name = () => {
    for (const slider of el.parentElement?.querySelectorAll(".widget-slider") ?? []) {
      const label = slider.querySelector("label")?.textContent ?? "";
      for (const handle of slider.querySelectorAll("[role=slider]")) handle.setAttribute("aria-label", label);
    }
  };
  const timers = [0, 500, 2000].map((ms) => setTimeout(name, ms));
  return () => timers.forEach(clearTimeout);
}
export default { render };
