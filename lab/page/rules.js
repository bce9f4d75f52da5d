// The book of rules, and a route's rules as the numbers that the compiled loop works with: lab.model.messages, lab.engine.compiled.rulenumbers.
"use strict";

const OPERATORS = ["EQUAL", "NOT_EQUAL", "GREATER", "GREATER_EQUAL", "LESS", "LESS_EQUAL"];
const SYMBOLS = { EQUAL: "=", NOT_EQUAL: "!=", GREATER: ">", GREATER_EQUAL: ">=", LESS: "<", LESS_EQUAL: "<=" };
const ALIASES = { ...Object.fromEntries(OPERATORS.map((name) => [SYMBOLS[name], name])), GT: "GREATER", LT: "LESS" };
const STATES = ["ACTIVE", "PAUSE", "DELETE", "CONTROL"], CONTROLS = ["CLEAR_STATE_ALL", "CLEAR_STATE_ALL_STOP", "DELETE_RULES_ALL", "EXPORT_RULES_CURRENT"];
const ACTIONS = ["block_login", "hold_payment", "notify"];
const COUNT_WORDS = ["COUNT", "COUNT_WITH_RESET", "COUNT_FLINK", "COUNT_WITH_RESET_FLINK"];
const CELLS = ["ruleId", "ruleState", "groupingKeyNames", "unique", "aggregateFieldName", "aggregatorFunctionType", "limitOperatorType", "limit", "window"];
const NOT_HERE = ["where", "excludeCurrent", "limitOf", "and", "or", "atMost", "absence", "when", "eventFields"]; // which the page refuses
const DEFINITION = [...CELLS.slice(2), "windowMinutes", "filter", ...NOT_HERE, "action", "ttl", "severity", "title", "labels"];
const ATTRIBUTES = ["ruleId", "ruleState", ...DEFINITION, "controlType", "version", "changeId"];
const SEVERITIES = ["low", "medium", "high", "critical"], MOST_LABELS = 16, MOST_SAID = 200, AROUND = "without blanks before and after it";
const UNIT_SECONDS = { d: 86400, h: 3600, m: 60, s: 1 };
const MOST_SECONDS = 3660 * 86400, MOST_RULES = 20000, MOST_KEYS = 16, PLACES = 12;
const FRACTION = 10n ** 12n, TOO_LARGE = 1n << 127n, MOST_ID = (1n << 63n) - 1n;

const textOf = (value) => value instanceof Literal ? value.text : value;
const has = (given, name) => given.get(name) !== undefined && given.get(name) !== null;

