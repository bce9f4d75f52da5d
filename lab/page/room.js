// The page itself: shows what the worker tells, and sends it rules. Rules are judged here as well, while they are written.
"use strict";

const byId = (id) => document.getElementById(id);
const data = JSON.parse(byId("data").textContent);
LAYOUT.never = BigInt(LAYOUT.never);
const RATES = [10, 50, 100, 200, 500, 1000, 2000, 5000], KEPT_ALERTS = 2000, SHOWN_ALERTS = 200, KEPT_S = 120, HEAD = 1 << 20;
const number = (value) => Math.round(value).toLocaleString("en-US");
const short = (value) => {
  for (const [unit, size] of [["G", 1e9], ["M", 1e6], ["k", 1e3]]) if (value >= size) return `${(value / size).toFixed(value / size >= 100 ? 0 : value / size >= 10 ? 1 : 2)} ${unit}`;
  return number(value);
};
const utc = (ms) => new Date(ms).toISOString().replace("T", " ").slice(0, -1);
const visible = (text) => text.replace(/[\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]/g, (sign) => /[\ud800-\udfff]/.test(sign) ? sign : `\\u${sign.charCodeAt(0).toString(16).padStart(4, "0")}`);

/** An element with a class, texts and elements in it. */
function make(kind, attributes = {}, ...inside) {
  const made = document.createElement(kind);
  for (const [name, value] of Object.entries(attributes)) name in made && typeof value !== "string" ? (made[name] = value) : made.setAttribute(name, value);
  made.append(...inside);
  return made;
}
const said = (text, kind = "") => make("p", { class: `lab-said ${kind}`, role: "status" }, visible(text));

/** What the widgets' own scripts call a model. */
class Model {
  constructor(values, sent = () => {}) { this.values = values; this.sent = sent; this.heard = new Map(); }
  get(name) { return this.values[name]; }
  set(name, value) {
    this.values[name] = value;
    for (const [names, call] of this.heard) if (names.split(" ").includes(`change:${name}`)) call();
  }
  save_changes() {}
  send(message) { this.sent(message); }
  on(names, call) { this.heard.set(names, call); }
}

// -- the engine -------------------------------------------------------------------------------------------------------

const room = { worker: null, schema: null, alerts: [], letters: [], rules: [], fired: {}, samples: [], source: null };

/** A new engine, on the simulated stream or on somebody's file. */
function open(source, rules) {
  room.worker?.terminate();
  const script = `const LAYOUT = ${JSON.stringify(data.layout)}; LAYOUT.never = BigInt(LAYOUT.never);\n${byId("engine").textContent.replace(/^const LAYOUT = .*$/m, "")}\n${byId("worker").textContent}`;
  const address = URL.createObjectURL(new Blob([script], { type: "text/javascript" }));
  room.worker = new Worker(address);
  room.worker.onmessage = ({ data: message }) => (message.kind === "ack" ? answered(message.ack) : show(message));
  room.worker.onerror = (error) => pulse("bad", `the engine ended: ${error.message}`);
  room.schema = schemaOf(source.schema);
  Object.assign(room, { alerts: [], letters: [], rules: [], fired: {}, samples: [], source });
  const wasm = Uint8Array.from(atob(data.wasm), (sign) => sign.charCodeAt(0));
  room.worker.postMessage({ kind: "open", wasm, schema: source.schema, rules, rate: Number(rateModel.get("texts")[rateModel.get("position")].replace(",", "")), file: source.file, skip: source.skip });
  for (const id of ["bursts", "rate", "fast"]) byId(id).hidden = Boolean(source.file);
  for (const id of ["again", "back"]) byId(id).hidden = !source.file;
  setPressed("pause", false);
  setPressed("fast", false);
  alertTable.set("rows", []);
  close();
}

const send = (message) => room.worker.postMessage(message);
const setPressed = (id, on) => byId(id).setAttribute("aria-pressed", String(on));
const pressed = (id) => byId(id).getAttribute("aria-pressed") === "true";

function pulse(kind, text) {
  byId("pulse").className = `lab-pulse ${kind}`;
  if (byId("pulse").textContent !== text) byId("pulse").textContent = text;
}

