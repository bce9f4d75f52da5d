// A button that shows the widgets around it on the whole screen, and the notebook again.
function render({ model, el }) {
  const button = document.createElement("button");
  button.className = "jupyter-button";
  button.addEventListener("click", () => {
    if (document.fullscreenElement) document.exitFullscreen();
    else el.closest(".lab-projector")?.requestFullscreen();
  });
  const show = () => { button.textContent = model.get(document.fullscreenElement ? "back" : "large"); };
  document.addEventListener("fullscreenchange", show);
  show();
  el.append(button);
  return () => document.removeEventListener("fullscreenchange", show);
}
export default { render };
