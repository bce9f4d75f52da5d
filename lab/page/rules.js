// The book of rules, and a route's rules as the numbers that the compiled loop works with: lab.model.rules, lab.engine.compiled.rulenumbers.
"use strict";

const MOST_RULES = 20000, TOO_LARGE = 1n << 127n;
// begin the names under which an event keeps whether a `where` is true of it, and whether a rule alerted at it
const WHERE = "?", SPOKE = "!";
const isBit = (name) => name.startsWith(WHERE) || name.startsWith(SPOKE);

/** The rules in force, and how many versions each id has had. `apply` gives the acknowledgement. */
class Book {
  constructor(schema) { Object.assign(this, { schema, rules: new Map(), versions: new Map(), joinings: 0 }); }

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
    const { id, state } = message, before = this.rules.get(id);
    if (message.kind !== "rule" && !before)
      throw new Bad(expected("ruleId", new Literal(String(id)), `a rule in force (there are: ${this.sorted().slice(0, 20).map((rule) => rule.id).join(", ") || "none"})`));
    if (!before && this.rules.size >= MOST_RULES) throw new Bad(`ruleId: ${id} is new, but at most ${MOST_RULES} rules are allowed; delete one first`);
    const version = (this.versions.get(id) ?? 0) + 1;
    this.versions.set(id, version);
    if (message.kind === "delete") this.rules.delete(id);
    else this._put({ ...(message.rule ?? before), state, version }, before);
    return { ruleId: String(id), version, ruleState: state };
  }

  /** `spoke`: under what events keep that the rule alerted; what it did before it joined its route does not concern it. */
  _put(rule, before) {
    rule.joinedAt = before?.routeId === rule.routeId ? before.joinedAt : this.joinings++;
    rule.spoke = rule.atMost ? `${SPOKE}${rule.id}.${rule.joinedAt}` : null;
    this.rules.set(rule.id, rule);
  }

  sorted() { return [...this.rules.values()].sort((a, b) => byNumber(a.id, b.id)); }

  /** The rules of each route, by id; routes in the order of their lowest rule id. */
  routes() {
    const found = new Map();
    for (const rule of this.sorted()) found.set(rule.routeId, [...(found.get(rule.routeId) ?? []), rule]);
    return found;
  }
}

/** The conditions of rules on the event that may alert, each once: words ──► tree. */
const differentWhens = (rules) => new Map(rules.filter((rule) => rule.when).map((rule) => [whenText(rule.when), rule.when]));

/** Columns in which events keep fields: for each what is not null, then the field itself or the halves of a text's digest. */
function valueColumns(fields, schema) {
  const columns = new Map();
  fields.forEach((name, number) => {
    for (const column of [notNull(number)[0], ...halves(name, schema)]) if (!columns.has(column)) columns.set(column, columns.size);
  });
  return columns;
}
const notNull = (number) => [`not null/${Math.floor(number / 63)}`, 1n << BigInt(number % 63)];
const halves = (name, schema) => isBit(name) ? [] : schema.byName.get(name).numeric ? [name] : [`${name}/0`, `${name}/1`];
const scaleOf = (of, schema) => { const { power } = LAYOUT.running[of.function]; return power ? power * schema.byName.get(of.field).scale : 0; };

/** What a condition compares its aggregate with, in units of that one's last digit, with 24 more digits after the point. */
function limitUnits({ of, limit }, schema) {
  const square = LAYOUT.running[of.function].squared;
  return 10n ** BigInt(scaleOf(of, schema)) * (square ? limit * (limit < 0n ? -limit : limit) : limit * FRACTION);
}

/** A running aggregate of a rule: `own`, the rule's id, where it is reset when that fires; and its name, which tells it apart. */
function runningOf(of, rule) {
  const { kind, lanes } = LAYOUT.running[of.function], unique = [...of.unique].sort(byCodePoint), own = kind === LAYOUT.kinds.COUNT_SINCE ? rule.id : null;
  const key = { kind, lanes, field: of.field, unique, windowMs: of.windowMs, where: of.whereName, excludes: of.excludes, own, compared: false, limits: new Map() };
  return { ...key, name: JSON.stringify([kind, key.field, unique, key.windowMs, key.where, key.excludes, own && String(own)]) };
}

