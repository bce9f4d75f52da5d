// The book of rules: Python has it, lab.page.front, and says what the rules of each route are for the compiled loop, lab.page.routes.
"use strict";

const MOST_ID = (1n << 63n) - 1n;
// begin the names under which an event keeps whether `where` is true of it, and whether a rule alerted at it
const isBit = (name) => name.startsWith(LAYOUT.where) || name.startsWith(LAYOUT.spoke);

/** What Python wrote: lab.page.front. */
const fromPython = (text) => JSON.parse(text, (_, value) => (value?.$ === undefined ? value : BigInt(value.$)));

/** The rules in force and the named lists, as Python has read them. */
class Book {
  constructor(schema, lateMs, latePolicy) {
    const python = front.Book(JSON.stringify(schema.given), lateMs, latePolicy);
    Object.assign(this, { python, reader: python.reader, rules: new Map(), lists: new Map(), listChanges: 0 });
  }

  /** Gives the acknowledgement, and the routes after it. `events`: how many have come, and `newest` of their times. */
  apply(text, events, newest) {
    const { ack, rule, deleted, list, routes } = fromPython(this.python.carry_out(text, events, JSON.stringify(newest)));
    for (const id of deleted) this.rules.delete(id);
    if (rule) this.rules.set(rule.id, rule);
    if (list) {
      this.lists.set(list.name, list);
      this.listChanges++;
    }
    return { ack, routes };
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

  sorted() { return [...this.rules.values()].sort((a, b) => byNumber(a.id, b.id)); }
}

/** The column that says which fields of an event are not null, by the field's number, and its bit there. */
const notNull = (number) => [`not null/${Math.floor(number / 63)}`, 1n << BigInt(number % 63)];
const halves = (name, schema) => isBit(name) ? [] : schema.byName.get(name).numeric ? [name] : [`${name}/0`, `${name}/1`];
