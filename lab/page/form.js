// The form of a rule. Its fields write a sentence, and the sentence is the rule: it can say all that a rule can, and it may be edited itself.
"use strict";

/** The message of a new rule to begin with. */
function proposal() {
  const { schema } = room, ids = room.rules.map((rule) => BigInt(rule.id)), next = ids.reduce((most, id) => (id > most ? id : most), 0n) + 1n;
  const keys = schema.fields.filter((field) => !schema.id_fields.includes(field.name) && field.name !== schema.time_field && ["long", "string", "boolean"].includes(field.type) && !field.virtual);
  const per = keys.length ? ` per ${keys[0].name}` : "";
  return `${next}: COUNT(events)${per} over 1 min > 10`;
}

/** The form beside, with the rule of a message in it. */
async function openForm(title, given) {
  room.opener = document.activeElement; // the focus may have gone on when the worker has answered
  const { schema } = room, names = schema.fields.filter((field) => !field.virtual).map((field) => field.name), controls = {};
  const numeric = schema.fields.filter((field) => field.numeric && !field.virtual).sort((a, b) => Number(b.scale > 0) - Number(a.scale > 0)).map((field) => field.name);
  const texts = schema.fields.filter((field) => field.type === "string" && !field.virtual).map((field) => field.name);
  const row = (label, name, control) => {
    controls[name] = control;
    control.setAttribute("aria-label", label);
    control.oninput = name === "sentence" ? readSentenceOf : name === "id" || name === "state" ? () => judge() : writeSentence;
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
  const about = [row(say("rule id"), "id", input()), row(say("state"), "state", select(["ACTIVE", "PAUSE", "SHADOW"]))];
  const fields = {
    keys: picks(say("grouped by"), "keys"), filter: row(say("only where"), "filter", input(`${texts.at(-1) ?? names.at(-1)} = …`)), function: row(say("function"), "function", select(Object.keys(LAYOUT.running).filter((name) => LAYOUT.running[name].of !== "steps"))),
    field: row(say("of"), "field", select([])), unique: picks(say("unique"), "unique"), operator: row(say("alert if"), "operator", select(Object.values(LAYOUT.symbols))), limit: row(say("limit"), "limit", input()),
    window: row(say("within"), "window", input("10s, 20m, 24h, 30d")), when: row(say("and when"), "when", input(`${numeric[0] ?? names[0]} > …`)),
  };
  const pair = (...both) => make("div", { class: "lab-pair" }, ...both);
  const parts = [fields.keys, fields.filter, listFields(names, controls.filter, writeSentence), pair(fields.function, fields.field), fields.unique, pair(fields.operator, fields.limit), fields.window, fields.when];
  const more = make("p", { class: "lab-soft" }, say("This rule says more than the fields can show: edit its sentence."));
  const sentence = row(say("as a sentence"), "sentence", make("textarea", { spellcheck: false }));
  const lists = make("div"), verdict = make("div", { id: "verdict" }), answer = make("div"), publish = make("button", { class: "jupyter-button mod-primary" }, say("Publish"));
  controls.sentence.setAttribute("aria-describedby", "verdict");
  let message = "", then = "", judged = 0, judging;

  /** Shows the fields that the function takes. */
  function fit() {
    const { of } = LAYOUT.running[controls.function.value], options = of === "field" ? numeric : ["events", ...names], before = controls.field.value;
    fields.field.hidden = of === "unique";
    fields.unique.hidden = of !== "unique";
    controls.field.replaceChildren(...options.map((name) => make("option", {}, name)));
    if (options.includes(before)) controls.field.value = before;
  }

  function fill(rule) {
    for (const part of parts) part.hidden = !rule.fields;
    more.hidden = Boolean(rule.fields);
    then = rule.then;
    if (!rule.fields) return;
    controls.function.value = rule.fields.function;
    fit();
    for (const name in rule.fields) controls[name].value = rule.fields[name];
  }

  function writeSentence() {
    fit();
    const value = (name) => (Array.isArray(controls[name].value) ? controls[name].value.join(", ") : controls[name].value.trim()), after = (word, name) => (value(name) ? ` ${word} ${value(name)}` : "");
    const running = LAYOUT.running[controls.function.value], of = running.of === "unique" ? value("unique") : value("field");
    controls.sentence.value = `${value("function")}(${of})${after("where", "filter")}${after("per", "keys")}${running.hasWindow ? ` over ${value("window")}` : ""} ${value("operator")} ${value("limit")}${value("when") && ","}${after("when", "when")}${then}`;
    judge();
  }

  async function readSentenceOf() {
    const rule = await judge();
    if (!rule) return;
    if (rule.whole) {
      write(rule);
      judge();
    }
    fill(rule);
  }

  function write(rule) {
    for (const name of ["id", "state", "sentence"]) controls[name].value = rule[name];
  }

  /** The rule that the form is, or null, also where it has been changed meanwhile; and says what is wrong with it. */
  const judge = () => (judging = judgeNow());

  async function judgeNow() {
    const number = ++judged;
    const found = await ask("judge", controls.sentence.value, controls.id.value, controls.state.value), isRule = !found.error;
    if (number !== judged) return null;
    const before = room.rules.find((each) => each.id === found.id);
    const said = !isRule ? say("Not a rule yet: {problem}", { problem: translated(found.error) })
      : before ? say("{meaning} · replaces rule {id} version {version}", { ...before, meaning: found.sentence }) : found.sentence;
    verdict.replaceChildren(statusLine(said, isRule ? "good" : "bad"));
    message = found.message;
    if (isRule && lists.named !== found.lists.join()) {
      lists.named = found.lists.join();
      lists.replaceChildren(...found.lists.map(listEditor));
    }
    publish.disabled = !isRule;
    controls.sentence.setAttribute("aria-invalid", String(!isRule));
    return isRule ? found : null;
  }

  const rule = await ask("judge", given, "", "");
  write(rule);
  fill(rule);
  // a button that were off while the worker judges would lose the focus, and fast typists would miss it
  publish.onclick = async () => { if (await judging) sendRule(message, answer); };
  const change = (label, state) => make("button", { class: "jupyter-button", "data-state": state, onclick: () => sendRule(`{"ruleId":${rule.id},"ruleState":"${state}"}`, answer) }, label);
  const inForce = room.rules.some((each) => each.id === rule.id) ? [change(say("Activate"), "ACTIVE"), change(say("Pause"), "PAUSE"), change(say("Delete"), "DELETE")] : [];
  beside(title, make("div", { class: "lab-form" }, pair(...about), ...parts, more, sentence, lists), make("div", { class: "lab-foot" }, verdict, make("div", { class: "lab-tools" }, publish, ...inForce), answer));
  room.chosen = rule.id;
  judge();
  showButtons();
}

/** Sends a message. `answer`: where the engine's answer is to stand; `good()` is called if it accepts it. */
function sendRule(text, answer, good = () => {}) {
  room.sent.set(++room.asked, { text, answer, good });
  send({ kind: "control", text, number: room.asked });
}

/** The engine's answer to a message; its report of the rules came before. */
function answered({ ack, number: sent }) {
  if (!room.sent.has(sent)) return;
  const { text, answer, good } = room.sent.get(sent), isGood = ack.status === "accepted", { ruleId: id, version, ruleState: state, list, entries } = ack;
  const said = !isGood ? say("rejected: {reason}", { reason: translated(ack.reason) }) : list ? say("accepted: @{list}, values: {count}", { list, count: number(entries) }) : say("accepted rule {id} version {version}: {state}", { id, version, state });
  room.sent.delete(sent);
  answer.replaceChildren(statusLine(said, isGood ? "good" : "bad"), ...(ack.hint ? ack.hint.split("; ").map((hint) => statusLine(translated(hint), "warning")) : []));
  if (!isGood) return;
  if (list) room.listMessages.push(text);
  if (!room.source.file) for (const [name, kept] of Object.entries({ rules: messages(), lists: room.listMessages })) sessionStorage.setItem(name, JSON.stringify(kept));
  good();
}

/** The rules in force, each as the message that makes it what it is. */
const messages = () => room.rules.map(({ message }) => message);

function chooseRule(id) {
  const rule = room.rules.find((each) => each.id === id);
  if (rule) openForm(say("Rule {id}", { id }), rule.message);
}

/** Of Activate, Pause, Delete those that mean something now. */
function showButtons() {
  const rule = room.rules.find((each) => each.id === room.chosen);
  for (const button of document.querySelectorAll("#side-body [data-state]")) button.hidden = !rule || rule.state === button.dataset.state;
}

/** What this tab has kept under a name, if it is a list of texts. */
function keptTexts(name) {
  try {
    const kept = JSON.parse(sessionStorage.getItem(name));
    return Array.isArray(kept) && kept.every((each) => typeof each === "string") ? kept : null;
  } catch { return null; }
}

/** The simulated stream, with the rules and lists that this tab had on it before the page was loaded again. */
function start() { open({ schema: data.schemas[0], skip: 0 }, keptTexts("rules") ?? data.rules.payments, data.rules.payments, keptTexts("lists") ?? []); }

byId("again").onclick = () => open(room.source, messages(), [], room.listMessages);
byId("back").onclick = start;
room.started = startWorker();
speak(firstLanguage());
start();