/** The count of a rule's alerts, if it says `atMost`. */
const runningOfAlerts = (rule) => runningOf({ function: "COUNT", field: null, unique: [], windowMs: rule.perMs, whereName: rule.spoke, excludes: false }, rule);

/** A route's rules as arrays of BigInts, named as in lab.engine.compiled.layout.Rules; see lab.engine.compiled.rulenumbers.rules_to_arrays. */
function numbersOf(rules, fields, schema) {
  const at = LAYOUT.places, columns = valueColumns(fields, schema), keys = new Map(), active = rules.map((rule, row) => [rule, row]).filter(([rule]) => rule.state === "ACTIVE" && !rule.absence);
  const add = (key) => { if (!keys.has(key.name)) keys.set(key.name, key); return keys.get(key.name); };
  for (const [rule, row] of active) {
    if (!rule.isPlain || rule.atMost) {
      for (const key of [...rule.aggregations.map((of) => runningOf(of, rule)), ...(rule.atMost ? [runningOfAlerts(rule)] : [])]) add(key).compared = true;
      continue;
    }
    const [condition] = rule.conditions, { limits } = add(runningOf(condition.of, rule)), limit = limitUnits(condition, schema);
    if (!limits.has(limit)) limits.set(limit, OPERATORS.map(() => []));
    limits.get(limit)[OPERATORS.indexOf(condition.operator)].push(row);
  }
  const found = { aggregates: [], required_bits: [], distinct_columns: [], limits: [], firing_bounds: [], firing_rules: [], queues: 0, distinct: 0, lanes: 0, own: 0, aggregateCount: keys.size };
  for (const key of keys.values()) addAggregate(found, key, fields, columns, schema);
  const whens = [...differentWhens(rules).keys()];
  found.when_bits = rules.flatMap((rule) => {
    const number = rule.when ? whens.indexOf(whenText(rule.when)) : -1;
    return number < 0 ? [-1n, 0n] : [BigInt(Math.floor(number / 63)), 1n << BigInt(number % 63)];
  });
  found.whenColumns = Math.ceil(whens.length / 63);
  const places = new Map([...keys.keys()].map((name, place) => [name, place]));
  return { ...found, ...conditionNumbers(active.filter(([rule]) => !rule.isPlain || rule.atMost), places, fields, columns, schema) };
}

/** A running aggregate as a row of numbers, with what it needs and the limits of plain rules. */
function addAggregate(found, key, fields, columns, schema) {
  const at = LAYOUT.places, { required_bits: needs, distinct_columns: unique, limits, firing_bounds: bounds, firing_rules: firing } = found, row = new Array(at.EXCLUDES + 1).fill(0n), needed = new Map();
  row[at.KIND] = BigInt(key.kind);
  row[at.RULE_ID] = key.own ?? -1n;
  row[at.WINDOW] = BigInt(key.windowMs);
  if (key.field) row[at.COLUMN] = BigInt(at.VALUES + columns.get(key.field));
  row[at.NEEDS] = BigInt(needs.length / 2);
  for (const name of new Set([...key.unique, key.field, key.where].filter((each) => each !== null))) {
    const [column, bit] = notNull(fields.indexOf(name));
    needed.set(column, (needed.get(column) ?? 0n) + bit);
  }
  for (const [column, bits] of needed) needs.push(BigInt(at.VALUES + columns.get(column)), bits);
  row[at.NEEDS_END] = BigInt(needs.length / 2);
  row[at.FIRST] = BigInt(unique.length);
  for (const name of key.unique) for (const half of halves(name, schema)) unique.push(BigInt(at.VALUES + columns.get(half)));
  row[at.LAST] = BigInt(unique.length);
  row[at.QUEUE] = BigInt(found.queues);
  row[at.WIDTH] = BigInt(key.lanes);
  row[at.LIMITS] = BigInt(limits.length / 4);
  row[at.POSITIONS] = BigInt(bounds.length / 6);
  row[at.COMPARED] = BigInt(key.compared);
  row[at.EXCLUDES] = BigInt(key.excludes);
  found.aggregates.push(...row);
  found.queues += Number(key.kind >= LAYOUT.kinds.FIRST_QUEUE);
  found.distinct += Number(key.unique.length > 0);
  found.lanes += key.lanes;
  found.own += Number(key.own !== null);
  const ascending = [...key.limits.keys()].sort(byNumber);
  for (const each of ascending) limits.push(...limitRow(each));
  const positions = Array.from({ length: ascending.length + 1 }, () => new Array(6).fill(0n));
  OPERATORS.forEach((_, operator) => {
    ascending.forEach((each, position) => {
      positions[position][operator] = BigInt(firing.length);
      firing.push(...key.limits.get(each)[operator].map(BigInt));
    });
    positions.at(-1)[operator] = BigInt(firing.length);
  });
  bounds.push(...positions.flat());
}

