// The page itself: shows what the worker reports, and sends it rules, also while they are written.
"use strict";

const byId = (id) => document.getElementById(id);
const data = JSON.parse(byId("data").textContent);
LAYOUT.never = BigInt(LAYOUT.never);
const RATES = [10, 50, 100, 200, 500, 1000, 2000, 5000], KEPT_ALERTS = 2000, SHOWN_ALERTS = 200, KEPT_LETTERS = 50, KEPT_S = 120, HEAD = 1 << 20, MOST_TEXT = 200, MOST_TITLE = 60;
const number = (value) => Math.round(value).toLocaleString("en-US");
const short = (value) => {
  for (const [unit, size] of [["G", 1e9], ["M", 1e6], ["k", 1e3]]) if (value >= size) return `${(value / size).toFixed(value / size >= 100 ? 0 : value / size >= 10 ? 1 : 2)} ${unit}`;
  return number(value);
};
const utc = (ms) => new Date(ms).toISOString().replace("T", " ").slice(0, -1);

/** An element with a class, texts and elements in it. */
function make(kind, attributes = {}, ...inside) {
  const made = document.createElement(kind);
  for (const [name, value] of Object.entries(attributes)) name in made && typeof value !== "string" ? (made[name] = value) : made.setAttribute(name, value);
  made.append(...inside);
  return made;
}
const statusLine = (text, kind = "") => make("p", { class: `lab-said ${kind}`, role: "status" }, visible(text));

/** What the widgets' own scripts call a model. */
class Model {
  constructor(values, sent = () => {}) { this.values = values; this.sent = sent; this.listeners = new Map(); }
  get(name) { return this.values[name]; }
  set(name, value) {
    this.values[name] = value;
    for (const [names, call] of this.listeners) if (names.split(" ").includes(`change:${name}`)) call();
  }
  save_changes() {}
  send(message) { this.sent(message); }
  on(names, call) { this.listeners.set(names, call); }
}

// -- the engine -------------------------------------------------------------------------------------------------------

const room = { report: null, worker: null, started: null, opened: 0, asked: 0, answers: new Map(), schema: null, alerts: [], letters: [], rules: [], lists: [], listMessages: [], sent: new Map(), fired: {}, samples: [], source: null, window: null, bursts: 0, titled: false };

/** Starts the worker, in which Python and the engine are. */
async function startWorker() {
  const { script, ...python } = JSON.parse(byId("python").textContent);
  byId("python").remove();
  const layout = `const LAYOUT = ${JSON.stringify(data.layout)}; LAYOUT.never = BigInt(LAYOUT.never);\n`, engine = byId("engine").textContent.replace(/^const LAYOUT = .*$/m, "");
  room.worker = new Worker(URL.createObjectURL(new Blob([await unpacked(script), layout, engine, byId("worker").textContent], { type: "text/javascript" })));
  room.worker.onmessage = ({ data: message }) => ({ ack: answered, answer: settle, state: show })[message.kind](message);
  room.worker.onerror = (error) => pulse("bad", say("the engine ended: {error}", { error: error.message }));
  room.worker.postMessage({ kind: "start", loop: data.wasm, python });
}

/** What the worker answers to a question. */
function ask(name, ...given) {
  const number = ++room.asked;
  send({ kind: "ask", number, name, given });
  return new Promise((settled) => { room.answers.set(number, settled); });
}

function settle({ number, answer }) {
  room.answers.get(number)(answer);
  room.answers.delete(number);
}

/** A new engine, on the simulated stream or on somebody's file, with rules, or others if one of them is none, and with messages that changed lists. */
function open(source, rules, otherRules = [], lists = []) {
  room.schema = schemaOf(source.schema);
  Object.assign(room, { alerts: [], letters: [], rules: [], lists: [], listMessages: [...lists], fired: {}, samples: [], source, report: null, bursts: 0, opened: room.opened + 1 });
  Object.assign(byId("planted"), { className: "", textContent: "" });
  const rate = Number(rateModel.get("texts")[rateModel.get("position")].replace(",", ""));
  send({ kind: "open", number: room.opened, schema: source.schema, rules, otherRules, lists, rate, file: source.file, skip: source.skip });
  for (const id of ["bursts", "rate", "fast"]) byId(id).hidden = Boolean(source.file);
  for (const id of ["again", "back"]) byId(id).hidden = !source.file;
  setPressed("pause", false);
  setPressed("fast", false);
  alertTable.set("rows", []);
  setAlertColumns(false);
  close();
}

