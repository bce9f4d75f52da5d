// The engine of the page: rules and decoded events in, notes of alerts out, of which Python makes alerts: lab.engine.windows.evaluate.
"use strict";

/** Rules and events in, alerts out; `wasm`: the compiled module. Of the alerts of each few thousand events the newest `mostAlerts` are made, all are counted. */
class Engine {
  constructor(wasm, schema, { lateMs = 300000, latePolicy = 0, keyGroups = 16, mostAlerts = Infinity } = {}) {
    Object.assign(this, { schema, lateMs, latePolicy, keyGroups, mostAlerts });
    this.memory = new Memory(wasm);
    this._frame = this.memory.take(8 * LAYOUT.frame.FRAME);
    this._out = this.memory.take(64);
    this._words = this.memory.take(8 * 40);
    this._ids = new Int32Array(2 * ROWS);
    this.rows = new Int32Array(ROWS); // room for those that a route judges
    this.frame[LAYOUT.frame.SELF] = BigInt(this._frame);
    this.frame[LAYOUT.frame.SELF + 1] = BigInt(LAYOUT.frame.FRAME);
    this.book = new Book(schema, lateMs, latePolicy);
    this.routes = new Map(); // by the number of its store
    this.columns = new Columns(schema, this.book.python);
    this.past = new Past(this.columns);
    this.seq = 1;
    this.newest = []; // event times of all records, ms, as many as show which time is reached, the newest first
    this.fired = {}; // by rule id: alerts
    this.inShadow = {}; // those of rules in state SHADOW
    this.suppressed = {}; // those that were not given, as the rule says how many at most
    this.counts = { records: 0, deadLetters: 0, unrouted: 0, routed: 0, alerts: 0, nanAsNull: 0 };
    this.lines = new Lines(this);
  }

  get frame() { return this.memory.i64(this._frame, LAYOUT.frame.FRAME); }

  call(name) {
    if (this.memory.calls[name](this._out, this._out + 8, BigInt(this._frame)) !== 0) throw new Error(`${name} failed`);
  }

  /** Carries out a control message and gives its acknowledgement. */
  control(text) {
    const { ack, routes } = this.book.apply(text, this.past.end, this.newest), before = this.routes;
    if (ack.status === "rejected") return ack;
    if (ack.list) this.columns.texts.known = new WeakMap(); // which values lists have
    this.routes = new Map(routes.map(({ store, changed }) => [store, before.get(store) ?? new Route(this, changed)]));
    for (const { store, changed } of routes) if (changed && before.has(store)) before.get(store).change(changed);
    for (const [store, route] of before) if (!this.routes.has(store)) route.release();
    [...this.routes.values()].flatMap(({ waits }) => [...waits.values()]).forEach((each, order) => { each.order = order; });
    return ack;
  }

  /** Reads and judges records, one a line; `found(alert)` and `bad({reason, bytes})` are called as they come. */
  take(bytes, found, bad) {
    this.lines.take(bytes, () => {
      this.past.take(this.columns);
      if (this.columns.rows) this._judge(found);
    }, bad);
  }

  _judge(found) {
    const { columns } = this, alerts = [], unclaimed = new Uint8Array(columns.rows).fill(1);
    this.reached = new Float64Array(columns.rows);
    for (let row = 0; row < columns.rows; row++) {
      this._note(columns.timeMs(row));
      this.reached[row] = this.newest[0];
    }
    [...this.routes.values()].forEach((route, order) => {
      route.judge(columns, unclaimed, (row, rule, values) => alerts.push({ row, order, place: route.rules.indexOf(rule), rule, noted: () => this._alert(row, rule, values) }),
        ({ noted, ...due }) => alerts.push({ ...due, order: -1, noted: () => noted }));
    });
    const unrouted = unclaimed.reduce((sum, each) => sum + each, 0);
    this.counts.unrouted += unrouted;
    this.counts.routed += columns.rows - unrouted;
    alerts.sort((a, b) => a.row - b.row || a.order - b.order || a.place - b.place);
    const isGiven = ({ id }) => this.book.rules.get(id).state !== "SHADOW", raised = this.book.notMuted(alerts), given = raised.filter(({ rule }) => isGiven(rule));
    this.counts.alerts += given.length;
    for (const { rule } of raised) {
      const counted = isGiven(rule) ? this.fired : this.inShadow;
      counted[rule.id] = (counted[rule.id] ?? 0) + 1;
    }
    for (const { noted } of given.slice(-this.mostAlerts)) found(noted());
  }

