// Reading control messages: JSON, a sentence, or plain text ──► attributes ──► each checked ──► a rule. lab.model.messages.
"use strict";

const OPERATORS = ["EQUAL", "NOT_EQUAL", "GREATER", "GREATER_EQUAL", "LESS", "LESS_EQUAL"];
const SYMBOLS = { EQUAL: "=", NOT_EQUAL: "!=", GREATER: ">", GREATER_EQUAL: ">=", LESS: "<", LESS_EQUAL: "<=" };
const ALIASES = { ...Object.fromEntries(OPERATORS.map((name) => [SYMBOLS[name], name])), GT: "GREATER", LT: "LESS" };
const STATES = ["ACTIVE", "PAUSE", "DELETE", "CONTROL"], CONTROLS = ["CLEAR_STATE_ALL", "CLEAR_STATE_ALL_STOP", "DELETE_RULES_ALL", "EXPORT_RULES_CURRENT"];
const ACTIONS = ["block_login", "hold_payment", "notify"];
const CELLS = ["ruleId", "ruleState", "groupingKeyNames", "unique", "aggregateFieldName", "aggregatorFunctionType", "limitOperatorType", "limit", "window"];
const AGGREGATION = ["aggregateFieldName", "aggregatorFunctionType", "unique", "window", "where", "excludeCurrent"];
const CONDITION = [...AGGREGATION, "limitOperatorType", "limit", "limitOf"], LIMIT_OF = [...AGGREGATION, "dividedBy", "plus", "plusOf"], AT_MOST = ["alerts", "per"];
const CARRIED = ["action", "ttl", "severity", "title", "labels", "eventFields"];
const DEFINITION = [...CELLS.slice(2), "windowMinutes", "filter", "where", "excludeCurrent", "limitOf", "and", "or", "when", "atMost", "absence", ...CARRIED];
const ATTRIBUTES = ["ruleId", "ruleState", ...DEFINITION, "controlType", "version", "changeId"];
const SEVERITIES = ["low", "medium", "high", "critical"], MOST_LABELS = 16, MOST_LABEL_TEXT = 200, AROUND = "without blanks before and after it";
// a sentence without its id, or without the colon after it
const WITHOUT_ID = new RegExp(`^([${BLANKS}]*(?:[0-9]{1,19}[${BLANKS}]+)?)(?:(?:${[...Object.keys(LAYOUT.running), "NO"].join("|")})(?![\\p{L}\\p{N}_])[${BLANKS}]*[\\p{L}\\p{N}_(]|[A-Z_]{1,40}[${BLANKS}]*\\()`, "iu");
const UNIT_SECONDS = { d: 86400, h: 3600, m: 60, s: 1 };
const MOST_SECONDS = 3660 * 86400, MOST_KEYS = 16, PLACES = 12, MOST_CONDITIONS = 4, MILLION = 1000000n;
const FRACTION = 10n ** 12n, MOST_ID = (1n << 63n) - 1n, MOST_MESSAGE = 64 << 10, GROWS = 16; // times that a rule, as it is written, may be as long as its message
const WINDOW_ALLOWED = 'whole minutes, or text such as "10s", "10m", "24h", "90d"; from 1 s to 3660 d';

const textOf = (value) => value instanceof Literal ? value.text : value;
const has = (given, name) => given.get(name) !== undefined && given.get(name) !== null;

