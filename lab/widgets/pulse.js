// Shows the state that the kernel tells, and says so itself when the kernel tells nothing any more.
function render({ model, el }) {
  const box = document.createElement("div");
  box.setAttribute("role", "status");
  el.append(box);
  let lastBeat = Date.now();
  const show = () => {
    const silent = Math.round((Date.now() - lastBeat) / 1000);
    const lost = model.get("beating") && silent > model.get("patience_s");
    const kind = lost ? "bad" : model.get("kind");
    const text = lost
      ? model.get("silent").replace("{seconds}", silent)
      : model.get("text");
    box.className = `lab-pulse ${kind}`;
    if (box.textContent !== text) box.textContent = text;
    el.closest(".lab-room")?.classList.toggle("lab-stale", lost);
  };
  model.on("change:beat", () => { lastBeat = Date.now(); show(); });
  model.on("change:text change:kind change:beating", show);
  const timer = setInterval(show, 1000);
  show();
  return () => clearInterval(timer);
}
export default { render };
