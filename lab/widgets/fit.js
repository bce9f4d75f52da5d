// Brings the style sheet, and names the sliders and choices of the whole page for screen readers, also those that come later.
function name() {
  for (const slider of document.querySelectorAll(".widget-slider")) {
    const label = slider.querySelector("label")?.textContent ?? "";
    for (const handle of slider.querySelectorAll("[role=slider]")) handle.setAttribute("aria-label", label);
  }
  for (const box of document.querySelectorAll(".lab-asked .widget-radio-box")) {
    box.setAttribute("role", "radiogroup");
    box.setAttribute("aria-label", box.closest(".lab-asked").querySelector(".widget-html").textContent.trim());
  }
}
function render({ el }) {
  el.style.display = "none";
  let waiting = null;
  globalThis.labNames ??= new MutationObserver(() => {
    waiting ??= setTimeout(() => { waiting = null; name(); }, 500);
  });
  globalThis.labNames.observe(document.body, { childList: true, subtree: true });
  name();
}
export default { render };