const send = (message) => room.started.then(() => room.worker.postMessage(message));
const setPressed = (id, on) => byId(id).setAttribute("aria-pressed", String(on));
const pressed = (id) => byId(id).getAttribute("aria-pressed") === "true";

function pulse(kind, text) {
  byId("pulse").className = `lab-pulse ${kind}`;
  if (byId("pulse").textContent !== text) byId("pulse").textContent = text;
}

/** Shows a report of the worker, unless it is still about what was open before. */
function show(report) {
  if (report.number !== room.opened) return;
  const { counts } = report, name = room.source.file?.name, letters = counts.deadLetters;
  room.alerts.push(...report.alerts);
  room.alerts.splice(0, room.alerts.length - KEPT_ALERTS);
  room.letters.push(...report.letters);
  room.letters.splice(0, room.letters.length - KEPT_LETTERS);
  Object.assign(room, { rules: report.rules, fired: report.fired, report });
  room.samples.push([report.now, report.perSecond]);
  while (room.samples[0][0] < report.now - KEPT_S * 1000) room.samples.shift();
  const many = letters >= Math.max(0.01 * counts.records, 10), all = counts.records && letters === counts.records;
  const state = report.ended ? say("{name} is played: {count} records", { name, count: number(counts.records) }) : pressed("pause") ? say("the stream is paused")
    : name ? say("the engine plays {name}", { name }) : say("the engine runs in this page");
  pulse(all ? "bad" : many ? "warning" : "good", state);
  const facts = [
    [say("evaluated/s"), number(report.perSecond), say("events that the engine evaluates")],
    [say("evaluated"), short(counts.records), say("{count} records so far", { count: number(counts.records) })],
    [say("stored"), short(report.stored), say("{count} events that a window may still need", { count: number(report.stored) })],
    [say("memory, bytes"), short(report.bytes), say("the memory of the engine in this page")],
    [say("alerts"), short(counts.alerts), say("{count} alerts so far", { count: number(counts.alerts) })],
    [say("dead letters"), number(letters), say("records that could not be read")],
  ];
  byId("facts").replaceChildren(...facts.map(([called, value, meant]) => make("div", { title: meant }, make("b", {}, value), make("span", {}, called))));
  const last = room.letters.length && translated(room.letters.at(-1).reason);
  byId("said").replaceChildren(...(last ? [statusLine(say("{count} of {all} records are dead letters, the last: {reason}", { count: number(letters), all: number(counts.records), reason: last }), many ? "warning" : "")] : []));
  drawRate(report);
  ruleTable.set("rows", report.rules.map((rule) => [rule.id, `${rule.id} v${rule.version}`, rule.state, visible(rule.summary), alertsOf(rule.id, report)]));
  if (report.alerts.length) showAlerts();
  showButtons();
  if (report.lists) room.lists = report.lists;
  showLists();
}

function alertsOf(id, { fired, inShadow, suppressed }) {
  let count = number(fired[id] ?? 0);
  if (inShadow[id]) count = say("{count} (+ {more} in the shadow)", { count, more: number(inShadow[id]) });
  return suppressed[id] ? say("{count} (+ {suppressed} suppressed)", { count, suppressed: number(suppressed[id]) }) : count;
}

const alertKey = (alert) => JSON.parse(alert.json).alertId;
const valueText = ({ aggregate, operator, limit }) => `${thousands(aggregate)} ${operator} ${thousands(limit)}`;
/** A text of at most so many characters, with nothing in it that a browser obeys. */
const cut = (text, most = MOST_TEXT) => { const seen = [...visible(text.slice(0, 2 * most))]; return seen.length > most ? `${seen.slice(0, most - 1).join("")}…` : seen.join(""); };

/** What the alert's rule measured: of several conditions the first that holds. */
function measuredText(alert) {
  if (!alert.absent) return valueText(alert);
  const { isSome, time } = alert.absent;
  return isSome ? say("nothing that counts came within {time}", { time }) : say("nothing came within {time}", { time });
}

/** The list has a column of titles from the first alert on that has one. */
function setAlertColumns(titled) {
  room.titled = titled;
  Object.assign(alertTable.values, { numeric: [titled ? 3 : 2], wide: titled ? [1, 2] : [1] });
  alertTable.set("columns", [say("rule"), ...(titled ? [say("title")] : []), say("group"), say("value"), say("event time (UTC)")]);
}

