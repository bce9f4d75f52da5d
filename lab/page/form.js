// The form of a rule: a control for each attribute, the message that they make, and what it means or what is wrong with it.
"use strict";

room.messages = new Map(); // rule id -> the message that made it what it is
const NAME = /^[^\s"'=<>,();|&!]+/;

/** Conditions in words as a message has them: field = value, field in (value, value), joined by and. Throws a Bad. */
function readConditions(text) {
  const found = new Map();
  let rest = text.trim();
  const fail = () => { throw new Bad(`only where: expected field = value, field in (value, value), joined by and, at ${shown(rest)}`); };
  const take = (pattern) => {
    const match = pattern.exec(rest);
    if (match) rest = rest.slice(match[0].length).trimStart();
    return match?.[0];
  };
  const value = () => {
    const quotedText = take(/^"(?:[^"\\]|\\.)*"/) ?? take(/^'[^']*'/);
    if (quotedText === undefined) return take(/^[^\s"'=<>,();|&!]+/) ?? fail();
    try { return quotedText[0] === '"' ? JSON.parse(quotedText) : quotedText.slice(1, -1); } catch { return fail(); }
  };
  while (rest) {
    if (found.size && !/^and$/i.test(take(/^and\b/i) ?? "")) fail();
    const name = take(NAME) ?? fail(), values = [];
    if (take(/^=/)) values.push(value());
    else if (take(/^in\b/i)) {
      if (!take(/^\(/)) fail();
      do values.push(value()); while (take(/^,/));
      if (!take(/^\)/)) fail();
    } else fail();
    if (found.has(name)) fail();
    found.set(name, values);
  }
  return found;
}

/** A new rule to begin with. */
function proposal() {
  const { schema } = room, ids = room.rules.map((rule) => Number(rule.id));
  const keys = schema.fields.filter((field) => !schema.id_fields.includes(field.name) && field.name !== schema.time_field && ["long", "string", "boolean"].includes(field.type) && !field.virtual);
  return { ruleId: Math.max(0, ...ids) + 1, ruleState: "ACTIVE", groupingKeyNames: keys.slice(0, 1).map((field) => field.name), aggregatorFunctionType: "COUNT", limitOperatorType: ">", limit: 10, window: "1m" };
}

/** The form beside, with a rule's message in it. */
function openForm(title, message) {
  const { schema } = room, names = schema.fields.filter((field) => !field.virtual).map((field) => field.name);
  const controls = {}, changed = () => judge();
  const row = (label, name, control) => {
    controls[name] = control;
    control.setAttribute("aria-label", label);
    control.oninput = changed;
    return make("label", {}, make("span", {}, label), control);
  };
  const select = (options) => make("select", {}, ...options.map((option) => make("option", {}, option)));
  const picks = (label, name, chosen) => {
    controls[name] = [...chosen];
    const buttons = names.map((each) => {
      const button = make("button", { type: "button", class: "jupyter-button", "aria-pressed": String(chosen.includes(each)) }, each);
      button.onclick = () => {
        const on = controls[name].includes(each);
        controls[name] = on ? controls[name].filter((other) => other !== each) : [...controls[name], each];
        button.setAttribute("aria-pressed", String(!on));
        changed();
      };
      return button;
    });
    return make("fieldset", { class: "lab-picks" }, make("legend", {}, label), make("div", {}, ...buttons));
  };
  const functions = Object.keys(LAYOUT.running), numeric = schema.fields.filter((field) => field.numeric && !field.virtual).sort((a, b) => Number(b.scale > 0) - Number(a.scale > 0)).map((field) => field.name);
  const parts = {
    id: row("rule id", "ruleId", make("input")), state: row("state", "ruleState", select(["ACTIVE", "PAUSE"])),
    keys: picks("grouped by", "groupingKeyNames", message.groupingKeyNames ?? []), filter: row("only where", "filter", make("input", { placeholder: `${names.at(-1)} = …` })),
    function: row("function", "aggregatorFunctionType", select(functions)), field: row("of", "aggregateFieldName", select(numeric)), unique: picks("unique", "unique", message.unique ?? []),
    operator: row("alert if", "limitOperatorType", select(Object.values(SYMBOLS))), limit: row("limit", "limit", make("input")), window: row("within", "window", make("input", { placeholder: "10s, 20m, 24h, 30d" })),
  };
  for (const name of ["ruleId", "ruleState", "aggregatorFunctionType", "aggregateFieldName", "limitOperatorType", "limit", "window"]) if (message[name] !== undefined && message[name] !== null) controls[name].value = message[name];
  controls.filter.value = Object.entries(message.filter ?? {}).map(([name, values]) => { const all = [values].flat().map((value) => (/^[\w.-]+$/.test(value) ? value : JSON.stringify(value))); return all.length > 1 ? `${name} in (${all.join(", ")})` : `${name} = ${all[0]}`; }).join(" and ");
  const verdict = make("div"), answer = make("div"), publish = make("button", { class: "jupyter-button mod-primary" }, "Publish");
  let text = "";
  const judge = () => {
    const of = LAYOUT.running[controls.aggregatorFunctionType.value].of;
    parts.field.hidden = of !== "field";
    parts.unique.hidden = of !== "unique";
    try {
      text = messageOf(controls, of, message);
      const { rule } = readMessage(text, schema), before = room.rules.find((each) => each.id === String(rule.id));
      verdict.replaceChildren(said(meaning(rule, schema) + (before ? ` · replaces rule ${before.id} version ${before.version}` : ""), "good"));
      publish.disabled = false;
    } catch (error) {
      if (!(error instanceof Bad)) throw error;
      verdict.replaceChildren(said(`Not a rule yet: ${error.message}`, "bad"));
      publish.disabled = true;
    }
  };
  publish.onclick = () => { room.answer = answer; sendRule(text); };
  const change = (label, state) => make("button", { class: "jupyter-button", "data-state": state, onclick: () => { room.answer = answer; sendRule(JSON.stringify({ ruleId: message.ruleId, ruleState: state })); } }, label);
  const inForce = room.rules.some((rule) => rule.id === String(message.ruleId)) ? [change("Activate", "ACTIVE"), change("Pause", "PAUSE"), change("Delete", "DELETE")] : [];
  beside(title, make("div", { class: "lab-form" }, ...Object.values(parts)), make("div", { class: "lab-foot" }, verdict, make("div", { class: "lab-tools" }, publish, ...inForce), answer));
  room.chosen = String(message.ruleId);
  judge();
  showButtons();
}

/** The form's controls as a message; a number is written as it stands, so that it stays exact. */
function messageOf(controls, of, before) {
  const kept = Object.fromEntries(["action", "ttl", "severity", "title", "labels"].filter((name) => name in before).map((name) => [name, before[name]]));
  const message = { ...kept, ruleState: controls.ruleState.value, groupingKeyNames: controls.groupingKeyNames, aggregatorFunctionType: controls.aggregatorFunctionType.value, limitOperatorType: controls.limitOperatorType.value, limit: controls.limit.value.trim(), window: controls.window.value.trim() };
  if (of === "field") message.aggregateFieldName = controls.aggregateFieldName.value;
  if (of === "unique") message.unique = controls.unique;
  const filter = readConditions(controls.filter.value), asTyped = (name, value) => room.schema.byName.get(name)?.type === "long" && /^-?\d{1,19}$/.test(value) ? value : JSON.stringify(value);
  const conditions = [...filter].map(([name, values]) => `${JSON.stringify(name)}:[${values.map((value) => asTyped(name, value)).join(",")}]`);
  return `{"ruleId":${JSON.stringify(controls.ruleId.value.trim())},${conditions.length ? `"filter":{${conditions.join(",")}},` : ""}${JSON.stringify(message).slice(1)}`;
}

function sendRule(text) {
  room.sent = text;
  send({ kind: "control", text });
}

/** The engine's answer to what was sent last. */
function answered(ack) {
  const good = ack.status === "accepted";
  if (good) {
    const given = JSON.parse(room.sent), id = ack.ruleId;
    if (ack.ruleState === "DELETE") room.messages.delete(id);
    else room.messages.set(id, { ...(room.messages.get(id) ?? {}), ...given });
  }
  room.answer?.replaceChildren(said(good ? `accepted rule ${ack.ruleId} version ${ack.version}: ${ack.ruleState}` : `rejected: ${ack.reason}`, good ? "good" : "bad"));
}

const rulesText = () => [...room.messages.values()].map((message) => JSON.stringify(message));

function chooseRule(id) {
  if (room.messages.has(id)) openForm(`Rule ${id}`, { ...room.messages.get(id), ruleId: id });
}

/** Of Activate, Pause, Delete those that mean something now. */
function showButtons() {
  const rule = room.rules.find((each) => each.id === room.chosen);
  for (const button of document.querySelectorAll("#side-body [data-state]")) button.hidden = !rule || rule.state === button.dataset.state;
}

/** The simulated stream, with the first rules. */
function start() {
  room.messages = new Map(data.rules.payments.map((text) => [String(JSON.parse(text).ruleId), JSON.parse(text)]));
  open({ schema: data.schemas[0], skip: 0 }, data.rules.payments);
}
start();
