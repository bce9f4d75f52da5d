// The newest events in memory, of which Python finds the window behind an alert: lab.page.windows.
"use strict";

const PAST_BYTES = 16 << 20, MOST_HANDED = 50000; // of which Python makes a window in about a second

/** The newest decoded events, as many as fit into PAST_BYTES. Each has a number: how many came before it. */
class Past {
  constructor({ schema, python, texts }) {
    this.size = Math.floor(PAST_BYTES / (9 * schema.fields.length));
    this.columns = new Columns(schema, python, texts, this.size);
    this.begin = 0; // the number of the oldest one
    this.end = 0;
    this.forgotten = texts.forgotten;
  }

  /** Copies decoded rows behind the events that are here; where texts have new numbers, it begins anew. */
  take({ rows, pairs, valid, texts }) {
    if (this.forgotten !== texts.forgotten) {
      this.begin = this.end;
      for (const each of this.columns.valid) each.fill(0);
    }
    this.forgotten = texts.forgotten;
    for (let row = 0; row < rows; ) {
      const at = this.end % this.size, next = Math.min(rows, row + this.size - at);
      for (let n = 0; n < pairs.length; n++) {
        this.columns.pairs[n].set(pairs[n].subarray(2 * row, 2 * next), 2 * at);
        this.columns.valid[n].set(valid[n].subarray(row, next), at);
      }
      this.end += next - row;
      row = next;
    }
    this.begin = Math.max(this.begin, this.end - this.size);
    this.columns.rows = Math.min(this.end, this.size);
  }

  /** The events that may have mattered to a rule's window at the event `last`, which is the last of them: those of its key-group, as lab.page.windows takes them; `most`: if these are more, how many are handed over. */
  handed({ filter, filterSeesLists, route: { keys }, reachMs }, last, route) {
    const { columns, columns: { schema, valid } } = this, fields = keys.map((name) => schema.byName.get(name)), passes = filter && !filterSeesLists ? truthOf(filter, columns) : () => true;
    const rowOf = (number) => number % this.size, end = rowOf(last), since = columns.timeMs(end) - reachMs, numbers = [];
    for (let number = this.begin, row = rowOf(number); number <= last; row = rowOf(++number))
      if (columns.timeMs(row) >= since && fields.every((field) => valid[field.number][row]) && passes(row)) numbers.push(number);
    const keyGroups = route.keyGroupsOf(columns, numbers.map(rowOf)), near = numbers.filter((_, n) => keyGroups[n] === keyGroups.at(-1)), handed = near.slice(-MOST_HANDED);
    return { numbers: new Uint8Array(Float64Array.from(handed).buffer), columns: columns.at(handed.map(rowOf)), most: handed.length < near.length ? MOST_HANDED : null };
  }
}

/** What the page shows of the window behind an alert, whose event had the number `last`. */
function windowBehind({ past, book, routes }, { ruleId, last, json }) {
  const rule = book.rules.get(BigInt(ruleId)), about = { meaning: rule?.summary, absence: Boolean(rule?.absent), kept: past.end - past.begin };
  if (!rule || rule.absent || last < past.begin) return about;
  const { numbers, columns, most } = past.handed(rule, last, [...routes.values()].find(({ rules }) => rules.includes(rule))), { parts, texts } = columns.packed(columns.schema.fields);
  return { ...about, most, ...JSON.parse(book.python.window(json, numbers, parts, texts)) };
}