function showAlerts() {
  const newest = room.alerts.slice(-SHOWN_ALERTS).reverse();
  if (!room.titled && newest.some(({ title }) => title)) setAlertColumns(true);
  alertTable.set("rows", newest.map((alert) => {
    const { title, severity } = alert, rule = `${alert.ruleId} v${alert.version}`;
    return [alertKey(alert), severity ? `${rule} ${severity}` : rule, ...(room.titled ? [cut(title ?? "", MOST_TITLE)] : []), cut(alert.key), measuredText(alert), utc(alert.eventTime)];
  }));
}

/** The rate as a line, as a sentence, and as a table. */
function drawRate(report) {
  const most = Math.max(...room.samples.map(([, rate]) => rate), 1), ago = (time) => (report.now - time) / 1000, span = Math.max(ago(room.samples[0][0]), 10);
  const points = room.samples.map(([time, rate]) => `${(240 - (240 * ago(time)) / span).toFixed(1)},${(98 - (94 * rate) / most).toFixed(1)}`), [left] = points[0].split(",");
  byId("chart").innerHTML = `<polygon points="${left},100 ${points.join(" ")} 240,100"/><polyline points="${points.join(" ")}"/>`;
  const text = say("Events evaluated per second over the last {seconds} s: now {now}, at most {most}.", { seconds: number(span), now: number(report.perSecond), most: number(most) });
  byId("chart-text").textContent = text;
  byId("chart").setAttribute("aria-label", text);
  if (!byId("chart-table").open) return;
  const rows = new Map(room.samples.map(([time, rate]) => [Math.round(ago(time) / 10) * 10, rate])), cell = (kind, text) => make(kind, { class: "number" }, text);
  byId("chart-table").lastElementChild.replaceChildren(make("table", {}, make("tr", {}, ...[say("seconds ago"), say("evaluated/s")].map((name) => make("th", { class: "number", scope: "col" }, name))),
    ...[...rows].reverse().map(([seconds, rate]) => make("tr", {}, cell("td", String(seconds)), cell("td", number(rate))))));
}

// -- tables -----------------------------------------------------------------------------------------------------------

const rateModel = new Model({ label: "", texts: RATES.map(number), position: RATES.indexOf(200), text: "200", disabled: false }, ({ text, move }) => {
  const position = RATES.map(number).indexOf(text);
  Object.assign(rateModel.values, { position, answered: move });
  rateModel.set("text", text);
  send({ kind: "set", values: {}, rate: RATES[position] });
});
const ruleTable = new Model({ columns: [], rows: [], numeric: [3], wide: [2], selected: "", label: "", empty: "", steady: false });
const alertTable = new Model({ columns: [], rows: [], numeric: [2], wide: [1], selected: "", label: "", empty: "", steady: true });
renderSlider({ model: rateModel, el: byId("rate") });
for (const [model, id, chosen] of [[ruleTable, "rules", chooseRule], [alertTable, "alerts", chooseAlert]]) {
  renderTable({ model, el: byId(id) });
  model.on("change:selected ", () => model.get("selected") && chosen(model.get("selected")));
}

// -- the reader's language ----------------------------------------------------------------------------------------------

/** Says everything in a language from now on; the browser remembers it for as long as the page is open. */
function speak(chosen) {
  choose(data.words[chosen] ?? {}, data.messages[chosen] ?? {});
  document.documentElement.lang = chosen;
  byId("language").value = chosen;
  for (const element of document.querySelectorAll("[data-say]")) {
    element.english ??= element.textContent;
    element.textContent = say(element.english);
  }
  for (const name of ["title", "aria-label"]) for (const element of document.querySelectorAll(`[data-say-${name}]`)) element.setAttribute(name, say(element.getAttribute(`data-say-${name}`)));
  document.title = say("Control room");
  rateModel.set("label", say("events/s"));
  Object.assign(ruleTable.values, { label: say("Rules"), empty: say("No rule is in force. Press New rule to create one.") });
  ruleTable.set("columns", [say("rule"), say("state"), say("alerts when"), say("alerts")]);
  Object.assign(alertTable.values, { label: say("Alerts, newest first"), empty: say("no alert yet") });
  setAlertColumns(room.titled);
  for (const note of document.querySelectorAll(".lab-held")) note.textContent = say("updates pause while you are here");
  const bursts = {
    pair: [say("pair"), say("a few large payments of one payer to one beneficiary")], beneficiary: [say("beneficiary"), say("payments of many payers to one beneficiary, large in total")],
    surge: [say("surge"), say("very many payments of one type within two seconds")],
  };
  byId("bursts").replaceChildren(make("span", {}, say("plant")), ...Object.entries(bursts).map(([name, [called, meant]]) => make("button", { class: "jupyter-button", title: meant, onclick: () => plant(name, called) }, called)));
  if (room.report) show({ ...room.report, alerts: [], letters: [] });
  showAlerts();
}

