// Figures look at their width only when the window changes; they were made before they had a place.
// The kernel may have the box brought into view.
function render({ model, el }) {
  el.style.display = "none";
  const place = new ResizeObserver(() => window.dispatchEvent(new Event("resize")));
  requestAnimationFrame(() => { if (el.parentElement) place.observe(el.parentElement); });
  model.on("msg:custom", () => requestAnimationFrame(() => el.parentElement?.scrollIntoView({ block: "nearest" })));
  return () => place.disconnect();
}
export default { render };
