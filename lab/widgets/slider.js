// A range whose page tells the kernel when a person moves it, and never otherwise: what the kernel sets stays as it is.
// Until the kernel has answered the newest move, the page shows what the person chose: an older answer does not pull it back.
const EVERY_MS = 40;
function render({ model, el }) {
  const row = document.createElement("label");
  row.className = "lab-slider";
  const make = (kind) => document.createElement(kind);
  const name = make("span"), track = make("span"), range = make("input"), ends = make("span"), text = make("output");
  range.type = "range";
  ends.className = "lab-ends";
  ends.setAttribute("aria-hidden", "true");
  track.append(range, ends);
  row.append(name, track, text);
  el.append(row);
  const view = Math.random().toString(36).slice(2);
  let moves = 0, newest = null, waiting = null; // newest: the move that is not answered yet

  const show = () => {
    name.textContent = model.get("label");
    range.disabled = model.get("disabled");
    const texts = model.get("texts");
    range.max = Math.max(texts.length - 1, 0);
    ends.replaceChildren(...(texts.length ? [texts[0], texts[texts.length - 1]] : []).map((end) => {
      const place = make("span");
      place.textContent = end;
      return place;
    }));
    if (newest === model.get("answered")) newest = null;
    if (newest) return;
    range.value = model.get("position");
    text.textContent = model.get("text");
    range.setAttribute("aria-valuetext", model.get("text"));
  };
  const send = () => {
    waiting = null;
    model.send({ text: text.textContent, move: newest });
  };
  range.oninput = () => {
    text.textContent = model.get("texts")[range.value];
    range.setAttribute("aria-valuetext", text.textContent);
    newest = `${view} ${++moves}`;
    waiting ??= setTimeout(send, EVERY_MS);
  };
  range.onkeydown = (event) => {  // a notebook keeps the browser from doing it
    const last = Number(range.max), page = Math.max(Math.round(last / 10), 1);
    const by = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1, PageUp: page, PageDown: -page, Home: -last, End: last };
    if (!(event.key in by)) return;
    event.preventDefault();
    event.stopPropagation();
    const before = range.value;
    range.value = Math.min(Math.max(Number(before) + by[event.key], 0), last);
    if (range.value !== before) range.oninput();
  };
  model.on("change:label change:disabled change:texts change:position change:text change:answered", show);
  show();
  return () => clearTimeout(waiting);
}
export default { render };