/** Shows what the worker tells. */
function show(told) {
  const { counts } = told;
  room.alerts.push(...told.alerts);
  room.alerts.splice(0, room.alerts.length - KEPT_ALERTS);
  room.letters.push(...told.letters);
  room.letters.splice(0, room.letters.length - 50);
  room.rules = told.rules;
  room.fired = told.fired;
  room.samples.push([told.now, told.perSecond]);
  while (room.samples[0][0] < told.now - KEPT_S * 1000) room.samples.shift();
  const where = room.source.file ? `plays ${room.source.file.name}` : "runs in this page";
  const state = told.ended ? `${room.source.file.name} is played: ${number(counts.records)} records` : pressed("pause") ? "the stream is paused" : `the engine ${where}`;
  const many = counts.deadLetters >= Math.max(0.01 * counts.records, 10), all = counts.records && counts.deadLetters === counts.records;
  pulse(all ? "bad" : many ? "warning" : "good", state);
  const facts = [
    ["judged/s", number(told.perSecond), "events that the engine judges a second"],
    ["judged", short(counts.records), `${number(counts.records)} records so far`],
    ["held", short(told.held), `${number(told.held)} events that a window may still need`],
    ["memory, bytes", short(told.bytes), "what the engine has of this page's memory"],
    ["alerts", short(counts.alerts), `${number(counts.alerts)} alerts so far`],
    ["dead letters", number(counts.deadLetters), "records that could not be read"],
  ];
  byId("facts").replaceChildren(...facts.map(([name, value, meaning]) => make("div", { title: meaning }, make("b", {}, value), make("span", {}, name))));
  byId("said").replaceChildren(...(room.letters.length ? [said(`${number(counts.deadLetters)} of ${number(counts.records)} records are dead letters, the last: ${room.letters.at(-1).reason}`, many ? "warning" : "")] : []));
  drawRate(told);
  ruleTable.set("rows", told.rules.map((rule) => [rule.id, `${rule.id} v${rule.version}`, rule.state, visible(rule.meaning), number(told.fired[rule.id] ?? 0)]));
  if (told.alerts.length) alertTable.set("rows", room.alerts.slice(-SHOWN_ALERTS).reverse().map((alert) => [alertKey(alert), utc(alert.eventTime), `${alert.ruleId} v${alert.version}`, visible(alert.key), `${grouped(alert.aggregate)} ${alert.operator} ${grouped(alert.limit)}`]));
  showButtons();
}
const alertKey = (alert) => JSON.parse(alert.json).alertId;
const grouped = (text) => text.replace(/^-?\d+/, (digits) => digits.replace(/\d(?=(\d{3})+$)/g, "$&,"));

function drawRate(told) {
  const most = Math.max(...room.samples.map(([, rate]) => rate), 1), at = (time) => 240 - (240 * (told.now - time)) / (KEPT_S * 1000);
  const points = room.samples.map(([time, rate]) => `${at(time).toFixed(1)},${(98 - (94 * rate) / most).toFixed(1)}`).join(" ");
  byId("chart").innerHTML = `<polyline points="${points}"/>`;
  byId("chart-text").textContent = `events judged per second over the last ${KEPT_S} s, at most ${number(most)}`;
}

// -- tables -----------------------------------------------------------------------------------------------------------

const rateModel = new Model({ label: "events/s", texts: RATES.map(number), position: RATES.indexOf(200), text: "200", disabled: false }, ({ position }) => {
  rateModel.values.position = position;
  rateModel.set("text", number(RATES[position]));
  send({ kind: "set", values: {}, rate: RATES[position] });
});
const ruleTable = new Model({ columns: ["rule", "state", "alerts when", "alerts"], rows: [], numeric: [3], wide: [2], selected: "", label: "Rules", empty: "No rule is in force. New rule, above, opens a form for the first one.", steady: false });
const alertTable = new Model({ columns: ["event time (UTC)", "rule", "group", "held"], rows: [], numeric: [], wide: [2], selected: "", label: "Alerts, the newest first", empty: "no alert yet", steady: true });
renderSlider({ model: rateModel, el: byId("rate") });
for (const [model, id, chosen] of [[ruleTable, "rules", chooseRule], [alertTable, "alerts", chooseAlert]]) {
  renderTable({ model, el: byId(id) });
  model.on("change:selected ", () => model.get("selected") && chosen(model.get("selected")));
}

// -- the panel beside -------------------------------------------------------------------------------------------------

function beside(title, ...inside) {
  if (byId("side").hidden) room.before = document.activeElement;
  byId("side-title").textContent = title;
  byId("side-body").replaceChildren(...inside);
  byId("side").hidden = false;
  byId("room").classList.add("lab-open");
  if (getComputedStyle(byId("room")).getPropertyValue("--lab-narrow")) byId("side").scrollIntoView();
}

function close() {
  byId("side").hidden = true;
  byId("room").classList.remove("lab-open");
  for (const model of [ruleTable, alertTable]) if (model.get("selected")) model.set("selected", "");
  if (room.before?.isConnected) room.before.focus({ preventScroll: true });
}

