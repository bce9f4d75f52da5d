// A route's events in the module's memory, which the compiled loop judges: lab.engine.windows.store.
"use strict";

const SMALLEST = 6; // 2^6 bytes
const ALERTS_AT_ONCE = 4096, ROOM_AT_FIRST = 1024;
const FATES = ["evaluated", "storedLate", "duplicates", "droppedLate"];
const salt = () => crypto.getRandomValues(new BigInt64Array(1))[0] & MOST_ID;
const powerOfTwo = (least) => { let size = 1; while (size < least) size *= 2; return size; };

/** Room in the module's memory, in sizes that are powers of two: what is given back is taken again. */
class Memory {
  constructor(wasm) {
    this.memory = new WebAssembly.Memory({ initial: 4 });
    this.free = new Map();
    this.end = 1 << 16; // below is what the module itself has
    this.calls = new WebAssembly.Instance(wasm, { env: { __linear_memory: this.memory } }).exports;
  }

  /** An address of so many bytes: all zero, or, if not `cleared`, whatever they are. */
  take(bytes, cleared = true) {
    const size = 2 ** Math.max(SMALLEST, Math.ceil(Math.log2(Math.max(bytes, 1))));
    const spare = this.free.get(size)?.pop();
    if (spare !== undefined) {
      if (cleared) this.bytes(spare, bytes).fill(0);
      return spare;
    }
    const address = this.end;
    this.end += size;
    const missing = this.end - this.memory.buffer.byteLength;
    if (missing > 0) this.memory.grow(Math.ceil(missing / 65536)); // which is zero
    return address;
  }

  give(address, bytes) {
    const size = 2 ** Math.max(SMALLEST, Math.ceil(Math.log2(Math.max(bytes, 1))));
    if (!this.free.has(size)) this.free.set(size, []);
    this.free.get(size).push(address);
  }

  bytes(address, length) { return new Uint8Array(this.memory.buffer, address, length); }
  i32(address, length) { return new Int32Array(this.memory.buffer, address, length); }
  i64(address, length) { return new BigInt64Array(this.memory.buffer, address, length); }
}

/** Arrays in memory, named as in a tuple of the loop: {name: [bytes of an element, …lengths]}; all zero but those that are `overwritten`. */
class Arrays {
  constructor(memory, shapes, overwritten = []) {
    this.memory = memory;
    this.shapes = shapes;
    this.addresses = {};
    for (const name in shapes) this.addresses[name] = memory.take(this.size(name), !overwritten.includes(name));
  }

  size(name) { return this.shapes[name].reduce((product, each) => product * each, 1); }
  i64(name) { return this.memory.i64(this.addresses[name], this.size(name) / 8); }
  i32(name) { return this.memory.i32(this.addresses[name], this.size(name) / 4); }
  release() { for (const name in this.shapes) this.memory.give(this.addresses[name], this.size(name)); }

  /** Writes addresses and lengths into the frame from a place on. */
  into(frame, place) {
    for (const name in this.shapes) {
      frame[place++] = BigInt(this.addresses[name]);
      for (const length of this.shapes[name].slice(1)) frame[place++] = BigInt(length);
    }
  }
}

/** The events of one route, and the rules that judge them: lab.page.routes. */
class Route {
  constructor(engine, plan) {
    this.engine = engine;
    this.counts = { evaluated: 0, storedLate: 0, duplicates: 0, droppedLate: 0 };
    this.waits = new Map(); // by the rule's name in `awaiting`
    this.keyColumns = plan.keys.flatMap((name) => halves(name, engine.schema));
    this._set(plan);
    this.store = this._create({ events: ROOM_AT_FIRST, groups: ROOM_AT_FIRST, accumulators: this.plan.lanes, resets: 2 * this.plan.own });
  }