  _note(ms) {
    const { newest } = this;
    if (newest.length === LAYOUT.witnesses && ms <= newest.at(-1)) return;
    newest.splice(newest.findIndex((other) => other < ms) >>> 0, 0, ms);
    newest.length = Math.min(newest.length, LAYOUT.witnesses);
  }

  get stored() { return [...this.routes.values()].reduce((sum, route) => sum + route.events, 0); }

  // -- ids, digests, key-groups

  /** The first bytes of a text's BLAKE2b, as int32s. */
  digest(bytes, size) {
    const room = Math.max(128, 128 * Math.ceil(bytes.length / 128)), text = this.memory.take(room), { frame } = this, at = LAYOUT.frame;
    this.memory.bytes(text, bytes.length).set(bytes);
    frame.set([BigInt(text), BigInt(room)], at.TEXT);
    frame.set([BigInt(this._words), 40n], at.DIGEST);
    frame[at.START_ROW] = BigInt(bytes.length);
    frame[at.DONE] = BigInt(size);
    this.call("blake2b");
    this.memory.give(text, room);
    return this.memory.i32(this._words, size / 4).slice();
  }

  digestsOf(columns, names, rows) {
    const { texts } = columns;
    for (const name of names) {
      const field = this.schema.byName.get(name), pairs = columns.pairs[field.number], valid = columns.valid[field.number];
      if (field.numeric) continue;
      for (let n = 0, row = rows[0]; n < rows.length; row = rows[++n]) if (valid[row]) texts.digests[pairs[2 * row]] ??= this.digest(texts.bytes.subarray(texts.spans[2 * pairs[2 * row]], texts.spans[2 * pairs[2 * row]] + texts.spans[2 * pairs[2 * row] + 1]), 16);
    }
  }

  /** The ids of rows as the loop takes them: a number, or 64 bits of a text's digest. */
  ids(columns, rows) {
    const { schema } = this;
    if (schema.numericId) return columns.pairs[schema.ids[0].number];
    for (const row of rows) this._ids.set(this.digest(encoder.encode(columns.idText(row)), 8), 2 * row);
    return this._ids;
  }

  keyGroupsOf(batch, rows, width) {
    const { frame } = this, at = LAYOUT.frame;
    frame.set([BigInt(batch.addresses.keys), BigInt(rows), BigInt(width)], at.KEYS);
    frame.set([BigInt(batch.addresses.key_groups), BigInt(rows)], at.KEY_GROUPS);
    frame[at.DONE] = BigInt(this.keyGroups);
    this.call("compute_key_groups");
  }

  // -- alerts

  _alert(row, rule, values) { return { text: this.noted(row, rule, values), last: this.past.end - this.columns.rows + row }; }

  /** What Python makes an alert of: `Book.alerts`. */
  noted(row, rule, values) {
    const { schema, columns } = this, jsonOf = (names) => names.map((name) => columns.json(schema.byName.get(name), row)).join(",");
    const measures = Object.entries(values).map(([place, each]) => `"${place}":["${each.join('","')}"]`); // of those that there are
    return `[${rule.number},${columns.idJson(row)},${columns.value(schema.time, row)},[${jsonOf(rule.keys)}],[${jsonOf(rule.eventFields)}],{${measures.join(",")}}]`;
  }
}

const NONE = [0n, 0n, 0n, 1n]; // a count of 0, as the loop measures it
const isBlank = (bytes, start, end) => { for (let n = start; n < end; n++) if (bytes[n] !== 32 && bytes[n] !== 9 && bytes[n] !== 13) return false; return true; };
