// The engine of the page: rules and decoded events in, alerts out: lab.engine.windows.evaluate, lab.engine.windows.alertlines.
"use strict";

/** Rules and events in, alerts out; `wasm`: the compiled module. */
class Engine {
  constructor(wasm, schema, { lateMs = 300000, latePolicy = 0, keyGroups = 16 } = {}) {
    Object.assign(this, { schema, lateMs, latePolicy, keyGroups });
    this.memory = new Memory(wasm);
    this._frame = this.memory.take(8 * LAYOUT.frame.FRAME);
    this._out = this.memory.take(64);
    this._words = this.memory.take(8 * 40);
    this._ids = new Int32Array(2 * ROWS);
    this.frame[LAYOUT.frame.SELF] = BigInt(this._frame);
    this.frame[LAYOUT.frame.SELF + 1] = BigInt(LAYOUT.frame.FRAME);
    this.book = new Book(schema);
    this.routes = new Map();
    this.columns = new Columns(schema);
    this.seq = 1;
    this.newest = null; // event time of all records, ms
    this.counts = { records: 0, deadLetters: 0, unrouted: 0, routed: 0, alerts: 0, nanAsNull: 0 };
  }

  get frame() { return this.memory.i64(this._frame, LAYOUT.frame.FRAME); }

  call(name) {
    if (this.memory.calls[name](this._out, this._out + 8, BigInt(this._frame)) !== 0) throw new Error(`${name} failed`);
  }

  /** Carries out a control message and gives its acknowledgement. */
  control(text) {
    const ack = this.book.apply(text), rules = this.book.routes();
    if (ack.status === "rejected") return ack;
    for (const [id, route] of [...this.routes]) {
      if (!rules.has(id) || ack.controlType === "CLEAR_STATE_ALL") {
        route.release();
        this.routes.delete(id);
      }
    }
    const before = this.routes;
    this.routes = new Map();
    for (const [id, of] of rules) {
      const route = before.get(id);
      if (route && (route.rules.length !== of.length || route.rules.some((rule, n) => rule !== of[n]))) route.change(of, this.newest);
      this.routes.set(id, route ?? new Route(this, of));
    }
    return ack;
  }

  /** Reads and judges records, one a line; `found(alert)` and `bad({reason, line, bytes})` are called as they come. */
  take(bytes, found, bad) {
    let start = 0, line = 0;
    while (start < bytes.length) {
      this.columns.clear();
      while (start < bytes.length && this.columns.rows < ROWS) {
        let end = bytes.indexOf(LINE_FEED, start);
        if (end < 0) end = bytes.length;
        const last = end > start && bytes[end - 1] === RETURN ? end - 1 : end;
        if (!isBlank(bytes, start, last)) this._read(bytes, start, last, line, bad);
        start = end + 1;
        line++;
      }
      this._judge(found);
    }
  }

  _read(bytes, start, end, line, bad) {
    this.counts.records++;
    try {
      this.columns.read(bytes, start, end, this.counts);
    } catch (error) {
      if (!(error instanceof Bad)) throw error;
      this.counts.deadLetters++;
      bad({ reason: error.message, line, bytes: bytes.slice(start, Math.min(end, start + 2000)) });
    }
  }

  _judge(found) {
    const { columns, schema } = this, alerts = [], unclaimed = new Uint8Array(columns.rows).fill(1);
    const times = columns.pairs[schema.time.number];
    let number = 0;
    for (const route of this.routes.values()) {
      const order = number++;
      route.judge(columns, unclaimed, (row, rule, numbers) => alerts.push({ row, order, place: route.rules.indexOf(rule), rule, numbers }));
    }
    for (let row = 0; row < columns.rows; row++) this.newest = Math.max(this.newest ?? 0, times[2 * row + 1] * 4294967296 + (times[2 * row] >>> 0));
    const unrouted = unclaimed.reduce((sum, each) => sum + each, 0);
    this.counts.unrouted += unrouted;
    this.counts.routed += columns.rows - unrouted;
    this.counts.alerts += alerts.length;
    alerts.sort((a, b) => a.row - b.row || a.order - b.order || a.place - b.place);
    for (const { row, rule, numbers } of alerts) found(this._alert(row, rule, numbers));
  }