  _set(plan) {
    const { engine: { book, memory } } = this, at = LAYOUT.places, { aggregateCount, whens } = plan;
    const arrays = Object.fromEntries(Object.entries(plan.arrays).map(([name, packed]) => [name, new BigInt64Array(bytesOf(packed).buffer)])), width = (name, size) => [8, arrays[name].length / size, size];
    Object.assign(this, { plan, rules: plan.rules.map((id) => book.rules.get(id)), needed: new Set(plan.needed), columns: new Map(plan.columns.map((name, number) => [name, number])) });
    this.asArrays?.release();
    this.asArrays = new Arrays(memory, {
      aggregates: [8 * LAYOUT.aggregateFields, aggregateCount], required_bits: width("required_bits", 2), distinct_columns: [8, arrays.distinct_columns.length], limits: width("limits", 4), firing_bounds: width("firing_bounds", 6), firing_rules: [8, arrays.firing_rules.length],
      when_bits: width("when_bits", 2), conditions: width("conditions", at.CONDITION_COLUMNS), rules_with_conditions: width("rules_with_conditions", at.SPOKE_BIT + 1), saved_measures: [8, aggregateCount, 4],
    });
    for (const name in arrays) this.asArrays.i64(name).set(arrays[name]);
    const before = this.waits;
    this.waits = new Map(plan.awaiting.map((of) => [of.name, before.get(of.name) ?? new Waits(this, of)]));
    for (const [name, waits] of before) if (!this.waits.has(name)) waits.release();
    this.mostRows = plan.rules.length + at.VALUES_OF_CONDITION * this.asArrays.shapes.conditions[1]; // of alerts, at one event
    this.batch?.release();
    this.batch = new Arrays(memory, {
      times_ms: [8, ROWS], event_ids: [8, ROWS], key_groups: [8, ROWS], keys: [8, ROWS, this.keyColumns.length], values: [8, ROWS, this.columns.size], groups: [8, ROWS], log_times_ms: [8, ROWS], when_bits: [8, ROWS, Math.ceil(whens.length / 63)],
    });
  }

  _create(room) {
    const { memory, keyGroups } = this.engine, { queues, distinct, aggregateCount } = this.plan, at = LAYOUT.places, blocks = 2 * Math.floor(room.events / LAYOUT.halfBlock) + 1;
    const store = new Arrays(memory, {
      scalars: [8, LAYOUT.sizes], newest: [8, keyGroups, 2 * LAYOUT.witnesses], events: [8, room.events, at.VALUES + this.columns.size], queues: [4, room.events, queues, 2],
      groups: [8, room.groups, at.KEY + this.keyColumns.length], group_table: [4, powerOfTwo(2 * room.groups)], accumulator_starts: [4, room.groups, aggregateCount],
      accumulators: [8, Math.max(room.accumulators, ROOM_AT_FIRST)], distinct_table: [4, powerOfTwo(2 * room.events * distinct), 3],
      reset_table: [8, powerOfTwo(room.resets), 3], same_time_table: [4, powerOfTwo(2 * (room.events + LAYOUT.twins))],
      blocks: [8, blocks, LAYOUT.block], block_totals: [8, blocks, aggregateCount, LAYOUT.lanes], scratch: [8, LAYOUT.scratch],
    }, ["events", "groups", "group_table", "accumulator_starts", "distinct_table", "reset_table"]); // of events and groups the loop fills a row before it reads it
    store.i64("scalars")[at.SALT] = salt();
    for (let n = 0, newest = store.i64("newest"); n < newest.length; n++) newest[n] = n % (2 * LAYOUT.witnesses) < LAYOUT.witnesses ? LAYOUT.never : -1n;
    for (const name of ["group_table", "accumulator_starts", "distinct_table"]) store.i32(name).fill(-1);
    store.i64("reset_table").fill(-1n);
    return store;
  }

  _sizes() { return [...this.store.i64("scalars")].map(Number); }

  get events() { return Number(this.store.i64("scalars")[LAYOUT.places.EVENTS]); }

  /** The same events in new arrays, with room for more; those from before a time go, and those that expired. */
  layOut(more, { before = LAYOUT.never, widestMs = this.plan.widestMs, kept = this.plan.rules } = {}) {
    const { engine, engine: { memory } } = this, { GROUPS, RESETS } = LAYOUT.places, old = this.store, sizes = this._sizes();
    engine.frame[LAYOUT.frame.BEFORE] = before;
    engine.frame[LAYOUT.frame.REACH] = BigInt(widestMs + engine.lateMs);
    old.into(engine.frame, LAYOUT.frame.STORE);
    engine.call("count_events_to_move");
    const stored = Number(engine.frame[LAYOUT.frame.HELD]);
    const groups = Math.min(sizes[GROUPS], stored) + (more.groups ?? 0), lanes = this.plan.lanes;
    const group = powerOfTwo(Math.max(groups, ROOM_AT_FIRST) + 1);
    const room = { events: powerOfTwo(Math.max(1.5 * stored + (more.events ?? 0), ROOM_AT_FIRST)), groups: group, accumulators: lanes * group, resets: 2 * (sizes[RESETS] + (more.resets ?? 0) + this.plan.own) };
    this.store = this._create(room);
    const rules = memory.take(8 * kept.length);
    memory.i64(rules, kept.length).set(kept);
    const { frame } = engine, firing = LAYOUT.frame.RULES_FIRING;
    this.asArrays.into(frame, LAYOUT.frame.RULES);
    frame[firing] = BigInt(rules);
    frame[firing + 1] = BigInt(kept.length);
    old.into(frame, LAYOUT.frame.STORE);
    this.store.into(frame, LAYOUT.frame.OTHER);
    engine.call("move_events");
    memory.give(rules, 8 * kept.length);
    old.release();
  }