/** `conditions` and `rules_with_conditions` of the rules that are not plain, or say `atMost`. */
function conditionNumbers(rules, places, fields, columns, schema) {
  const conditions = [], rules_with_conditions = [], width = LAYOUT.places.CONDITION_COLUMNS, placeOf = (of, rule) => BigInt(places.get(runningOf(of, rule).name));
  for (const [rule, row] of rules) {
    const first = BigInt(conditions.length / width);
    for (const each of rule.conditions) {
      const multiple = each.base ? reduced(each.limit, FRACTION * each.by) : [1n, 1n], tens = each.base ? scaleOf(each.of, schema) - scaleOf(each.base, schema) : 0;
      conditions.push(placeOf(each.of, rule), BigInt(OPERATORS.indexOf(each.operator)), ...limitRow(limitUnits(each, schema)), each.base ? placeOf(each.base, rule) : -1n, ...multiple, BigInt(tens), -1n, 1n, 1n, 0n, -1n, ...plusNumbers(each.plus, scaleOf(each.of, schema)));
    }
    const most = [-1n, 0n, 0n, 0n];
    if (rule.atMost) {
      const [column, bit] = notNull(fields.indexOf(rule.spoke));
      most.splice(0, 4, BigInt(places.get(runningOfAlerts(rule).name)), rule.atMost, BigInt(LAYOUT.places.VALUES + columns.get(column)), bit);
    }
    rules_with_conditions.push(BigInt(row), first, BigInt(conditions.length / width), BigInt(rule.joined === "or"), rule.isPlain ? conditions[Number(first) * width] : -1n, ...most);
  }
  return { conditions, rules_with_conditions, conditionCount: conditions.length / width };
}

/** What is added to a limit: its sign, and limbs of 32 bits; `scale`: digits after the point of what is measured. */
function plusNumbers(plus, scale) {
  const whole = (plus < 0n ? -plus : plus) * 10n ** BigInt(scale);
  return [BigInt(byNumber(plus, 0n)), ...Array.from({ length: LAYOUT.places.PLUS_LIMBS }, (_, limb) => (whole >> BigInt(32 * limb)) & 0xffffffffn)];
}

function reduced(numerator, denominator) {
  let [a, b] = [numerator, denominator];
  while (b) [a, b] = [b, a % b];
  return [numerator / a, denominator / a];
}

/** A limit with 24 digits after the point as four int64s. */
function limitRow(limit) {
  const one = FRACTION * FRACTION, most = TOO_LARGE * one;
  const inside = limit < -most ? -most : limit >= most ? most - one : limit;
  let whole = inside / one, rest = inside % one;
  if (rest < 0n) { whole -= 1n; rest += one; }
  return [BigInt.asIntN(64, whole >> 64n), BigInt.asIntN(64, whole), rest / FRACTION, rest % FRACTION];
}
