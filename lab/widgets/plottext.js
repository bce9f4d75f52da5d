// A plot for those who do not see it: a sentence, and a table of its values, opened with a button in its corner.
export const WORDS = {  // figures.py gives them in the reader's language
  plot: "Plot", by: "{y} by {x}", shown: "shown: {names}", range: "{name} from {least} to {most}", marked: "marked: {texts}",
  table: "Table", back: "Plot", point: "point", value: "value", more: "and {count} more rows",
};
const ROWS = 500;  // of a table
const fill = (text, values) => text.replace(/{(\w+)}/g, (_, name) => values[name]);
const plain = (html) => String(html ?? "").replace(/<[^<>]*>|\s+/g, " ").replace(/ +/g, " ").trim();
const title = (part) => plain(part?.title?.text);
const number = (value, digits) => value.toLocaleString("en", { maximumSignificantDigits: digits });

// The title, the axes, and each curve's lowest and highest value; a curve without a name has that of its values.
export function plotText({ data, layout, _fullData }, words = WORDS) {
  const [x, y] = [title(layout.xaxis), title(layout.yaxis)];
  const shown = new Map();  // of curves with one name, the first: the others are parts of it
  data.forEach((trace, n) => {
    const drawn = _fullData?.[n] ?? trace, across = drawn.orientation === "h";
    const name = trace.name || (across ? x : y) || words.value;
    if (trace.visible === false || shown.has(name)) return;
    let least = Infinity, most = -Infinity;
    for (const value of (across ? drawn.x : drawn.y) ?? []) {
      if (typeof value === "number" && value < least) least = value;
      if (typeof value === "number" && value > most) most = value;
    }
    if (!trace.name && least > most) return;
    const range = { name, least: number(least, 4), most: number(most, 4) };
    const saysText = /^text/.test(drawn.hoverinfo ?? "");  // its heights are lanes, not values
    shown.set(name, least <= most && !saysText ? fill(words.range, range) : name);
  });
  const texts = (layout.annotations ?? []).map((note) => plain(`${note.name ?? ""} ${note.text}`)).filter(Boolean).join(", ");
  const head = [words.plot, title(layout), x && y ? fill(words.by, { x, y }) : x || y].filter(Boolean).join(": ");
  const names = [...shown.values()].join(", ");
  return `${[head, names && fill(words.shown, { names }), texts && fill(words.marked, { texts })].filter(Boolean).join("; ")}.`;
}

// What stands at a place of an axis: the text of its tick, or the value.
function word(value, axis) {
  const tick = axis?.ticktext?.[(axis.tickvals ?? []).indexOf(value)];
  if (tick !== undefined) return plain(tick);
  if (typeof value === "number") return number(value, 8) + (axis?.ticksuffix ?? "");
  return value === null || value === undefined ? "" : String(value).replace(/^(\d{4}-\d\d-\d\d)T/, "$1 ");
}
// The points of a trace: where, and what is there.
function points(trace, bins) {
  if (trace.type === "histogram") return (bins ?? []).map(({ p, s }) => [p, s]);
  const [places, values] = trace.orientation === "h" ? [trace.y, trace.x] : [trace.x, trace.y];
  const texts = trace.hovertext || (/text/.test(trace.hoverinfo ?? "") ? trace.text : null);
  const all = Array.from(values ?? [], (value, n) => [places?.[n] ?? (places ? null : n), Array.isArray(texts) ? texts[n] : value, value]);
  const once = ([, text], n) => !texts || text !== all[n - 1]?.[1];  // a line from its beginning to its end is one row
  return all.filter(([place, , value], n) => place !== null && value !== null && value !== undefined && once(all[n], n));
}
// Columns and rows: a column for each curve, a row for each place.
export function table({ data, layout, _fullData, calcdata }, words = WORDS) {
  const across = data.some((trace) => trace.orientation === "h");
  const [along, up] = across ? [layout.yaxis, layout.xaxis] : [layout.xaxis, layout.yaxis];
  const columns = [], rows = new Map();
  data.forEach((trace, n) => {
    const drawn = _fullData?.[n] ?? trace;
    const found = drawn.visible === false || drawn.visible === "legendonly" ? [] : points(drawn, calcdata?.[n]);
    if (!found.length) return;
    const name = trace.name || title(up) || words.value;
    if (!columns.includes(name)) columns.push(name);
    for (const [place, value] of found) {
      if (!rows.has(place)) rows.set(place, new Map());
      const cells = rows.get(place), cell = word(value, typeof value === "number" ? up : null);
      const before = cells.get(name) ?? [];
      if (!(typeof value === "string" && before.includes(cell))) cells.set(name, [...before, cell]);
    }
  });
  const places = [...rows.keys()];
  if (places.every((place) => typeof place === "number")) places.sort((a, b) => a - b);
  if (places.every((place) => /^\d{4}-\d\d-\d\d/.test(place))) places.sort();
  return {
    columns: [title(along) || words.point, ...columns],
    rows: places.slice(0, ROWS).map((place) => [
      word(place, along), ...columns.map((name) => (rows.get(place).get(name) ?? []).join(" / ")),
    ]),
    more: Math.max(places.length - ROWS, 0),
  };
}
function element(parent, tag, text, attributes = {}) {
  const made = document.createElement(tag);
  made.textContent = text;
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return parent.appendChild(made);
}
// The button and the table in `el`, which holds the plot; returns what shows the plot's present state in sentence and table.
export function accompany(el, words = WORDS) {
  let before = "";
  const button = element(el, "button", words.table, { type: "button", class: "lab-data-open", "aria-expanded": "false" });
  const box = element(el, "div", "", { class: "lab-data", role: "region", tabindex: "0", "data-lm-suppress-shortcuts": "true" });
  button.dataset.lmSuppressShortcuts = "true";  // a notebook's own keys would take Enter
  box.hidden = true;
  const plot = () => (el.layout ? el : el.querySelector(".js-plotly-plot"));
  const refresh = () => {
    const shown = plot();
    if (!shown?.layout) return;
    const sentence = plotText(shown, words), picture = shown.querySelector(".plot-container");
    if (picture?.getAttribute("aria-label") !== sentence) picture?.setAttribute("role", "img");
    if (picture?.getAttribute("aria-label") !== sentence) picture?.setAttribute("aria-label", sentence);
    box.setAttribute("aria-label", sentence);
    button.title = sentence;
    if (box.hidden || box.matches(":hover, :focus")) return;  // somebody reads it
    const { columns, rows, more } = table(shown, words);
    const now = JSON.stringify([columns, rows]);
    if (now === before) return;
    before = now;
    box.replaceChildren();
    const made = element(box, "table", "");
    const head = made.createTHead().insertRow(), body = made.createTBody();
    for (const name of columns) element(head, "th", name, { scope: "col" });
    for (const [place, ...cells] of rows) {
      const row = body.insertRow();
      element(row, "th", place, { scope: "row" });
      for (const cell of cells) element(row, "td", cell);
    }
    if (more) element(box, "p", fill(words.more, { count: more.toLocaleString("en") }));
  };
  const show = (open) => {
    box.hidden = !open;
    button.textContent = open ? words.back : words.table;
    button.setAttribute("aria-expanded", String(open));
    refresh();
    (open ? box : button).focus({ preventScroll: true });
  };
  button.onclick = () => show(box.hidden);
  box.onkeydown = (event) => {
    if (event.key !== "Escape") return;
    event.stopPropagation();  // a panel that Escape closes, too
    show(false);
  };
  return refresh;
}
