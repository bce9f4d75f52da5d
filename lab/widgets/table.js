// A table of which a row can be chosen, with the mouse or the keyboard (arrows, Enter); rows may change at any time.
function render({ model, el }) {
  const box = document.createElement("div");
  box.className = "lab-table";
  const table = document.createElement("table");
  const head = table.createTHead().insertRow();
  const body = table.createTBody();
  table.setAttribute("role", "grid");
  box.append(table);
  el.classList.add("lab-grid");
  el.append(box);

  const choose = (key) => { model.set("selected", key); model.save_changes(); };
  const header = () => {
    table.setAttribute("aria-label", model.get("label"));
    head.replaceChildren(...model.get("columns").map((name, i) => {
      const cell = document.createElement("th");
      cell.scope = "col";
      cell.textContent = name;
      if (model.get("numeric").includes(i)) cell.className = "number";
      return cell;
    }));
  };
  const mark = () => {
    for (const row of body.rows) row.setAttribute("aria-selected", String(row.dataset.key === model.get("selected")));
  };
  const rows = () => {
    const focused = body.contains(document.activeElement) ? document.activeElement.dataset.key : null;
    const numeric = model.get("numeric"), wide = model.get("wide");
    body.replaceChildren(...model.get("rows").map(([key, ...values]) => {
      const row = document.createElement("tr");
      row.dataset.key = key;
      row.tabIndex = 0;
      values.forEach((value, i) => {
        const cell = row.insertCell();
        cell.textContent = value;
        cell.className = numeric.includes(i) ? "number" : wide.includes(i) ? "wide" : "";
      });
      row.onclick = () => choose(key);
      row.onkeydown = (event) => {
        const next = { ArrowDown: row.nextElementSibling, ArrowUp: row.previousElementSibling }[event.key];
        if (next) next.focus();
        else if (event.key === "Enter" || event.key === " ") choose(key);
        else return;
        event.preventDefault();
      };
      return row;
    }));
    if (!body.rows.length) {
      const cell = body.insertRow().insertCell();
      cell.colSpan = model.get("columns").length;
      cell.className = "none";
      cell.textContent = model.get("empty");
    }
    mark();
    if (focused) [...body.rows].find((row) => row.dataset.key === focused)?.focus({ preventScroll: true });
  };
  const download = ({ name, text }) => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
    link.download = name;
    link.click();
    URL.revokeObjectURL(link.href);
  };
  model.on("change:rows change:empty", rows);
  model.on("change:selected", mark);
  model.on("msg:custom", download);
  header();
  rows();
}
export default { render };
