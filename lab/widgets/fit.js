// Figures look at their width only when the window changes; they were made before they had a place.
function render({ el }) {
  el.style.display = "none";
  const place = new ResizeObserver(() => window.dispatchEvent(new Event("resize")));
  requestAnimationFrame(() => { if (el.parentElement) place.observe(el.parentElement); });
  return () => place.disconnect();
}
export default { render };
