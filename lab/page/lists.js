// Named lists: what is in them, and what somebody changes; a refusal stands at the list that it is about.
"use strict";

/** A condition on a named list for the form's filter: `filter` is its field, `added()` is called when it has one more. */
function listFields(names, filter, added) {
  const pick = (label, options) => make("select", { "aria-label": label }, ...options.map((name) => make("option", {}, name)));
  const field = pick(say("field"), names), operator = pick(say("in or not in"), ["in", "not in"]), said = make("div", { id: "list-said" });
  const list = make("input", { placeholder: "@highrisk", spellcheck: false, autocomplete: "off", "aria-label": say("named list"), "aria-describedby": "list-said" });
  const add = make("button", { class: "jupyter-button", onclick: async () => {
    const found = await ask("listCondition", filter.value, field.value, operator.value, list.value);
    list.setAttribute("aria-invalid", String(Boolean(found.error)));
    said.replaceChildren(...(found.error ? [statusLine(translated(found.error), "bad")] : []));
    if (found.error) { list.focus(); return; }
    filter.value = found.filter;
    list.value = "";
    added();
  } }, say("Add"));
  list.onkeydown = ({ key }) => { if (key === "Enter") add.click(); };
  return make("div", {}, make("fieldset", { class: "lab-picks" }, make("legend", {}, say("in a list")), make("div", { class: "lab-in-list" }, field, operator, list, add)), said);
}

/** A list with its values, and fields that change it. */
function listEditor(name) {
  const input = (label, placeholder) => make("input", { placeholder, spellcheck: false, autocomplete: "off", "aria-label": label });
  const values = input(say("values for @{list}", { list: name }), 'KR, CN, "New York"'), until = input(say("until"), say("for good")), answer = make("div"), shown = make("div", { class: "lab-entries", "data-list": name });
  const add = () => {
    const time = until.value.trim();
    sendRule(`add ${values.value} to @${name}${time && ` until ${time}`}`, answer, () => { values.value = ""; });
  };
  values.onkeydown = until.onkeydown = ({ key }) => { if (key === "Enter") add(); };
  showList(shown, answer);
  return make("section", { class: "lab-list" }, shown, make("div", { class: "lab-pair" }, make("label", {}, make("span", {}, say("add")), values), make("label", {}, make("span", {}, say("until")), until)),
    make("div", { class: "lab-tools" }, make("button", { class: "jupyter-button", onclick: add }, say("Add")), make("button", { class: "jupyter-button", onclick: () => sendRule(`clear @${name}`, answer) }, say("Empty the list"))), answer);
}

/** What a list has; nothing is drawn anew where nothing has changed, so that nobody loses a button. */
function showList(place, answer = place.answer) {
  const name = place.dataset.list, list = room.lists.find((each) => each.name === name) ?? { count: 0, entries: [] }, text = JSON.stringify(list);
  if (place.text === text) return;
  Object.assign(place, { text, answer });
  const said = list.count ? say("@{list}, values: {count}", { list: name, count: number(list.count) }) : say("@{list} is empty, so no value is in it.", { list: name });
  const entries = list.entries.map(([value, until]) => make("button", { class: "jupyter-button lab-entry", title: say("remove {value}", { value: cut(value) }), onclick: () => sendRule(JSON.stringify({ list: name, remove: [value] }), answer) },
    until === null ? cut(value, MOST_TITLE) : say("{value} until {time}", { value: cut(value, MOST_TITLE), time: utc(until) }), " ×"));
  place.replaceChildren(make("p", {}, make("b", {}, visible(said))), make("div", {}, ...entries), ...(list.count > list.entries.length ? [make("p", { class: "lab-soft" }, say("The newest {count} are shown.", { count: list.entries.length }))] : []));
}

const showLists = () => document.querySelectorAll("[data-list]").forEach((place) => showList(place));

/** The panel with all lists, and a message that makes another, or mutes a rule or a group. */
function openLists() {
  const names = [...new Set(room.lists.map(({ name }) => name))].sort(), answer = make("div"), message = make("input", { placeholder: 'add KR, CN to @highrisk until 2027-01-01', spellcheck: false, autocomplete: "off", "aria-label": say("a message") });
  const publish = () => sendRule(message.value, answer, () => { message.value = ""; openLists(); });
  message.onkeydown = ({ key }) => { if (key === "Enter") publish(); };
  beside(say("Lists"), make("p", { class: "lab-soft" }, say("Rules say `in @name`. A message adds values, removes them or empties a list, and mutes a rule or one of its groups.")),
    make("div", { class: "lab-form" }, make("label", {}, make("span", {}, say("message")), message)), make("div", { class: "lab-tools" }, make("button", { class: "jupyter-button mod-primary", onclick: publish }, say("Publish"))), answer, ...names.map(listEditor));
}

byId("lists").onclick = openLists;