/** What a control message asks for, read against a schema: its kind (rule, state, delete, control) and the rest. Throws a Bad. */
function readMessage(text, schema) {
  const given = /^[ \t\r\n]*\{/.test(text) ? readJson(text) : readPlain(text);
  const unknown = [...given.keys()].find((name) => !ATTRIBUTES.includes(name));
  if (unknown !== undefined) throw new Bad(`unknown attribute ${shown(unknown)} (known: ${ATTRIBUTES.join(", ")})`);
  const state = oneOf(given, "ruleState", STATES);
  if (state === "CONTROL") return { kind: "control", control: oneOf(given, "controlType", CONTROLS) };
  const digits = textOf(given.get("ruleId"));
  const id = /^\d{1,19}$/.test(digits ?? "") ? BigInt(digits) : 0n;
  if (id < 1n || id > MOST_ID) throw new Bad(expected("ruleId", given.get("ruleId"), "a positive integer below 2^63"));
  if (state === "DELETE") return { kind: "delete", id, state };
  if (DEFINITION.every((name) => !has(given, name))) return { kind: "state", id, state };
  return { kind: "rule", id, state, rule: readRule(given, id, state, schema) };
}

function readPlain(text) {
  const cells = text.split(",").map((cell) => cell.trim().replace(/^\((.*)\)$/, "$1").trim());
  if (cells.length > CELLS.length || !/^[+-]?\d{1,30}$/.test(cells[0]))
    throw new Bad(`${shown(text)} is neither a JSON object nor plain text such as 1,(active),(payeeId),,(paymentAmount),(SUM),(>),(50),(20)`);
  const given = new Map(CELLS.map((name, n) => [name, cells[n]]).filter(([, cell]) => cell));
  for (const name of ["groupingKeyNames", "unique"]) if (given.has(name)) given.set(name, given.get(name).split("&").map((part) => part.trim()));
  return given;
}

function oneOf(given, name, words, aliases = {}) {
  const word = String(given.get(name) ?? "").toUpperCase();
  if (words.includes(word)) return word;
  if (word in aliases) return aliases[word];
  throw new Bad(expected(name, given.get(name), `one of ${[...words, ...Object.keys(aliases)].join(", ")}`));
}

function fieldOf(attribute, name, schema) {
  const field = schema.byName.get(name);
  if (!field) throw new Bad(`${attribute}: unknown ${schema.name} field ${shown(name)} (known: ${[...schema.byName.keys()].join(", ")})`);
  return field;
}

function fieldNames(given, attribute, schema) {
  const listed = given.get(attribute) ?? [];
  if (!Array.isArray(listed)) throw new Bad(expected(attribute, listed, "a list of event fields"));
  const names = listed.map((name) => fieldOf(attribute, name, schema).name);
  if (new Set(names).size < names.length) throw new Bad(`${attribute}: ${shown(names.join(", "))}, expected each field once`);
  return names;
}

function readRule(given, id, state, schema) {
  const keys = fieldNames(given, "groupingKeyNames", schema);
  if (keys.length > MOST_KEYS) throw new Bad(`groupingKeyNames: ${keys.length} fields, expected at most ${MOST_KEYS}`);
  const filter = readFilter(given.get("filter"), schema);
  const aggregation = readAggregation(given, schema);
  const operator = oneOf(given, "limitOperatorType", OPERATORS, ALIASES);
  const limit = scaled(String(textOf(given.get("limit")) ?? ""), 36, PLACES);
  if (limit === null) throw new Bad(expected("limit", given.get("limit"), "a decimal number below 10^24, with at most 12 digits after the point"));
  const windows = ["windowMinutes", "window"].filter((name) => has(given, name)).map((name) => seconds(name, given.get(name)));
  if (!windows.length) throw new Bad(expected("window", null, WINDOW_ALLOWED));
  if (windows.some((each) => each !== windows[0])) throw new Bad("window and windowMinutes differ, expected one of them or the same in both");
  const rule = { id, state, keys, filter, ...aggregation, operator, limit, windowMs: 1000 * windows[0], version: 0, action: null, ttlMs: null };
  for (const name of NOT_HERE) if (has(given, name)) throw new Bad(`${name}: this page evaluates rules without it; lab start has all that rules can say`);
  if (has(given, "action") || has(given, "ttl")) {
    rule.action = given.get("action");
    if (!ACTIONS.includes(rule.action)) throw new Bad(expected("action", rule.action, `one of ${ACTIONS.join(", ")}`));
    if (rule.action !== "notify" && !keys.length) throw new Bad(expected("action", rule.action, "notify: without groupingKeyNames it would be for everybody"));
    rule.ttlMs = 1000 * seconds("ttl", given.get("ttl"));
  }
  rule.said = readSaid(given);
  rule.needs = [...new Set([...rule.unique, ...(rule.field ? [rule.field] : [])])].sort(byCodePoint);
  rule.route = { keys: [...keys].sort(byCodePoint), filter };
  rule.routeId = JSON.stringify([rule.route.keys, filter.map(([name, values]) => [name, values.map(String)])]);
  return rule;
}

/** What each alert of a rule carries for its readers, as it stands in its JSON. */
function readSaid(given) {
  const severity = given.get("severity") ?? null, title = given.get("title") ?? null, labels = given.get("labels") ?? new Map();
  const isSaid = (text) => typeof text === "string" && length(text) <= MOST_SAID && !/^ | $/.test(text) && text.isWellFormed();
  if (severity !== null && !SEVERITIES.includes(severity)) throw new Bad(expected("severity", severity, `one of ${SEVERITIES.join(", ")}`));
  if (title !== null && !(isSaid(title) && title)) throw new Bad(expected("title", title, `a text of 1 to ${MOST_SAID} characters, ${AROUND}`));
  if (!(labels instanceof Map) || labels.size > MOST_LABELS) throw new Bad(expected("labels", labels, `an object of at most ${MOST_LABELS} texts, such as {"team": "fraud"}`));
  for (const [name, value] of labels) {
    if (!/^[A-Za-z_][A-Za-z0-9_.-]{0,63}$/.test(name)) throw new Bad(expected("labels", name, "names of 1 to 64 letters, digits and _ . -, the first a letter or _"));
    if (!isSaid(value)) throw new Bad(expected(`labels.${name}`, value, `a text of at most ${MOST_SAID} characters, ${AROUND}`));
  }
  const sorted = [...labels].sort(([one], [other]) => byCodePoint(one, other)).map(([name, value]) => `${quoted(name)}:${quoted(value)}`);
  return (severity ? `,"severity":${quoted(severity)}` : "") + (title ? `,"title":${quoted(title)}` : "") + (sorted.length ? `,"labels":{${sorted.join(",")}}` : "");
}

const byCodePoint = (a, b) => {
  const [one, other] = [[...a], [...b]];
  for (let n = 0; n < Math.min(one.length, other.length); n++) if (one[n] !== other[n]) return one[n].codePointAt(0) - other[n].codePointAt(0);
  return one.length - other.length;
};

function readFilter(wanted, schema) {
  if (wanted === null || wanted === undefined) return [];
  if (!(wanted instanceof Map)) throw new Bad(expected("filter", wanted, 'an object such as {"action": "login"}'));
  return [...wanted].sort((a, b) => byCodePoint(a[0], b[0])).map(([name, value]) => {
    const field = fieldOf("filter", name, schema);
    if (field.type === "time") throw new Bad(expected(`filter.${name}`, value, "a field that is no time"));
    const values = (Array.isArray(value) ? value : [value]).map((each) => valueOf(field, each));
    if (!values.length || values.includes(null)) throw new Bad(expected(`filter.${name}`, value, "a value or a list of values, none of them null"));
    const order = field.numeric ? (a, b) => (a < b ? -1 : a > b ? 1 : 0) : byCodePoint;
    return [name, [...new Set(values)].sort(order)];
  });
}

function readAggregation(given, schema) {
  const name = given.get("aggregateFieldName");
  const unique = fieldNames(given, "unique", schema), counts = LAYOUT.countWords[name];
  const words = LAYOUT.countWords, functions = Object.keys(LAYOUT.running);
  const called = !counts || has(given, "aggregatorFunctionType") ? oneOf(given, "aggregatorFunctionType", functions, words) : counts;
  if (counts) return { function: counts, field: null, unique: [] };
  const field = name === null || name === undefined ? null : fieldOf("aggregateFieldName", name, schema);
  const of = LAYOUT.running[called].of;
  if (of === "unique") {
    const fields = field && !has(given, "unique") ? [name] : unique;
    if (!fields.length) throw new Bad(expected("unique", given.get("unique"), "the fields whose distinct values to count"));
    return { function: called, field: null, unique: fields };
  }
  if (of === "field" && !field?.numeric)
    throw new Bad(expected("aggregateFieldName", name, `a numeric field for ${called}: ${schema.fields.filter((each) => each.numeric).map((each) => each.name).join(", ")}`));
  return { function: called, field: field?.name ?? null, unique: [] };
}

const WINDOW_ALLOWED = 'whole minutes, or text such as "10s", "10m", "24h", "90d"; from 1 s to 3660 d';
function seconds(name, window) {
  const found = /^(\d{1,12})([smhd]?)$/.exec(String(textOf(window)));
  const number = found ? Number(found[1]) * UNIT_SECONDS[found[2] || "m"] : 0;
  if (!(number > 0 && number <= MOST_SECONDS)) throw new Bad(expected(name, window, WINDOW_ALLOWED));
  return number;
}

const limitText = (rule) => plain(rule.limit, PLACES).replace(/\.?0+$/, "");
const durationOf = (ms) => Object.entries(UNIT_SECONDS).map(([unit, size]) => [ms / 1000 / size, unit]).find(([number]) => Number.isInteger(number));
const durationText = (ms) => { const [number, unit] = durationOf(ms); return `${number} ${unit === "m" ? "min" : unit}`; };

/** A rule in plain English. */
function meaning(rule, schema) {
  const written = (name, value) => schema.byName.get(name).numeric ? plain(value, schema.byName.get(name).scale) : /^[\w.-]+$/.test(value) ? value : JSON.stringify(value);
  const condition = ([name, values]) => values.length > 1 ? `${name} in (${values.map((value) => written(name, value)).join(", ")})` : `${name} = ${written(name, values[0])}`;
  const where = rule.filter.length ? ` where ${rule.filter.map(condition).join(" and ")}` : "";
  const per = rule.keys.length ? ` per ${rule.keys.join(", ")}` : "", then = rule.action ? `, then ${rule.action} for ${durationText(rule.ttlMs)}` : "";
  const limit = limitText(rule).replace(/\d(?=(\d{3})+(\.|$))(?<!\..*)/g, "$&,");
  return `${rule.function}(${rule.unique.join(", ") || rule.field || "events"})${where}${per} over ${durationText(rule.windowMs)} ${SYMBOLS[rule.operator]} ${limit}${then}`;
}

/** The rules in force, and how many versions each id has had. `apply` gives the acknowledgement. */
class Book {
  constructor(schema) { this.schema = schema; this.rules = new Map(); this.versions = new Map(); }

  apply(text) {
    try {
      return { status: "accepted", ...this._carryOut(readMessage(text, this.schema)) };
    } catch (error) {
      if (!(error instanceof Bad)) throw error;
      return { status: "rejected", reason: error.message };
    }
  }

  _carryOut(message) {
    if (message.kind === "control") {
      if (message.control === "DELETE_RULES_ALL") this.rules.clear();
      return { controlType: message.control };
    }
    const { id, state } = message;
    if (message.kind !== "rule" && !this.rules.has(id))
      throw new Bad(expected("ruleId", new Literal(String(id)), `a rule in force (there are: ${this.sorted().slice(0, 20).map((rule) => rule.id).join(", ") || "none"})`));
    if (!this.rules.has(id) && this.rules.size >= MOST_RULES) throw new Bad(`ruleId: ${id} is new, but at most ${MOST_RULES} rules are allowed; delete one first`);
    const version = (this.versions.get(id) ?? 0) + 1;
    this.versions.set(id, version);
    if (message.kind === "delete") this.rules.delete(id);
    else this.rules.set(id, { ...(message.rule ?? this.rules.get(id)), state, version });
    return { ruleId: String(id), version, ruleState: state };
  }

  sorted() { return [...this.rules.values()].sort((a, b) => (a.id < b.id ? -1 : 1)); }

  /** The rules of each route, by id; routes in the order of their lowest rule id. */
  routes() {
    const found = new Map();
    for (const rule of this.sorted()) found.set(rule.routeId, [...(found.get(rule.routeId) ?? []), rule]);
    return found;
  }
}

/** Columns in which events keep fields: for each what is not null, then the field itself or the halves of a text's digest. */
function valueColumns(fields, schema) {
  const columns = new Map();
  fields.forEach((name, number) => {
    const flag = `not null/${Math.floor(number / 63)}`;
    for (const column of [flag, ...halves(name, schema)]) if (!columns.has(column)) columns.set(column, columns.size);
  });
  return columns;
}
const halves = (name, schema) => schema.byName.get(name).numeric ? [name] : [`${name}/0`, `${name}/1`];
const scaleOf = (rule, schema) => { const { power } = LAYOUT.running[rule.function]; return power ? power * schema.byName.get(rule.field).scale : 0; };

/** A route's rules as arrays of BigInts, named as in lab.engine.compiled.layout.Rules; see lab.engine.compiled.rulenumbers.numbers. */
function numbersOf(rules, fields, schema) {
  const at = LAYOUT.places, columns = valueColumns(fields, schema), keys = new Map();
  rules.forEach((rule, row) => {
    if (rule.state !== "ACTIVE") return;
    const { kind, lanes } = LAYOUT.running[rule.function], own = kind === LAYOUT.kinds.COUNT_SINCE ? rule.id : null;
    const name = JSON.stringify([kind, rule.field, [...rule.unique].sort(byCodePoint), rule.windowMs, own && String(own)]);
    if (!keys.has(name)) keys.set(name, { kind, lanes, field: rule.field, unique: [...rule.unique].sort(byCodePoint), windowMs: rule.windowMs, own, limits: new Map() });
    const square = LAYOUT.running[rule.function].squared, unit = 10n ** BigInt(scaleOf(rule, schema));
    const limit = unit * (square ? rule.limit * (rule.limit < 0n ? -rule.limit : rule.limit) : rule.limit * FRACTION); // with 24 digits after the point
    const { limits } = keys.get(name);
    if (!limits.has(limit)) limits.set(limit, OPERATORS.map(() => []));
    limits.get(limit)[OPERATORS.indexOf(rule.operator)].push(row);
  });
  const aggregate = [], needs = [], unique = [], limit = [], upto = [], firing = [];
  let queues = 0, distinct = 0, lanes = 0, own = 0;
  for (const key of keys.values()) {
    const row = new Array(at.EXCLUDES + 1).fill(0n), first = unique.length, needed = new Map();
    for (const name of new Set([...key.unique, ...(key.field ? [key.field] : [])])) {
      const number = fields.indexOf(name), column = columns.get(`not null/${Math.floor(number / 63)}`);
      needed.set(column, (needed.get(column) ?? 0n) + (1n << BigInt(number % 63)));
    }
    for (const name of key.unique) for (const half of halves(name, schema)) unique.push(BigInt(at.VALUES + columns.get(half)));
    row[at.KIND] = BigInt(key.kind);
    row[at.RULE_ID] = key.own ?? -1n;
    row[at.WINDOW] = BigInt(key.windowMs);
    if (key.field) row[at.COLUMN] = BigInt(at.VALUES + columns.get(halves(key.field, schema)[0]));
    row[at.NEEDS] = BigInt(needs.length / 2);
    for (const [column, bits] of needed) needs.push(BigInt(at.VALUES + column), bits);
    row[at.NEEDS_END] = BigInt(needs.length / 2);
    row[at.FIRST] = BigInt(first);
    row[at.LAST] = BigInt(unique.length);
    row[at.QUEUE] = BigInt(queues);
    row[at.WIDTH] = BigInt(key.lanes);
    row[at.LIMITS] = BigInt(limit.length / 4);
    row[at.POSITIONS] = BigInt(upto.length / 6);
    queues += Number(key.kind >= LAYOUT.kinds.LOWEST);
    distinct += Number(key.unique.length > 0);
    lanes += key.lanes;
    own += Number(key.own !== null);
    aggregate.push(...row);
    const ascending = [...key.limits.keys()].sort((a, b) => (a < b ? -1 : 1));
    for (const each of ascending) limit.push(...limitRow(each));
    const positions = Array.from({ length: ascending.length + 1 }, () => new Array(6).fill(0n));
    OPERATORS.forEach((_, operator) => {
      ascending.forEach((each, position) => {
        positions[position][operator] = BigInt(firing.length);
        firing.push(...key.limits.get(each)[operator].map(BigInt));
      });
      positions.at(-1)[operator] = BigInt(firing.length);
    });
    upto.push(...positions.flat());
  }
  const when = rules.flatMap(() => [-1n, 0n]); // rules with one are refused
  return { aggregate, needs, unique, limit, upto, firing, when, queues, distinct, lanes, own, aggregates: keys.size };
}

/** A limit with 24 digits after the point as four int64s. */
function limitRow(limit) {
  const one = FRACTION * FRACTION, most = TOO_LARGE * one;
  const inside = limit < -most ? -most : limit >= most ? most - one : limit;
  let whole = inside / one, rest = inside % one;
  if (rest < 0n) { whole -= 1n; rest += one; }
  return [BigInt.asIntN(64, whole >> 64n), BigInt.asIntN(64, whole), rest / FRACTION, rest % FRACTION];
}
