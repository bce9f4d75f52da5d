// Brings the style sheet, makes the whole page fit for people who hear it or have no mouse, also what comes to it later, and says
// when the kernel has ended.
const STATUS = "[role=status][aria-live=polite]", TOGGLE = ".widget-toggle-button", CHOICES = ".lab-asked .widget-radio-box";
const ENDED = ["restarting", "autorestarting", "terminating", "dead"];
const ENTER = { key: "Enter", bubbles: true };  // JupyterLab's buttons take a click on mouse down or up, but always this key
const UNSEEN = "position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap";

function press(button) { button.setAttribute("aria-pressed", String(button.classList.contains("mod-active"))); }
// ipywidgets shows an option as plain text
function markCode(label) {
  for (const text of label.childNodes) {
    const parts = text.nodeType === Node.TEXT_NODE ? text.data.split("`") : [];
    if (parts.length < 3) continue;
    text.replaceWith(...parts.map((part, place) => {
      if (place % 2 === 0) return part;
      const code = document.createElement("code");
      code.textContent = part;
      return code;
    }));
  }
}
function name() {
  for (const slider of document.querySelectorAll(".widget-slider")) {
    const label = slider.querySelector("label")?.textContent ?? "";
    for (const handle of slider.querySelectorAll("[role=slider]")) handle.setAttribute("aria-label", label);
  }
  for (const box of document.querySelectorAll(CHOICES)) {
    box.setAttribute("role", "radiogroup");
    box.setAttribute("aria-label", box.closest(".lab-asked").querySelector(".widget-html").textContent.trim());
    box.querySelectorAll("label").forEach(markCode);
  }
  document.querySelectorAll(TOGGLE).forEach(press);
  for (const untitled of document.querySelectorAll("[title=null]")) untitled.removeAttribute("title");  // ipywidgets' own
}
// What a screen reader makes of a sentence: marks by their names.
function words(sentence) {
  const read = sentence.cloneNode(true);
  for (const mark of read.querySelectorAll("[role=img]")) mark.textContent = `${mark.getAttribute("aria-label")}: `;
  for (const hidden of read.querySelectorAll("[aria-hidden=true]")) hidden.remove();
  return read.textContent.replace(/\s+/g, " ").trim();
}
// Screen readers say what changes in a region that stood in the page before; a sentence that comes as a whole is silent in
// most of them. So one region of the page says each of these.
function speaker() {
  const region = document.createElement("div");
  region.setAttribute("role", "status");
  region.style.cssText = UNSEEN;
  document.body.append(region);
  let news = [];
  return (sentence) => {
    sentence.setAttribute("aria-live", "off");
    if (!sentence.checkVisibility()) return;
    if (!news.length) {
      region.textContent = "";
      setTimeout(() => { region.textContent = news.join(" "); news = []; }, 200);
    }
    news.push(words(sentence));
  };
}
function watch() {
  const speak = speaker();
  let waiting = null;
  const come = (node) => {
    if (node.matches(STATUS)) speak(node);
    node.querySelectorAll(STATUS).forEach(speak);
  };
  const changed = new MutationObserver((changes) => {
    for (const { type, target, addedNodes } of changes) {
      if (type === "attributes" && target.matches(TOGGLE)) press(target);
      for (const node of addedNodes) if (node instanceof HTMLElement) come(node);
    }
    if (changes.some(({ type }) => type === "childList")) waiting ??= setTimeout(() => { waiting = null; name(); }, 500);
  });
  changed.observe(document.body, { childList: true, subtree: true, attributeFilter: ["class"] });
  // before JupyterLab, which goes to another cell with them: arrows go from choice to choice; Space chooses
  window.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    const choices = step ? [...event.target.closest(CHOICES)?.querySelectorAll("input") ?? []] : [];
    const next = choices[choices.indexOf(event.target) + step];
    if (!next) return;  // beyond the last one is the next cell
    event.preventDefault();
    event.stopImmediatePropagation();
    next.focus();
  }, true);
  // from what a cell gave back to the cell
  window.addEventListener("keydown", (event) => {
    if (event.key === "Escape") event.target.closest?.(".jp-OutputArea-output")?.closest(".jp-Cell")?.focus();
  });
  return changed;
}
// Where a widget's kernel ends, its page says so above what the cell gave back, which nothing answers any more.
function sayEnded(model, el) {
  const output = el.closest(".jp-OutputArea-output") ?? el.parentElement;
  if (!output || output.querySelector(".lab-ended")) return;
  const again = document.createElement("button"), notice = document.createElement("div");
  const notebook = output.closest(".jp-NotebookPanel");
  const run = notebook ? notebook.querySelector("[data-command='notebook:restart-run-all']") : window.location;
  notice.className = "lab-ended lab-said bad";
  notice.setAttribute("role", "status");
  notice.setAttribute("aria-live", "polite");
  notice.append(`${model.get("ended")} `);
  again.className = "jupyter-button";
  again.textContent = model.get("again");
  again.onclick = () => { notebook ? run.dispatchEvent(new KeyboardEvent("keydown", ENTER)) : run.reload(); };
  if (run) notice.append(again);
  output.prepend(notice);
}
function render({ model, el }) {
  el.style.display = "none";
  globalThis.labNames ??= watch();
  name();
  const kernel = model.widget_manager?.kernel;  // not in every notebook program
  const changed = (_, status) => { if (ENDED.includes(status)) sayEnded(model, el); };
  kernel?.statusChanged.connect(changed);
  return () => kernel?.statusChanged.disconnect(changed);
}
export default { render };