/** Starts a burst, and says so: with its number, because the same text twice is not read aloud twice. */
function plant(name, called) {
  send({ kind: "burst", name });
  room.bursts += 1;
  byId("planted").className = "lab-said";
  byId("planted").textContent = say("burst {number} planted: {kind}", { number: room.bursts, kind: called });
}

/** The language chosen before, else the browser's first one that the page knows. */
function firstLanguage() {
  const known = ["en", ...Object.keys(data.words)], wanted = [sessionStorage.getItem("language"), ...navigator.languages.map((each) => each.slice(0, 2))];
  return wanted.find((each) => known.includes(each)) ?? "en";
}

byId("language").onchange = ({ target }) => {
  sessionStorage.setItem("language", target.value);
  close();
  speak(target.value);
};

// -- the panel beside -------------------------------------------------------------------------------------------------

function beside(title, ...inside) {
  if (byId("side").hidden) room.before = room.opener ?? document.activeElement;
  room.opener = null;
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
  const { title, severity, labels, event } = alert, each = alert.conditions.map((condition, n) => `${alert.measured[n]}: ${condition.aggregate === null || condition.limit === null ? say("no value") : valueText(condition)}`);
  const rows = [
    [say("title"), title], [say("severity"), severity], [say("labels"), ...labels.map((pair) => cut(pair.join(" = ")))],
    [say("rule"), rule ? rule.summary : say("{id}, which is gone", { id: alert.ruleId })], [say("group"), alert.key], each.length ? [say("conditions"), ...each] : [say("value"), measuredText(alert)],
    [say("event"), alert.eventId], [say("event time (UTC)"), utc(alert.eventTime)], [say("event fields"), ...event.map((pair) => cut(pair.join(" = ")))],
  ].filter(([, text]) => text);
  const list = make("dl", { class: "lab-carried" }, ...rows.flatMap(([name, ...texts]) => [make("dt", {}, name), ...texts.map((text) => make("dd", {}, visible(text)))]));
  const answer = make("div"), mute = make("button", { class: "jupyter-button", title: say("its alerts are no longer raised; Lists shows what is muted"), onclick: () => sendRule(alert.mute, answer) }, say("Mute this group"));
  beside(say("Alert of rule {id}", { id: alert.ruleId }), openWindow(alert), list, make("div", { class: "lab-tools" }, mute), answer, make("p", { class: "lab-soft" }, say("The alert as JSON:")), make("pre", {}, alert.json));
}

