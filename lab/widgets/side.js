// Whether the panel beside is open is a class of the room, by which it gets its place; Escape closes it. Whoever opened it
// with the keyboard finds the focus in it, and afterwards where it was.
function render({ model, el }) {
  el.style.display = "none";
  let room = null, side = null, before = null, byKeyboard = false, timer = null;
  const last = (event) => { byKeyboard = event.type === "keydown"; };
  const show = () => {
    if (!attached()) return;
    const open = model.get("shown");
    if (open === room.classList.contains("lab-open")) return;
    room.classList.toggle("lab-open", open);
    if (!open) {
      if (before?.isConnected) before.focus({ preventScroll: true });
      return;
    }
    before = side.contains(document.activeElement) ? before : document.activeElement;
    requestAnimationFrame(() => {
      if (byKeyboard) side.querySelector(".lab-close")?.focus({ preventScroll: true });
      if (getComputedStyle(room).getPropertyValue("--lab-narrow")) side.scrollIntoView({ block: "start" });
    });
  };
  const key = (event) => {
    const at = document.activeElement;
    if (event.key !== "Escape" || !model.get("shown") || !(room.contains(at) || at === document.body)) return;
    event.stopPropagation();
    model.set("shown", false);
    model.save_changes();
  };
  const attached = () => {
    if (room) return true;
    side = el.closest(".lab-side");
    room = side?.closest(".lab-room");
    if (!room) return false;
    room.dataset.lmSuppressShortcuts = "true";  // a notebook's own keys would cut cells
    document.addEventListener("keydown", key);
    room.addEventListener("keydown", last, true);
    room.addEventListener("pointerdown", last, true);
    return true;
  };
  const begin = () => { attached() ? show() : timer = setTimeout(begin, 200); };  // a page loaded again attaches late
  timer = setTimeout(begin);
  model.on("change:shown", show);
  return () => {
    clearTimeout(timer);
    document.removeEventListener("keydown", key);
  };
}
export default { render };