  get held() { return [...this.routes.values()].reduce((sum, route) => sum + route.events, 0); }

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
      for (const row of rows) if (valid[row]) texts.digests[pairs[2 * row]] ??= this.digest(texts.bytes.subarray(texts.spans[2 * pairs[2 * row]], texts.spans[2 * pairs[2 * row]] + texts.spans[2 * pairs[2 * row] + 1]), 16);
    }
  }

  /** The ids of rows as the loop takes them: a number, or 64 bits of a text's digest. */
  ids(columns, rows) {
    const { schema } = this;
    if (schema.numericId) return columns.pairs[schema.byName.get(schema.id_fields[0]).number];
    for (const row of rows) this._ids.set(this.digest(encoder.encode(this.idText(row)), 8), 2 * row);
    return this._ids;
  }

  idText(row) {
    const [first, ...others] = this.schema.id_fields;
    return others.length ? this.idJson(row) : String(this.columns.value(this.schema.byName.get(first), row));
  }

  idJson(row) {
    const parts = this.schema.id_fields.map((name) => this.columns.value(this.schema.byName.get(name), row)).map((value) => typeof value === "string" ? quoted(value) : String(value));
    return parts.length > 1 ? `[${parts.join(",")}]` : parts[0];
  }

  keyGroupsOf(batch, rows, width) {
    const { frame } = this, at = LAYOUT.frame;
    frame.set([BigInt(batch.addresses.key), BigInt(rows), BigInt(width)], at.KEYS);
    frame.set([BigInt(batch.addresses.key_group), BigInt(rows)], at.KEY_GROUPS);
    frame[at.DONE] = BigInt(this.keyGroups);
    this.call("key_groups");
  }

  // -- alerts

  _alert(row, rule, numbers) {
    const { schema, columns } = this, written = rule.keys.map((name) => {
      const field = schema.byName.get(name), value = columns.value(field, row), text = field.numeric ? plain(value, field.scale) : value;
      return { name, text, json: field.precision || !field.numeric ? quoted(text) : text };
    });
    const group = `{${written.map(({ name, json }) => `${quoted(name)}:${json}`).join(",")}}`, hash = hex(this.digest(encoder.encode(group), 16));
    const whole = `{${written.map(({ name, text }) => `${name}=${text}`).join(";")}}`;
    const key = length(whole) <= MAX_TEXT ? whole : `${[...whole].slice(0, MAX_TEXT).join("")}…${hex(this.digest(encoder.encode(whole), 16))}}`;
    const time = columns.value(schema.time, row), id = `${rule.id}.${rule.version}.${this.idText(row)}.${time}.${hash}`;
    const aggregate = reported(rule, numbers, scaleOf(rule, schema)), limit = limitText(rule);
    const json = `{"alertId":${quoted(id)},"ruleId":${rule.id},"ruleVersion":${rule.version},"key":${quoted(key)},"group":${group},` +
      `"aggregate":"${aggregate}","operator":"${rule.operator}","limit":"${limit}"${rule.said},"eventId":${this.idJson(row)},"eventTime":${time}}`;
    return { json, ruleId: String(rule.id), version: rule.version, key, aggregate, operator: SYMBOLS[rule.operator], limit, eventId: this.idText(row), eventTime: Number(time) };
  }
}

const isBlank = (bytes, start, end) => { for (let n = start; n < end; n++) if (bytes[n] !== 32 && bytes[n] !== 9 && bytes[n] !== 13) return false; return true; };
const hex = (words) => [...new Uint8Array(words.buffer, words.byteOffset, words.byteLength)].map((byte) => byte.toString(16).padStart(2, "0")).join("");

/** What an alert tells of its aggregate: high · 2⁶⁴ + low + part / parts, in units of the last of `scale` digits. */
function reported(rule, numbers, scale) {
  const [high, low, part, parts] = numbers.slice(LAYOUT.places.HIGH_PART), whole = (high << 64n) + BigInt.asUintN(64, low);
  const { reported: how } = LAYOUT.running[rule.function];
  if (how === "exact") return plain(whole, scale);
  const numerator = whole * parts + part, denominator = parts * 10n ** BigInt(scale);
  return plain(how === "root" ? millionthsOfRoot(numerator, denominator) : rounded(numerator * 1000000n, denominator), 6);
}

/** Half-even. */
function rounded(numerator, denominator) {
  let below = numerator / denominator, rest = numerator % denominator;
  if (rest < 0n) { below -= 1n; rest += denominator; }
  return below + BigInt(2n * rest > denominator || (2n * rest === denominator && below % 2n !== 0n));
}

function millionthsOfRoot(numerator, denominator) {
  const wanted = numerator * 10n ** 12n, square = wanted / denominator;
  let below = square === 0n ? 0n : 1n << BigInt(Math.ceil(square.toString(2).length / 2));
  for (let next = below; below > 0n; below = next) { next = (below + square / below) / 2n; if (next >= below) break; }
  const aboveMiddle = 4n * wanted - (2n * below + 1n) ** 2n * denominator;
  return below + BigInt(aboveMiddle > 0n || (aboveMiddle === 0n && below % 2n === 1n));
}