byId("close").onclick = close;
addEventListener("keydown", (event) => { if (event.key === "Escape" && !byId("side").hidden) close(); });
byId("new").onclick = () => { ruleTable.set("selected", ""); openForm(say("New rule"), proposal()); };
byId("pause").onclick = () => { setPressed("pause", !pressed("pause")); send({ kind: "set", values: { paused: pressed("pause") } }); };
byId("fast").onclick = () => { setPressed("fast", !pressed("fast")); send({ kind: "set", values: { fast: pressed("fast") } }); };
byId("download").onclick = () => {
  const cell = (value) => `"${(/^[=+\-@\t\r\n＝＋－＠]/.test(value) && !/^-?[\d.,]+$/.test(value) ? `'${value}` : value).replaceAll('"', '""')}"`;
  const columns = ["event time", "rule", "version", "group", "aggregate", "operator", "limit", "event", "severity", "title", "labels", "conditions", "event fields"];
  const rows = room.alerts.map(({ severity, title, labels, asJson, ...alert }) => [utc(alert.eventTime), alert.ruleId, alert.version, alert.key, alert.aggregate, alert.operator, alert.limit, alert.eventId,
    severity ?? "", title ?? "", labels.length ? JSON.stringify(Object.fromEntries(labels)) : "", asJson.conditions, asJson.event].map(String).map(cell).join(","));
  const link = make("a", { href: URL.createObjectURL(new Blob([[columns.join(","), ...rows].join("\r\n")], { type: "text/csv" })), download: "alerts.csv" });
  link.click();
  URL.revokeObjectURL(link.href);
};

// -- own events -------------------------------------------------------------------------------------------------------

/** What a file holds, and which of its fields are the id and the time: then it is played. */
async function offer(file) {
  if (file.name.endsWith(".toml")) { await learn(file); return; }
  let beginning;
  try {
    beginning = new Uint8Array(await file.slice(0, HEAD).arrayBuffer());
  } catch {
    beside(file.name, statusLine(say("this file cannot be read"), "bad"));
    return;
  }
  const name = file.name.replace(/(.)\.[^.]*$/, "$1"), found = await ask("inferred", name, beginning, file.size <= HEAD, data.schemas);
  if (found.error) {
    beside(file.name, statusLine(translated(found.error), "bad"));
    return;
  }
  const same = data.schemas.find((schema) => schema.name === found.known);
  const pick = (label, options) => make("label", {}, make("span", {}, label), make("select", { "aria-label": label }, ...options.map((name) => make("option", {}, name))));
  const id = pick(say("id"), found.ids), time = pick(say("event time"), found.times), derived = make("textarea", { "aria-label": say("derived fields"), "aria-describedby": "derived-said", spellcheck: false, placeholder: "day = date(time)" }), said = make("div", { id: "derived-said" });
  let judged = 0, schema = null;
  const judge = async () => {
    const turn = ++judged, of = same ?? { ...found.schema, id_fields: id.lastChild.value.split(", "), time_field: time.lastChild.value };
    const answer = derived.value.trim() || !same ? await ask("derived", of, derived.value) : { schema: same };
    if (turn !== judged) return;
    ({ schema } = answer);
    play.disabled = !schema;
    derived.setAttribute("aria-invalid", String(!schema));
    const made = schema?.more.map((field) => `${field.name} (${field.type})`).join(", ");
    said.replaceChildren(...(answer.error ? [statusLine(translated(answer.error), "bad")] : made ? [statusLine(say("Derived: {fields}.", { fields: made }), "good")] : []));
  };
  const play = make("button", { class: "jupyter-button mod-primary", onclick: () => open({ schema, file, skip: found.skip }, same ? data.rules[same.name] ?? [] : []) }, say("Play them"));
  const fields = found.schema.fields.filter((field) => !field.virtual).map((field) => `${field.name} (${field.type}${field.unit ? `, ${field.unit}` : ""})`).join(", ");
  const of = same ? [make("p", {}, say("These are {name}, a schema that the page knows.", { name: same.name }))] : [make("p", {}, say("Fields found: {fields}.", { fields: visible(fields) })), make("div", { class: "lab-form" }, id, time)];
  for (const { name } of same ? [] : data.schemas.filter(({ isLearned }) => isLearned)) {
    const reason = found.misfits?.[name];
    of.push(make("p", {}, reason ? say("They do not fit the schema {name}: {reason}", { name: visible(name), reason: visible(translated(reason)) }) : say("This is CSV. The page uses the schema {name} for JSON only.", { name: visible(name) })));
  }
  if (!same && found.texts.length) of.push(make("p", {}, say("Read as texts, because numbers are written as 1234.50: {names}. `lab infer` reads others, too.", { names: visible(found.texts.join(", ")) })));
  derived.oninput = id.lastChild.onchange = time.lastChild.onchange = judge;
  await judge();
  beside(file.name, ...of, make("div", { class: "lab-form" }, make("label", {}, make("span", {}, say("derived fields")), derived)), said, make("p", {}, say("They are read in this page and stay on this machine.")), make("div", { class: "lab-tools" }, play));
  play.focus();
}

/** A schema's file: the page knows it from now on. */
async function learn(file) {
  const found = await ask("schemaFile", (await file.slice(0, HEAD).text()));
  if (found.error) {
    beside(file.name, statusLine(translated(found.error), "bad"));
    return;
  }
  const { schema } = found;
  data.schemas = [...data.schemas.filter(({ name }) => name !== schema.name), { ...schema, isLearned: true }];
  beside(file.name, make("p", {}, say("The page knows the schema {name} now. Drop a file of its events: JSON, one record per line.", { name: visible(schema.name) })), make("p", {}, say("The page uses it for JSON only. In CSV, it finds the fields by itself; `lab replay` also reads CSV by the schema.")),
    make("p", {}, say("Fields: {fields}.", { fields: visible([...schema.fields, ...schema.more].map(({ name, type }) => `${name} (${type})`).join(", ")) })));
}

byId("file").onchange = ({ target }) => { if (target.files[0]) offer(target.files[0]); target.value = ""; };
addEventListener("dragover", (event) => { event.preventDefault(); document.body.classList.add("lab-dropping"); });
addEventListener("dragleave", () => document.body.classList.remove("lab-dropping"));
addEventListener("drop", (event) => {
  event.preventDefault();
  document.body.classList.remove("lab-dropping");
  if (event.dataTransfer.files[0]) offer(event.dataTransfer.files[0]);
});
