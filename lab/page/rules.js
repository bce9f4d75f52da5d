// The book of rules: Python has it, lab.page.front, and turns a route's rules into the numbers that the compiled loop works with.
"use strict";

const MOST_ID = (1n << 63n) - 1n;
// begins the name under which an event keeps whether a rule alerted at it; `where` has one, too
const SPOKE = LAYOUT.spoke, isBit = (name) => name.startsWith(LAYOUT.where) || name.startsWith(SPOKE);

/** What Python wrote: lab.page.front. */
const fromPython = (text) => JSON.parse(text, (_, value) => (value?.$ === undefined ? value : BigInt(value.$)));

/** The rules in force and the named lists, as Python has read them. `apply` gives the acknowledgement. */
class Book {
  constructor(schema, lateMs, latePolicy) {
    const python = front.Book(JSON.stringify(schema.given), lateMs, latePolicy);
    Object.assign(this, { python, reader: python.reader, rules: new Map(), lists: new Map(), listChanges: 0, joinings: 0 });
  }

  /** `events`: how many have come, and `newest` of their times. */
  apply(text, events, newest) {
    const { ack, rule, deleted, list } = fromPython(this.python.carry_out(text, events, JSON.stringify(newest)));
    for (const id of deleted) this.rules.delete(id);
    if (rule) this._put(rule, this.rules.get(rule.id));
    if (list) {
      this.lists.set(list.name, list);
      this.listChanges++;
    }
    return ack;
  }

  /** Those of what the engine noted of alerts that nobody has muted. */
  notMuted(alerts) {
    if (!this.lists.get("muted")?.count) return alerts;
    const muted = JSON.parse(this.python.muted(`[${alerts.map(({ noted }) => noted().text).join(",")}]`));
    return alerts.filter((_, n) => !muted[n]);
  }

  /** Alerts, out of what the engine noted of them. */
  alerts(noted) {
    const made = JSON.parse(this.python.alerts(`[${noted.map(({ text }) => text).join(",")}]`));
    return made.map((alert, n) => ({ ...alert, last: noted[n].last }));
  }

  /** The rules of a route as numbers for the loop, named as in lab.engine.compiled.layout.Rules; `fields`: what its events keep. */
  numbers(route, fields) {
    const { arrays, ...sizes } = JSON.parse(this.python.numbers(route, JSON.stringify(fields)));
    return { ...sizes, arrays: Object.fromEntries(Object.entries(arrays).map(([name, packed]) => [name, new BigInt64Array(bytesOf(packed).buffer)])) };
  }

  /** `spoke`: under what events keep that the rule alerted; what it did before it joined its route does not concern it. */
  _put(rule, before) {
    rule.joinedAt = before?.route.id === rule.route.id ? before.joinedAt : this.joinings++;
    rule.spoke = rule.atMost ? `${SPOKE}${rule.id}.${rule.joinedAt}` : null;
    this.rules.set(rule.id, rule);
  }

  sorted() { return [...this.rules.values()].sort((a, b) => byNumber(a.id, b.id)); }

  /** The rules of each route, by id; routes in the order of their lowest rule id. */
  routes() {
    const found = new Map();
    for (const rule of this.sorted()) found.set(rule.route.id, [...(found.get(rule.route.id) ?? []), rule]);
    return found;
  }
}

/** The column that says which fields of an event are not null, by the field's number, and its bit there. */
const notNull = (number) => [`not null/${Math.floor(number / 63)}`, 1n << BigInt(number % 63)];
const halves = (name, schema) => isBit(name) ? [] : schema.byName.get(name).numeric ? [name] : [`${name}/0`, `${name}/1`];