  /** Goes on with other rules. */
  change(plan) {
    const { widestMs } = this.plan;
    this._set(plan);
    this.layOut({}, { ...plan, widestMs });
  }

  /** Judges the rows of the decoded columns that are of this route; calls `found(row, rule, values)` for each alert: what its conditions measured, by number; and `never`, see `Waits`. */
  judge(columns, unclaimed, found, never) {
    const rows = this._rows(columns), fates = new Uint8Array(columns.rows);
    for (let n = 0; n < rows.length; n++) unclaimed[rows[n]] = 0;
    if (rows.length) this._evaluate(columns, rows, fates, found);
    for (const waits of this.waits.values()) waits.follow(columns, rows, fates, never);
  }

  /** Fills in what became of each row. */
  _evaluate(columns, rows, fates, found) {
    const { engine } = this, { memory } = engine, { DONE, FIRED } = LAYOUT.frame, { GROUPS, LANES, RESETS, ROW, RULE, CONDITION, HIGH_PART, SUPPRESSED } = LAYOUT.places;
    this._fill(columns, rows);
    if (this.events + rows.length > this.store.shapes.events[1]) this.layOut({ events: rows.length });
    const width = LAYOUT.places.DENOMINATOR + 1, most = this.mostRows + ALERTS_AT_ONCE, alerts = memory.take(8 * width * most, false);
    const fate = memory.take(ROWS, false);
    let done = 0;
    while (done < rows.length) {
      const sizes = this._sizes(), { shapes } = this.store;
      if (sizes[GROUPS] === shapes.groups[1] || sizes[LANES] + this.plan.lanes > shapes.accumulators[1] || 2 * (sizes[RESETS] + this.plan.own) > shapes.reset_table[1])
        this.layOut({ events: rows.length, groups: sizes[GROUPS], resets: sizes[RESETS] + 16 });
      const { frame } = engine; // after what may have moved the memory
      this.store.into(frame, LAYOUT.frame.STORE);
      this.asArrays.into(frame, LAYOUT.frame.RULES);
      this.batch.into(frame, LAYOUT.frame.BATCH);
      for (let place = LAYOUT.frame.BATCH, n = 0; n < 7; n++) {
        frame[place + 1] = BigInt(rows.length);
        place += n === 3 || n === 4 ? 3 : 2;
      }
      frame.set([BigInt(fate), BigInt(rows.length)], LAYOUT.frame.FATE);
      frame.set([BigInt(alerts), BigInt(most), BigInt(width)], LAYOUT.frame.ALERTS);
      frame.set([BigInt(engine.seq), BigInt(done), BigInt(this.plan.widestMs), BigInt(engine.lateMs), BigInt(engine.latePolicy)], LAYOUT.frame.FIRST_SEQ);
      engine.call("evaluate");
      done = Number(frame[DONE]);
      const fired = Number(frame[FIRED]), numbers = memory.i64(alerts, width * fired);
      for (let n = 0; n < fired; ) {
        const [row, rule] = [ROW, RULE].map((place) => Number(numbers[n * width + place])), values = [];
        for (; n < fired && numbers[n * width + ROW] === BigInt(row) && numbers[n * width + RULE] === BigInt(rule); n++)
          values[Number(numbers[n * width + CONDITION])] = numbers.slice(n * width + HIGH_PART, (n + 1) * width);
        if (SUPPRESSED in values) engine.suppressed[this.rules[rule].id] = (engine.suppressed[this.rules[rule].id] ?? 0) + 1;
        else found(rows[row], this.rules[rule], values);
      }
    }
    engine.seq += rows.length;
    const became = memory.bytes(fate, rows.length), counted = new Int32Array(FATES.length);
    for (let n = 0; n < rows.length; n++) {
      fates[rows[n]] = became[n];
      counted[became[n]]++;
    }
    FATES.forEach((name, number) => { this.counts[name] += counted[number]; });
    memory.give(alerts, 8 * width * most);
    memory.give(fate, ROWS);
  }

