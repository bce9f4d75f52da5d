// What a rule that says `absence` awaits, in the module's memory: the compiled loop says what is due, lab.engine.compiled.waits.
"use strict";

const AWAITING_AT_MOST = 2 ** 20, TEXT_AT_FIRST = 1 << 16; // rules; bytes

/** What one rule awaits after events of its route. `order`: its place among such rules. */
class Waits {
  constructor(route, of) {
    Object.assign(this, { route, engine: route.engine, of, order: 0 });
    this.arrays = this._create(ROOM_AT_FIRST, TEXT_AT_FIRST);
  }

  _create(entries, text) {
    const { SALT, KEY } = LAYOUT.waits, shapes = { scalars: [8, SALT + 1], entries: [8, entries, KEY + this.route.keyColumns.length], newest_entries: [4, powerOfTwo(2 * entries)], texts: [1, text] };
    const arrays = new Arrays(this.engine.memory, shapes, ["entries", "newest_entries", "texts"]);
    arrays.i64("scalars")[SALT] = salt();
    arrays.i32("newest_entries").fill(-1);
    return arrays;
  }

  /** Follows rows of its route, of which `fates` are known; calls `found({ row, place, id, noted })` for each alert that is due at a row. */
  follow(columns, rows, fates, found) {
    const { engine, engine: { memory, reached }, route: { batch }, of } = this, { AT, SEQ, FROM, ENTRIES, TEXT } = LAYOUT.waits, rule = engine.book.rules.get(of.id), first = engine.past.end - columns.rows;
    const [starts, ends] = [of.when, of.where].map((when) => (when ? truthOf(when, columns) : () => true)), texts = Array.from(rows, (row) => fates[row] === 0 && starts(row) ? encoder.encode(engine.noted(row, rule, [NONE])) : null);
    const size = rows.length, text = texts.reduce((sum, each) => sum + (each?.length ?? 0), 0), due = this._makeRoom(size, text), given = new Arrays(memory, {
      fates: [1, size], key_groups: [8, size], keys: [8, size, this.route.keyColumns.length], seqs: [8, size], arrived_ms: [8, size], is_live: [1, size], times_ms: [8, size], event_ids: [8, size], starts_wait: [1, size], ends_wait: [1, size], taken_back_seqs: [8, size], text_offsets: [8, size + 1], texts: [1, text], due,
    }, ["due"]);
    const bytes = (name) => memory.bytes(given.addresses[name], given.size(name)), [fate, starting, ending, all] = ["fates", "starts_wait", "ends_wait", "texts"].map(bytes), [seqs, arrived, offsets] = ["seqs", "arrived_ms", "text_offsets"].map((name) => given.i64(name));
    bytes("keys").set(memory.bytes(batch.addresses.keys, given.size("keys")));
    for (let n = 0, at = 0; n < size; n++) {
      const row = rows[n], own = texts[n];
      fate[n] = fates[row];
      starting[n] = own ? 1 : 0;
      ending[n] = ends(row) ? 1 : 0;
      seqs[n] = BigInt((first + row) * AWAITING_AT_MOST + this.order);
      arrived[n] = BigInt(reached[row]);
      if (own) all.set(own, at);
      offsets[n + 1] = BigInt((at += own?.length ?? 0));
    }
    const { frame } = engine, at = LAYOUT.frame;
    this.arrays.into(frame, at.WAITS);
    given.into(frame, at.WAIT_ROWS); // `due` stands behind them
    frame[at.WIDEST] = BigInt(of.windowMs);
    frame[at.NEWEST_TIME] = BigInt(reached[columns.rows - 1]);
    engine.call("follow_waits");
    const scalars = this.arrays.i64("scalars"), entries = this.arrays.i64("entries"), width = this.arrays.shapes.entries[2], said = memory.bytes(this.arrays.addresses.texts, Number(scalars[TEXT]));
    for (const entry of given.i64("due").subarray(0, Number(frame[at.FIRED]))) {
      const n = Number(entry), of = (place) => Number(entries[n * width + place]), end = n + 1 < Number(scalars[ENTRIES]) ? of(width + FROM) : said.length, place = of(SEQ);
      found({ row: firstAbove(reached, of(AT) + this.of.windowMs), place, rule, noted: { text: textDecoder.decode(said.slice(of(FROM), end)), last: Math.floor(place / AWAITING_AT_MOST) } });
    }
    given.release();
  }

  /** Makes room for more entries and bytes of text, if there is none; gives the shape of a list of all entries then. */
  _makeRoom(more, text) {
    const { engine, engine: { memory } } = this, { FROM, ENTRIES, HEAD, TEXT } = LAYOUT.waits, { arrays: old, arrays: { shapes } } = this, scalars = old.i64("scalars"), [entries, head, used] = [ENTRIES, HEAD, TEXT].map((place) => Number(scalars[place]));
    if (entries + more <= shapes.entries[1] && used + text <= shapes.texts[1]) return [8, entries + more];
    const from = head < entries ? Number(old.i64("entries")[head * shapes.entries[2] + FROM]) : used, list = new Arrays(memory, { due: [8, entries] });
    this.arrays = this._create(Math.max(ROOM_AT_FIRST, 2 * (entries - head + more)), Math.max(TEXT_AT_FIRST, 2 * (used - from + text)));
    old.into(engine.frame, LAYOUT.frame.WAITS);
    this.arrays.into(engine.frame, LAYOUT.frame.OTHER_WAITS);
    list.into(engine.frame, LAYOUT.frame.DUE);
    engine.call("move_waits");
    old.release();
    list.release();
    return [8, Number(this.arrays.i64("scalars")[ENTRIES]) + more];
  }

  release() { this.arrays.release(); }
}

/** The first place of a number that is greater, in numbers that ascend. */
function firstAbove(numbers, least) {
  let [low, high] = [0, numbers.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (numbers[middle] > least) high = middle; else low = middle + 1;
  }
  return low;
}