function chooseAlert(key) {
  const alert = room.alerts.find((each) => alertKey(each) === key), rule = room.rules.find((each) => each.id === alert?.ruleId);
  if (!alert) return;
  const rows = [["rule", rule ? rule.meaning : `${alert.ruleId}, which is gone`], ["group", alert.key], ["held", `${grouped(alert.aggregate)} ${alert.operator} ${grouped(alert.limit)}`], ["event", alert.eventId], ["event time", `${utc(alert.eventTime)} UTC`]];
  beside(`Alert of rule ${alert.ruleId}`, make("dl", {}, ...rows.flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, visible(value))])), make("p", { class: "lab-soft" }, "As programs get it:"), make("pre", {}, alert.json));
}

byId("close").onclick = close;
addEventListener("keydown", (event) => { if (event.key === "Escape" && !byId("side").hidden) close(); });
byId("new").onclick = () => { ruleTable.set("selected", ""); openForm(`New rule`, proposal()); };
byId("pause").onclick = () => { setPressed("pause", !pressed("pause")); send({ kind: "set", values: { paused: pressed("pause") } }); };
byId("fast").onclick = () => { setPressed("fast", !pressed("fast")); send({ kind: "set", values: { fast: pressed("fast") } }); };
byId("again").onclick = () => open(room.source, rulesText());
byId("back").onclick = () => start();
byId("download").onclick = () => {
  const cell = (value) => `"${(/^[=+\-@\t\r\n]/.test(value) && !/^-?[\d.,]+$/.test(value) ? `'${value}` : value).replaceAll('"', '""')}"`;
  const rows = room.alerts.map((alert) => [utc(alert.eventTime), alert.ruleId, alert.version, alert.key, alert.aggregate, alert.operator, alert.limit, alert.eventId].map(String).map(cell).join(","));
  const link = make("a", { href: URL.createObjectURL(new Blob([["event time,rule,version,group,aggregate,operator,limit,event", ...rows].join("\r\n")], { type: "text/csv" })), download: "alerts.csv" });
  link.click();
  URL.revokeObjectURL(link.href);
};
for (const name of Object.keys(BURSTS)) byId("bursts").append(make("button", { class: "jupyter-button", onclick: () => send({ kind: "burst", name }) }, name));

// -- own events -------------------------------------------------------------------------------------------------------

/** What a file holds, and which of its fields are the id and the time: then it is played. */
async function offer(file) {
  let found;
  try {
    found = inferred(file.name, await file.slice(0, HEAD).text(), file.size <= HEAD);
  } catch (error) {
    beside(file.name, said(`${error instanceof Bad ? error.message : "this file cannot be read"}`, "bad"));
    return;
  }
  const names = new Set(found.schema.fields.map((field) => field.name));
  const known = found.skip ? null : data.schemas.find((schema) => schema.fields.filter((field) => ![...schema.optional].includes(field.name)).every((field) => names.has(field.name)));
  const pick = (label, options) => make("label", {}, make("span", {}, label), make("select", { "aria-label": label }, ...options.map((name) => make("option", {}, name))));
  const id = pick("id", found.ids), time = pick("event time", found.times);
  const play = make("button", { class: "jupyter-button mod-primary", onclick: () => {
    const schema = known ?? { ...found.schema, id_fields: [id.lastChild.value], time_field: time.lastChild.value };
    const rules = known ? data.rules[known.name] ?? [] : [];
    room.messages = new Map(rules.map((text) => [String(JSON.parse(text).ruleId), JSON.parse(text)]));
    open({ schema, file, skip: found.skip }, rules);
  } }, "Play them");
  const fields = found.schema.fields.filter((field) => !field.virtual).map((field) => `${field.name} (${field.type}${field.unit ? `, ${field.unit}` : ""})`).join(", ");
  const of = known ? [make("p", {}, `These are ${known.name}, a schema that the kit knows.`)] : [make("p", {}, `Fields found: ${visible(fields)}.`), make("div", { class: "lab-form" }, id, time)];
  beside(file.name, ...of, make("p", {}, "They are read here and stay here."), make("div", { class: "lab-tools" }, play));
  play.focus();
}

byId("file").onchange = ({ target }) => { if (target.files[0]) offer(target.files[0]); target.value = ""; };
addEventListener("dragover", (event) => { event.preventDefault(); document.body.classList.add("lab-dropping"); });
addEventListener("dragleave", () => document.body.classList.remove("lab-dropping"));
addEventListener("drop", (event) => {
  event.preventDefault();
  document.body.classList.remove("lab-dropping");
  if (event.dataTransfer.files[0]) offer(event.dataTransfer.files[0]);
});
