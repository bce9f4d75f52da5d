// A table of which a row can be chosen, with the mouse or the keyboard (arrows, Enter); rows may change at any time.
// Rows that stay are left alone. A steady table waits while somebody points at it or moves in it with the keyboard.
function render({ model, el }) {
  const box = document.createElement("div");
  box.className = "lab-table";
  const table = document.createElement("table");
  const head = table.createTHead().insertRow();
  const body = table.createTBody();
  const note = document.createElement("div");
  note.className = "lab-held";
  note.textContent = model.get("waits");
  note.hidden = true;
  table.setAttribute("role", "grid");
  el.classList.add("lab-grid");
  el.append(box);
  box.append(table);
  el.append(note);

  const choose = (key) => { model.set("selected", key); model.save_changes(); };
  let newColumns = true;
  const kindOf = (i) => model.get("numeric").includes(i) ? "number" : model.get("wide").includes(i) ? "wide" : "";
  const header = () => {
    newColumns = false;
    table.setAttribute("aria-label", model.get("label"));
    head.replaceChildren(...model.get("columns").map((name, i) => {
      const cell = document.createElement("th");
      cell.scope = "col";
      cell.textContent = name;
      cell.className = kindOf(i);
      return cell;
    }));
  };
  const stop = (row) => {  // one stop for the Tab key in the whole table
    for (const other of body.rows) other.tabIndex = other === row ? 0 : -1;
  };
  const mark = () => {
    for (const row of body.rows) row.setAttribute("aria-selected", String(row.dataset.key === model.get("selected")));
    stop([...body.rows].find((row) => row.tabIndex === 0) ?? body.rows[0]);
  };
  const made = (key) => {
    const row = document.createElement("tr");
    row.dataset.key = key;
    row.tabIndex = -1;
    row.onclick = () => { stop(row); choose(key); };
    row.onfocus = () => stop(row);
    row.onkeydown = (event) => {
      const all = body.rows;
      const next = {
        ArrowDown: row.nextElementSibling, ArrowUp: row.previousElementSibling, Home: all[0], End: all[all.length - 1],
      }[event.key];
      if (next) next.focus();
      else if (event.key === "Enter" || event.key === " ") choose(key);
      else return;
      event.preventDefault();
      event.stopPropagation();
    };
    return row;
  };
  const filled = (row, values) => {
    values.forEach((value, i) => {
      const cell = row.cells[i] ?? row.insertCell(), kind = kindOf(i);
      if (cell.className !== kind) cell.className = kind;
      if (cell.textContent !== value) cell.textContent = value;
      if (cell.title !== (kind === "wide" ? value : "")) cell.title = kind === "wide" ? value : "";
    });
    while (row.cells.length > values.length) row.deleteCell(-1);  // the table had more columns
    return row;
  };
  const busy = () => model.get("steady") && body.querySelector("tr[data-key]")
    && (body.matches(":hover") || body.contains(document.activeElement));
  const rows = () => {
    const waits = Boolean(busy());
    note.hidden = !waits;
    if (waits) return;
    if (newColumns) header();
    const known = new Map([...body.rows].map((row) => [row.dataset.key, row]));
    const wanted = model.get("rows").map(([key, ...values]) => filled(known.get(key) ?? made(key), values));
    const kept = new Set(wanted);
    for (const row of [...body.rows]) if (!kept.has(row)) row.remove();
    wanted.forEach((row, i) => { if (body.rows[i] !== row) body.insertBefore(row, body.rows[i] ?? null); });
    if (!body.rows.length) {
      const cell = body.insertRow().insertCell();
      cell.colSpan = model.get("columns").length;
      cell.className = "none";
      cell.textContent = model.get("empty");
    }
    mark();
  };
  const download = ({ name, text }) => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
    link.download = name;
    link.click();
    URL.revokeObjectURL(link.href);
  };
  body.onpointerleave = rows;
  body.addEventListener("focusout", () => setTimeout(rows));
  model.on("change:rows change:empty", rows);
  model.on("change:columns change:numeric change:wide", () => { newColumns = true; rows(); });
  model.on("change:selected", mark);
  model.on("msg:custom", download);
  rows();
}
export default { render };