  /** The key-groups of rows. */
  keyGroupsOf(columns, rows) {
    const found = [];
    for (let n = 0; n < rows.length; n += ROWS) {
      const some = rows.slice(n, n + ROWS);
      this._fillKeys(columns, some);
      found.push(...this.batch.i64("key_groups").subarray(0, some.length));
    }
    return found;
  }

  /** The rows that pass the filter and have a group. */
  _rows(columns) {
    const { schema: { byName }, rows } = this.engine, valid = this.plan.keys.map((name) => columns.valid[byName.get(name).number]);
    const passes = this.plan.filter ? truthOf(this.plan.filter, columns) : null;
    let count = 0;
    for (let row = 0; row < columns.rows; row++) {
      let isThere = 1;
      for (let n = 0; n < valid.length; n++) isThere &= valid[n][row];
      if (isThere && (passes === null || passes(row))) rows[count++] = row;
    }
    return rows.subarray(0, count);
  }

  /** Copies the rows' ids, times, keys and fields into the batch, as the loop takes them. */
  _fill(columns, rows) {
    const { engine, batch } = this, { schema } = engine;
    engine.digestsOf(columns, this.plan.fields.filter((name) => this.needed.has(name) && !isBit(name)), rows);
    this._copy(columns.pairs[schema.time.number], rows, batch.i32("times_ms"), 0, 1);
    this._copy(engine.ids(columns, rows), rows, batch.i32("event_ids"), 0, 1);
    this._fillKeys(columns, rows);
    const value = batch.i32("values"), size = this.columns.size;
    value.fill(0, 0, 2 * size * rows.length);
    this.plan.fields.forEach((name, number) => {
      if (!this.needed.has(name)) return;
      const field = schema.byName.get(name), valid = columns.valid[field?.number], isThere = name in this.plan.truths ? truthOf(this.plan.truths[name], columns) : (row) => valid[row] === 1;
      if (field) this._copyField(columns, field, rows, value, this.columns.get(halves(name, schema)[0]), size);
      setBits(value, rows, isThere, size, this.columns.get(notNull(number)[0]), number % 63);
    });
    const when = batch.i32("when_bits"), whenColumns = batch.shapes.when_bits[2];
    when.fill(0, 0, 2 * whenColumns * rows.length);
    this.plan.whens.forEach((each, number) => setBits(when, rows, truthOf(each, columns), whenColumns, Math.floor(number / 63), number % 63));
  }

  _fillKeys(columns, rows) {
    const { engine, batch } = this, width = this.keyColumns.length;
    engine.digestsOf(columns, this.plan.keys, rows);
    let k = 0;
    for (const name of this.plan.keys) k += this._copyField(columns, engine.schema.byName.get(name), rows, batch.i32("keys"), k, width);
    engine.keyGroupsOf(batch, rows.length, width);
  }

  /** Copies pairs of int32s into column `k` of a matrix of so many int64s a row. */
  _copy(pairs, rows, into, k, width) {
    for (let n = 0; n < rows.length; n++) {
      into[2 * (n * width + k)] = pairs[2 * rows[n]];
      into[2 * (n * width + k) + 1] = pairs[2 * rows[n] + 1];
    }
  }

  /** A field into column `k`, or the halves of its digest into `k` and the next, nulls as zeros; how many columns that was. */
  _copyField(columns, field, rows, into, k, width) {
    const pairs = columns.pairs[field.number], valid = columns.valid[field.number], { digests } = columns.texts;
    for (let n = 0; n < rows.length; n++) {
      const row = rows[n], at = 2 * (n * width + k);
      if (!valid[row]) continue;
      if (field.numeric) { into[at] = pairs[2 * row]; into[at + 1] = pairs[2 * row + 1]; } else into.set(digests[pairs[2 * row]], at);
    }
    return field.numeric ? 1 : 2;
  }

  release() {
    for (const each of [this.store, this.asArrays, this.batch, ...this.waits.values()]) each.release();
  }
}

/** Sets a bit in column `k` of a matrix of so many int64s a row, for the rows of which something is true. */
function setBits(into, rows, isTrue, width, k, bit) {
  const place = 2 * k + (bit >> 5), mask = 1 << (bit & 31);
  for (let n = 0; n < rows.length; n++) if (isTrue(rows[n])) into[2 * n * width + place] |= mask;
}