/** The attributes of a control message, whichever form it has. Throws a Bad. */
function attributesOf(text, schema) {
  const sentence = SENTENCE.exec(text);
  if (/^[ \t\r\n]*\{/.test(text)) return readJson(text);
  if (sentence) return readWords(text, sentence, schema);
  const begins = WITHOUT_ID.exec(text);
  if (!begins) return readPlain(text);
  readSentence(" ".repeat(begins[1].length) + text.slice(begins[1].length), schema); // what else is wrong with it comes first
  throw new Bad(`${shown(text)}: expected the rule's id and a colon before the sentence, such as 7: SUM(amount) per userId over 1 h > 500`);
}

/** What a control message asks for, read against a schema: its kind (rule, state, delete, control) and the rest. Throws a Bad. */
function readMessage(text, schema) {
  checkSize("message", text);
  if (/^\s*(add|remove|clear|mute|unmute)\b/i.test(text)) throw new Bad("the page keeps no lists; lab run and lab replay do");
  const given = attributesOf(text, schema);
  if (["list", "mute", "unmute"].some((name) => given.has(name))) throw new Bad("the page keeps no lists; lab run and lab replay do");
  known(given, ATTRIBUTES);
  const state = oneOf(given, "ruleState", STATES);
  if (state === "CONTROL") return { kind: "control", control: oneOf(given, "controlType", CONTROLS) };
  const digits = textOf(given.get("ruleId")), id = /^\d{1,19}$/.test(digits ?? "") ? BigInt(digits) : 0n;
  if (id < 1n || id > MOST_ID) throw new Bad(expected("ruleId", given.get("ruleId"), "a positive integer below 2^63"));
  if (state === "DELETE") return { kind: "delete", id, state };
  if (has(given, "controlType")) throw new Bad(expected("controlType", given.get("controlType"), "nothing unless ruleState is CONTROL"));
  if (DEFINITION.every((name) => !has(given, name))) return { kind: "state", id, state };
  const rule = readRule(given, id, state, schema);
  if (text.length > MOST_MESSAGE / GROWS) {
    checkSize("rule as JSON", ruleJson(rule));
    checkSize("rule as a sentence", `${id}: ${meaning(rule, (limit) => limit)}`);
  }
  return { kind: "rule", id, state, rule };
}

function checkSize(what, text) {
  const size = encoder.encode(text).length;
  if (size > MOST_MESSAGE) throw new Bad(`${what} of ${size} bytes, at most ${MOST_MESSAGE} are allowed`);
}

/** The attributes of `7: SUM(amount) over 1 h > 500`, or of `7 PAUSE: …`; mistakes are refused with their places. */
function readWords(text, [head, id, state], schema) {
  return new Map([["ruleId", id], ["ruleState", state ?? "ACTIVE"], ...readSentence(" ".repeat(head.length) + text.slice(head.length), schema)]);
}

function readPlain(text) {
  const cells = text.split(",").map((cell) => cell.trim().replace(/^\((.*)\)$/s, "$1").trim());
  if (cells.length > CELLS.length || !/^[+-]?\d{1,30}$/.test(cells[0])) {
    throw new Bad(`${shown(text)} is neither a JSON object, nor a sentence such as 7: SUM(amount) per userId over 1 h > 500, nor plain text such as 1,(active),(payeeId),,(paymentAmount),(SUM),(>),(50),(20)`);
  }
  const given = new Map(CELLS.map((name, n) => [name, cells[n]]).filter(([, cell]) => cell));
  for (const name of ["groupingKeyNames", "unique"]) if (given.has(name)) given.set(name, given.get(name).split("&").map((part) => part.trim()));
  return given;
}

function known(given, names) {
  const unknown = [...given.keys()].find((name) => !names.includes(name));
  if (unknown !== undefined) throw new Bad(`unknown attribute ${shown(unknown)} (known: ${names.join(", ")})`);
}

function oneOf(given, name, words, aliases = {}) {
  const value = given.get(name), word = typeof value === "string" ? value.toUpperCase() : "";
  if (words.includes(word)) return word;
  if (Object.hasOwn(aliases, word)) return aliases[word];
  throw new Bad(expected(name, value, `one of ${[...words, ...Object.keys(aliases)].join(", ")}`));
}

function fieldOf(attribute, name, schema) {
  try { return fieldNamed(name, schema); } catch (error) { throw new Bad(`${attribute}: ${error.message}`); }
}

function fieldNames(given, attribute, schema) {
  const listed = given.get(attribute) ?? [];
  if (!Array.isArray(listed)) throw new Bad(expected(attribute, listed, "a list of event fields"));
  const names = listed.map((name) => fieldOf(attribute, name, schema).name);
  if (new Set(names).size < names.length) throw new Bad(`${attribute}: ${shown(names.join(", "))}, expected each field once`);
  return names;
}

function fewFieldNames(given, attribute, schema) {
  const names = fieldNames(given, attribute, schema);
  if (names.length > MOST_KEYS) throw new Bad(`${attribute}: ${names.length} fields, expected at most ${MOST_KEYS}`);
  return names;
}

function readRule(given, id, state, schema) {
  const keys = fewFieldNames(given, "groupingKeyNames", schema), filter = readFilter(given.get("filter"), schema), absence = isGiven("absence", given);
  const own = readCondition(absence ? ofAbsence(given) : given, schema);
  const joined = ["and", "or"].find((name) => has(given, name)) ?? null;
  const rule = { id, state, version: 0, keys, filter, absence, conditions: [own, ...(joined ? readMore(given, joined, schema) : [])], joined, when: readTruth("when", given, schema) };
  Object.assign(rule, has(given, "atMost") ? inside("atMost", given.get("atMost"), AT_MOST, readAtMost) : { atMost: null, perMs: 0 });
  Object.assign(rule, has(given, "action") || has(given, "ttl") ? { action: readAction(given.get("action"), keys), ttlMs: 1000 * seconds("ttl", given.get("ttl")) } : { action: null, ttlMs: null });
  Object.assign(rule, { severity: readSeverity(given.get("severity")), title: readTitle(given.get("title")), labels: readLabels(given.get("labels")) });
  rule.eventFields = fewFieldNames(given, "eventFields", schema);
  rule.aggregations = distinct(rule.conditions.flatMap(({ of, base }) => (base ? [of, base] : [of])));
  rule.isPlain = rule.conditions.length === 1 && !(own.of.where || own.of.excludes || own.base || absence);
  rule.needs = [...new Set(rule.aggregations.flatMap((of) => of.needs))].sort(byCodePoint);
  rule.widestMs = Math.max(rule.perMs, ...rule.aggregations.map((of) => of.windowMs));
  rule.route = { keys: [...keys].sort(byCodePoint), filter };
  rule.routeId = JSON.stringify([rule.route.keys, filter && whenText(filter)]);
  return rule;
}

/** What distinguishes aggregations. */
const nameOf = (of) => JSON.stringify([of.function, of.field, of.unique, of.windowMs, of.whereName, of.excludes]);
const distinct = (aggregations) => [...new Map(aggregations.map((of) => [nameOf(of), of])).values()];

// -- conditions ---------------------------------------------------------------------------------------------------------

/** `of` is in relation `operator` to `limit`, or to `limit` × `base` ÷ `by` + `plus`. */
function readCondition(given, schema) {
  const of = readAggregation(given, schema), operator = oneOf(given, "limitOperatorType", OPERATORS, ALIASES), limit = readDecimal("limit", given);
  if (!has(given, "limitOf")) return { of, operator, limit, base: null, by: 1n, plus: 0n };
  if (limit <= 0n || limit > MILLION * FRACTION) throw new Bad(expected("limit", given.get("limit"), "above 0 and at most 1,000,000 beside limitOf, of which it is a multiple"));
  if (of.function === "STDDEV") throw new Bad("the page compares no root with another aggregate; lab replay does");
  return { of, operator, limit, ...inside("limitOf", given.get("limitOf"), LIMIT_OF, (base) => readLimitOf(base, schema)) };
}

/** `limit` or `plus`. */
function readDecimal(name, given) {
  const text = textOf(given.get(name)), number = typeof text === "string" ? scaled(text, 36, PLACES) : null;
  if (number === null) throw new Bad(expected(name, given.get(name), "a decimal number below 10^24, with at most 12 digits after the point"));
  return number;
}

function readLimitOf(given, schema) {
  const base = readAggregation(given, schema);
  if (base.function === "STDDEV") throw new Bad("the page compares no root with another aggregate; lab replay does");
  if (has(given, "plusOf")) throw new Bad("the page compares with a multiple of one aggregate, plus or minus a number; lab replay also with two");
  if (base.function === "COUNT_WITH_RESET") throw new Bad(expected("aggregatorFunctionType", base.function, "another function: a limit is no multiple of this one"));
  return { base, by: has(given, "dividedBy") ? wholeNumber("dividedBy", given) : 1n, plus: has(given, "plus") ? readDecimal("plus", given) : 0n };
}

function wholeNumber(name, given) {
  const value = given.get(name), number = value instanceof Literal && value.isInteger && value.text.length < 20 ? BigInt(value.text) : 0n;
  if (number < 1n || number > MILLION) throw new Bad(expected(name, value, "a whole number from 1 to 1,000,000"));
  return number;
}

const readAtMost = (given) => ({ atMost: wholeNumber("alerts", given), perMs: 1000 * seconds("per", given.get("per")) });

/** What a rule says that counts the events after one: COUNT = 0, of which it need say nothing. */
function ofAbsence(given) {
  for (const name of ["excludeCurrent", "limitOf", "and", "or", "atMost"])
    if (given.get(name)) throw new Bad(`${name}: not beside absence, which is about the events after one, and has no other condition`);
  const attributes = new Map([["aggregatorFunctionType", "COUNT"], ["limitOperatorType", "EQUAL"], ["limit", "0"], ...[...given].filter(([, value]) => value !== null)]);
  const all = [undefined, "COUNT", "COUNT_FLINK"].includes(attributes.get("aggregateFieldName"));
  if (oneOf(attributes, "aggregatorFunctionType", Object.keys(LAYOUT.running), LAYOUT.countWords) !== "COUNT" || oneOf(attributes, "limitOperatorType", OPERATORS, ALIASES) !== "EQUAL" || !all || readDecimal("limit", attributes) !== 0n)
    throw new Bad("absence: COUNT = 0 is all that such a rule can say; leave out function, field, operator and limit");
  return attributes;
}

/** The conditions in `and` or `or`. */
function readMore(given, how, schema) {
  const listed = given.get(how);
  if (has(given, "and") && has(given, "or")) throw new Bad("and, or: both are given, expected one of them");
  if (!Array.isArray(listed) || !(listed.length > 0 && listed.length < MOST_CONDITIONS)) throw new Bad(expected(how, listed, `a list of 1 to ${MOST_CONDITIONS - 1} conditions beside the rule's own`));
  return listed.map((each, n) => inside(`${how} ${n + 1}`, each, CONDITION, (condition) => readCondition(condition, schema)));
}

/** Reads an object inside a message; what is wrong with it says where. */
function inside(where, given, names, read) {
  const example = names === AT_MOST ? '{"alerts": 1, "per": "10m"}' : '{"aggregatorFunctionType": "COUNT", "window": "10m", ...}';
  if (!(given instanceof Map)) throw new Bad(expected(where, given, `an object such as ${example}`));
  try {
    known(given, names);
    return read(given);
  } catch (error) {
    throw error instanceof Bad ? new Bad(`${where}: ${error.message}`) : error;
  }
}

function isGiven(name, given) {
  if (![undefined, null, true, false].includes(given.get(name))) throw new Bad(expected(name, given.get(name), "true or false"));
  return given.get(name) === true;
}

/** `when` or `where`. */
function readTruth(name, given, schema) {
  if (!has(given, name)) return null;
  if (typeof given.get(name) !== "string") throw new Bad(expected(name, given.get(name), 'a text such as "amount > 500"'));
  try { return readWhen(given.get(name), schema); } catch (error) { throw error instanceof Bad ? new Bad(`${name}: ${error.message}`) : error; }
}

/** A function over a window, which events count for it (`where`, `excludes`), and what an event keeps for it (`needs`). */
function readAggregation(given, schema) {
  const measured = readMeasured(given, schema), where = readTruth("where", given, schema), whereName = where && WHERE + whenText(where);
  const needs = [...measured.unique, measured.field, whereName].filter((name) => name !== null);
  return { ...measured, windowMs: windowOf(measured.function, given), where, whereName, excludes: isGiven("excludeCurrent", given), needs };
}

function readMeasured(given, schema) {
  const name = given.get("aggregateFieldName") ?? null, words = LAYOUT.countWords, functions = Object.keys(LAYOUT.running);
  const unique = fieldNames(given, "unique", schema), counts = typeof name === "string" && Object.hasOwn(words, name) ? words[name] : null;
  const called = !counts || has(given, "aggregatorFunctionType") ? oneOf(given, "aggregatorFunctionType", functions, words) : counts;
  if (counts) return { function: counts, field: null, unique: [] };
  const field = name === null ? null : fieldOf("aggregateFieldName", name, schema), { of } = LAYOUT.running[called];
  if (of === "unique") {
    const fields = field && !has(given, "unique") ? [name] : unique;
    if (!fields.length) throw new Bad(expected("unique", given.get("unique"), "the fields whose distinct values to count"));
    return { function: called, field: null, unique: fields };
  }
  if (of === "field" && !field?.numeric)
    throw new Bad(expected("aggregateFieldName", name, `a numeric field for ${called}: ${schema.fields.filter((each) => each.numeric).map((each) => each.name).join(", ")}`));
  return { function: called, field: field?.name ?? null, unique: [] };
}

/** The window of an aggregation; of one that is of the judged event alone the shortest, which need not be given. */
function windowOf(called, given) {
  if (LAYOUT.running[called].hasWindow) return windowMs(given);
  if (isGiven("excludeCurrent", given)) throw new Bad(`excludeCurrent: not for ${called}, which is of the current event`);
  if (WINDOWS.some((name) => has(given, name)) && windowMs(given) !== SHORTEST_MS) throw new Bad(`window: not for ${called}, which is of the event itself: leave it out`);
  return SHORTEST_MS;
}

const WINDOWS = ["windowMinutes", "window"], SHORTEST_MS = 1000;

function windowMs(given) {
  const windows = WINDOWS.filter((name) => has(given, name)).map((name) => seconds(name, given.get(name)));
  if (!windows.length) throw new Bad(expected("window", null, WINDOW_ALLOWED));
  if (windows.some((each) => each !== windows[0])) throw new Bad("window and windowMinutes differ, expected one of them or the same in both");
  return 1000 * windows[0];
}

function seconds(name, window) {
  const text = textOf(window), found = typeof text === "string" && /^(\d{1,12})([smhd]?)$/.exec(text);
  const number = found ? Number(found[1]) * UNIT_SECONDS[found[2] || "m"] : 0;
  const spaced = !found && typeof text === "string" && /^(\d{1,12}) *([smhd]|min)$/.exec(text), spacedSeconds = spaced ? Number(spaced[1]) * UNIT_SECONDS[spaced[2][0]] : 0;
  if (spacedSeconds > 0 && spacedSeconds <= MOST_SECONDS) throw new Bad(expected(name, window, `a number and one letter: write ${shown(spaced[1] + spaced[2][0])}`));
  if (!(number > 0 && number <= MOST_SECONDS)) throw new Bad(expected(name, window, WINDOW_ALLOWED));
  return number;
}

/** Which events the rule sees at all, as a condition; null: all. */
function readFilter(wanted, schema) {
  if (wanted === null || wanted === undefined) return null;
  if (typeof wanted === "string") {
    if (!wanted.trim()) return null;
    try { return readWhen(wanted, schema, "filter"); } catch (error) { throw error instanceof Bad ? new Bad(`filter: ${error.message}`) : error; }
  }
  if (!(wanted instanceof Map)) throw new Bad(expected("filter", wanted, 'an object such as {"action": "login"}, or a text such as "amount > 500"'));
  const parts = [...wanted].sort(([one], [other]) => byCodePoint(one, other)).map(([name, value]) => {
    const field = fieldOf("filter", name, schema);
    if (field.type === "time") throw new Bad(expected(`filter.${name}`, value, "a field that is no time"));
    const given = (Array.isArray(value) ? value : [value]).map((each) => valueOf(field, each)), isThere = given.length > 0 && !given.includes(null), values = isThere && sortedValues(field, given);
    if (!isThere) throw new Bad(expected(`filter.${name}`, value, "a value or a list of values, none of them null"));
    return values.length > 1 ? { field, operator: "in", operand: { values } } : { field, operator: "=", operand: values[0] };
  });
  return parts.length ? joinedParts("all", parts) : null;
}

// -- what follows an alert, and what it carries ---------------------------------------------------------------------------

function readAction(action, keys) {
  if (!ACTIONS.includes(action)) throw new Bad(expected("action", action, `one of ${ACTIONS.join(", ")}`));
  if (action !== "notify" && !keys?.length) throw new Bad(expected("action", action, "notify: without groupingKeyNames it would be for everybody"));
  return action;
}

function readSeverity(severity = null) {
  const word = typeof severity === "string" ? severity.toLowerCase() : null;
  if (word !== severity && SEVERITIES.includes(word)) throw new Bad(expected("severity", severity, `lower case: write ${shown(word)}`));
  if (severity !== null && !SEVERITIES.includes(severity)) throw new Bad(expected("severity", severity, `one of ${SEVERITIES.join(", ")}`));
  return severity;
}

const isLabelText = (text) => typeof text === "string" && length(text) <= MOST_LABEL_TEXT && !/^ | $/.test(text) && text.isWellFormed();

function readTitle(title = null) {
  if (title !== null && !(isLabelText(title) && title)) throw new Bad(expected("title", title, `a text of 1 to ${MOST_LABEL_TEXT} characters, ${AROUND}`));
  return title;
}

/** Labels with their texts, by name. */
function readLabels(given) {
  const labels = given ?? new Map();
  if (!(labels instanceof Map) || labels.size > MOST_LABELS) throw new Bad(expected("labels", labels, `an object of at most ${MOST_LABELS} texts, such as {"team": "fraud"}`));
  for (const [name, text] of labels) {
    if (!/^[A-Za-z_][A-Za-z0-9_.-]{0,63}$/.test(name)) throw new Bad(expected("labels", name, "names of 1 to 64 letters, digits and _ . -, the first a letter or _"));
    if (!isLabelText(text)) throw new Bad(expected(`labels.${name}`, text, `a text of at most ${MOST_LABEL_TEXT} characters, ${AROUND}`));
  }
  return [...labels].sort(([one], [other]) => byCodePoint(one, other));
}

/** What each alert of a rule carries for its readers, as it stands in its JSON. */
function carriedJson({ severity, title, labels }) {
  const pairs = labels.map(([name, text]) => `${quoted(name)}:${quoted(text)}`);
  return (severity ? `,"severity":${quoted(severity)}` : "") + (title ? `,"title":${quoted(title)}` : "") + (pairs.length ? `,"labels":{${pairs.join(",")}}` : "");
}
