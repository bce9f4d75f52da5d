// The form of a rule. Its fields write a sentence, and the sentence is the rule: it can say all that a rule can, and it may be edited itself.
"use strict";

room.messages = new Map(); // rule id -> the attributes of the message that made it what it is

/** The attributes of a new rule to begin with. */
function proposal() {
  const { schema } = room, ids = room.rules.map((rule) => BigInt(rule.id)), next = ids.reduce((most, id) => (id > most ? id : most), 0n) + 1n;
  const keys = schema.fields.filter((field) => !schema.id_fields.includes(field.name) && field.name !== schema.time_field && ["long", "string", "boolean"].includes(field.type) && !field.virtual);
  const per = keys.length ? ` per ${keys[0].name}` : "";
  return attributesOf(`${next}: COUNT(events)${per} over 1 min > 10`, schema);
}

/** Whether a text is a whole message, as files, logs and lessons have them: JSON, a line of text, or a sentence after the rule's id. */
const isMessage = (text) => /^\s*[\d{]/.test(text);

/** The form beside, with a rule in it. */
function openForm(title, given) {
  const { schema } = room, names = schema.fields.filter((field) => !field.virtual).map((field) => field.name), controls = {};
  const numeric = schema.fields.filter((field) => field.numeric && !field.virtual).sort((a, b) => Number(b.scale > 0) - Number(a.scale > 0)).map((field) => field.name);
  const texts = schema.fields.filter((field) => field.type === "string" && !field.virtual).map((field) => field.name);
  const row = (label, name, control) => {
    controls[name] = control;
    control.setAttribute("aria-label", label);
    control.oninput = name === "sentence" ? readSentenceOf : name === "id" || name === "state" ? judge : writeSentence;
    return make("label", {}, make("span", {}, label), control);
  };
  const select = (options) => make("select", {}, ...options.map((option) => make("option", {}, option)));
  const input = (placeholder = "") => make("input", { placeholder, spellcheck: false, autocomplete: "off" });
  const picks = (label, name) => {
    const buttons = names.map((each) => make("button", { type: "button", class: "jupyter-button", onclick: () => {
      const on = controls[name].value.includes(each);
      controls[name].value = on ? controls[name].value.filter((other) => other !== each) : [...controls[name].value, each];
      writeSentence();
    } }, each));
    controls[name] = {
      get value() { return this.chosen; },
      set value(chosen) { this.chosen = chosen; buttons.forEach((button) => button.setAttribute("aria-pressed", String(chosen.includes(button.textContent)))); },
    };
    return make("fieldset", { class: "lab-picks" }, make("legend", {}, label), make("div", {}, ...buttons));
  };
  const about = [row(say("rule id"), "id", input()), row(say("state"), "state", select(["ACTIVE", "PAUSE"]))];
  const fields = {
    keys: picks(say("grouped by"), "keys"), filter: row(say("only where"), "filter", input(`${texts.at(-1) ?? names.at(-1)} = …`)), function: row(say("function"), "function", select(Object.keys(LAYOUT.running))),
    field: row(say("of"), "field", select([])), unique: picks(say("unique"), "unique"), operator: row(say("alert if"), "operator", select(Object.values(SYMBOLS))), limit: row(say("limit"), "limit", input()),
    window: row(say("within"), "window", input("10s, 20m, 24h, 30d")), when: row(say("and when"), "when", input(`${numeric[0] ?? names[0]} > …`)),
  };
  const pair = (...both) => make("div", { class: "lab-pair" }, ...both);
  const parts = [fields.keys, fields.filter, pair(fields.function, fields.field), fields.unique, pair(fields.operator, fields.limit), fields.window, fields.when];
  const more = make("p", { class: "lab-soft" }, say("This rule says more than the fields can show: edit its sentence."));
  const sentence = row(say("as a sentence"), "sentence", make("textarea", { spellcheck: false }));
  const verdict = make("div", { id: "verdict" }), answer = make("div"), publish = make("button", { class: "jupyter-button mod-primary" }, say("Publish"));
  controls.sentence.setAttribute("aria-describedby", "verdict");
  let text = "", then = "";

  /** Shows the fields that the function takes. */
  function fit() {
    const { of } = LAYOUT.running[controls.function.value], options = of === "field" ? numeric : ["events", ...names], before = controls.field.value;
    fields.field.hidden = of === "unique";
    fields.unique.hidden = of !== "unique";
    controls.field.replaceChildren(...options.map((name) => make("option", {}, name)));
    if (options.includes(before)) controls.field.value = before;
  }

  function fill(rule) {
    const [{ of, operator, limit }] = rule.conditions;
    for (const part of parts) part.hidden = !rule.isPlain;
    more.hidden = rule.isPlain;
    then = meaning({ ...rule, when: null }).slice(summary({ ...rule, when: null, atMost: null, action: null }).length);
    if (!rule.isPlain) return;
    controls.function.value = of.function;
    fit();
    const values = { keys: rule.keys, filter: rule.filter ? whenText(rule.filter) : "", field: of.field ?? "events", unique: of.unique, operator: SYMBOLS[operator], limit: limitText(limit), window: durationText(of.windowMs), when: rule.when ? whenText(rule.when) : "" };
    for (const name in values) controls[name].value = values[name];
  }

  function writeSentence() {
    fit();
    const value = (name) => (Array.isArray(controls[name].value) ? controls[name].value.join(", ") : controls[name].value.trim()), after = (word, name) => (value(name) ? ` ${word} ${value(name)}` : "");
    const running = LAYOUT.running[controls.function.value], of = running.of === "unique" ? value("unique") : value("field");
    controls.sentence.value = `${value("function")}(${of})${after("where", "filter")}${after("per", "keys")}${running.hasWindow ? ` over ${value("window")}` : ""} ${value("operator")} ${value("limit")}${value("when") && ","}${after("when", "when")}${then}`;
    judge();
  }

  function readSentenceOf() {
    const rule = judge();
    if (!rule) return;
    if (isMessage(controls.sentence.value)) {
      write(rule);
      judge();
    }
    fill(rule);
  }

  function write(rule) {
    controls.id.value = String(rule.id);
    controls.state.value = rule.state;
    controls.sentence.value = meaning(rule);
  }

  /** The rule that the form is, or null; and says what is wrong with it. */
  function judge() {
    const given = controls.sentence.value;
    let rule = null;
    try {
      text = isMessage(given) ? given : jsonText(new Map([["ruleId", controls.id.value.trim()], ["ruleState", controls.state.value], ...readSentence(given, schema)]));
      const message = readMessage(text, schema);
      rule = message.rule ?? readRule(attributesOf(text, schema), message.id, message.state, schema);
      const before = room.rules.find((each) => each.id === String(rule.id));
      verdict.replaceChildren(statusLine(before ? say("{meaning} · replaces rule {id} version {version}", { ...before, meaning: meaning(rule) }) : meaning(rule), "good"));
    } catch (error) {
      if (!(error instanceof Bad)) throw error;
      verdict.replaceChildren(statusLine(say("Not a rule yet: {problem}", { problem: translated(error.message) }), "bad"));
    }
    publish.disabled = rule === null;
    controls.sentence.setAttribute("aria-invalid", String(rule === null));
    return rule;
  }

  const { rule } = readMessage(jsonText(given), schema);
  write(rule);
  fill(rule);
  publish.onclick = () => sendRule(text, answer);
  const change = (label, state) => make("button", { class: "jupyter-button", "data-state": state, onclick: () => sendRule(`{"ruleId":${rule.id},"ruleState":"${state}"}`, answer) }, label);
  const inForce = room.rules.some((each) => each.id === String(rule.id)) ? [change(say("Activate"), "ACTIVE"), change(say("Pause"), "PAUSE"), change(say("Delete"), "DELETE")] : [];
  beside(title, make("div", { class: "lab-form" }, pair(...about), ...parts, more, sentence), make("div", { class: "lab-foot" }, verdict, make("div", { class: "lab-tools" }, publish, ...inForce), answer));
  room.chosen = String(rule.id);
  judge();
  showButtons();
}

/** `answer`: where the engine's answer is to stand. */
function sendRule(text, answer) {
  Object.assign(room, { sent: text, answer });
  send({ kind: "control", text });
}

/** The engine's answer to what was sent last. */
function answered(ack) {
  const good = ack.status === "accepted", { ruleId: id, version, ruleState: state } = ack;
  if (good && state === "DELETE") room.messages.delete(id);
  else if (good) {
    const sent = attributesOf(room.sent, room.schema), isState = sent.size === 2; // of the rule that there is
    room.messages.set(id, isState ? new Map([...room.messages.get(id), ...sent]) : sent);
  }
  room.answer?.replaceChildren(statusLine(good ? say("accepted rule {id} version {version}: {state}", { id, version, state }) : say("rejected: {reason}", { reason: translated(ack.reason) }), good ? "good" : "bad"));
  if (good && !room.source.file) sessionStorage.setItem("rules", JSON.stringify([...room.messages.values()].map(jsonText)));
}

function chooseRule(id) {
  if (room.messages.has(id)) openForm(say("Rule {id}", { id }), room.messages.get(id));
}

/** Of Activate, Pause, Delete those that mean something now. */
function showButtons() {
  const rule = room.rules.find((each) => each.id === room.chosen);
  for (const button of document.querySelectorAll("#side-body [data-state]")) button.hidden = !rule || rule.state === button.dataset.state;
}

/** Opens a source with its first rules. */
function begin(source, rules) {
  const schema = schemaOf(source.schema), given = rules.map((text) => attributesOf(text, schema));
  room.messages = new Map(given.map((attributes) => [String(textOf(attributes.get("ruleId"))), attributes]));
  open(source, rules);
}

/** The simulated stream, with the rules that this tab had on it before the page was loaded again. */
function start() {
  const source = { schema: data.schemas[0], skip: 0 };
  try {
    begin(source, JSON.parse(sessionStorage.getItem("rules")) ?? data.rules.payments);
  } catch {
    begin(source, data.rules.payments); // what is kept there are no rules
  }
}

byId("again").onclick = () => open(room.source, [...room.messages.values()].map(jsonText));
byId("back").onclick = start;
speak(firstLanguage());
start();
