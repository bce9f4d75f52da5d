// Columns of events as pairs of int32s, and lines of bytes into them: the compiled reader reads nearly all, Python what it leaves.
"use strict";

const ROWS = 4096; // that are decoded at once
const TWO_32 = 2 ** 32, MOST_LINE = 1 << 20, MOST_TEXTS = 200000, MOST_TEXT_BYTES = 32 << 20;
const [POINT, ZERO, LINE_FEED, RETURN] = [46, 48, 10, 13];
const encoder = new TextEncoder(), textDecoder = new TextDecoder("utf-8", { ignoreBOM: true });

/** A schema with what reading needs; `given` as lab.page.reader describes it. A record is an event for each of its legs, in `legs` by name. */
function schemaOf(given) {
  const recorded = given.fields.length, fields = [...given.fields, ...given.more].map((field, number) => {
    const decimal = /^decimal\((\d+),(\d+)\)$/.exec(field.type), numeric = !["string", "boolean"].includes(field.type);
    return { ...field, number, numeric, scale: numeric ? Number(decimal?.[2] ?? 0) : null, precision: Number(decimal?.[1] ?? 0) };
  });
  const byName = new Map(fields.map((field) => [field.name, field])), legs = (given.legs ?? []).map(([name]) => name), ids = [...given.id_fields, ...(legs.length ? [LAYOUT.leg] : [])].map((name) => byName.get(name));
  return { ...given, given, recorded, fields, byName, legs, ids, numericId: ids.length === 1 && ids[0].numeric, time: byName.get(given.time_field), line: fields.find((field) => field.virtual) };
}

/** Texts by number: the same bytes have the same number, until `forget`. */
class Texts {
  constructor() {
    this.forgotten = 0;
    this.seed = crypto.getRandomValues(new Int32Array(1))[0]; // so that nobody can choose texts that share a place
    this.forget();
  }

  get isFull() { return this.values.length > MOST_TEXTS || this.used > MOST_TEXT_BYTES; }

  forget() {
    this.forgotten++;
    this.known = new WeakMap(); // what truth.js knows of them
    this.values = [];
    this.spans = [];
    this.table = new Int32Array(1 << 10).fill(-1);
    this.bytes = new Uint8Array(1 << 14);
    this.used = 0;
    this.digests = [];
    this.places = [];
  }

  /** The number of the text in bytes[start … end); if it has none it gets one, or, if not `added`, that is -1. */
  at(bytes, start, end, added = true) {
    let hash = this.seed;
    for (let n = start; n < end; n++) hash = Math.imul(hash ^ bytes[n], 0x01000193);
    hash ^= hash >>> 15;
    const mask = this.table.length - 1, size = end - start;
    for (let place = hash & mask; ; place = (place + 1) & mask) {
      const number = this.table[place];
      if (number < 0) return added ? this._add(bytes, start, end, place, hash) : -1;
      if (this.spans[2 * number + 1] !== size) continue;
      const first = this.spans[2 * number];
      let n = 0;
      while (n < size && this.bytes[first + n] === bytes[start + n]) n++;
      if (n === size) return number;
    }
  }

  of(text, added) {
    const bytes = encoder.encode(text);
    return this.at(bytes, 0, bytes.length, added);
  }

  _add(bytes, start, end, place, hash) {
    const number = this.values.length;
    while (this.used + end - start > this.bytes.length) {
      const grown = new Uint8Array(2 * this.bytes.length);
      grown.set(this.bytes);
      this.bytes = grown;
    }
    this.bytes.set(bytes.subarray(start, end), this.used);
    this.spans.push(this.used, end - start);
    this.used += end - start;
    this.values.push(textDecoder.decode(bytes.subarray(start, end)));
    this.places.push(hash);
    this.table[place] = number;
    if (2 * this.values.length > this.table.length) {
      const grown = new Int32Array(2 * this.table.length).fill(-1), mask = grown.length - 1;
      this.places.forEach((of, each) => {
        let at = of & mask;
        while (grown[at] >= 0) at = (at + 1) & mask;
        grown[at] = each;
      });
      this.table = grown;
    }
    return number;
  }
}

/** The columns of so many events, by the field's number: pairs of int32s (low, high), of texts their numbers; and which are null. */
class Columns {
  constructor(schema, python, texts = new Texts(), size = ROWS) {
    Object.assign(this, { schema, python, texts });
    this.pairs = schema.fields.map(() => new Int32Array(2 * size));
    this.valid = schema.fields.map(() => new Uint8Array(size));
    this.rows = 0;
  }

  clear() {
    this.rows = 0;
    if (this.texts.isFull) this.texts.forget();
  }

  /** A value as a BigInt, a text, or null. */
  value(field, row) {
    if (!this.valid[field.number][row]) return null;
    const pairs = this.pairs[field.number], low = pairs[2 * row];
    return field.numeric ? (BigInt(pairs[2 * row + 1]) << 32n) | BigInt(low >>> 0) : this.texts.values[low];
  }

  /** A value as people read it, exactly. */
  text(field, row) {
    const value = this.value(field, row);
    return field.numeric && value !== null ? plain(value, field.scale) : value;
  }

  /** A value as alerts have it: decimals as texts. */
  json(field, row) {
    const text = this.text(field, row);
    return text === null ? "null" : field.numeric && !field.precision ? text : quoted(text);
  }

  /** A time; -1 if it is null. */
  ms({ number }, row) {
    const pairs = this.pairs[number];
    return this.valid[number][row] ? pairs[2 * row + 1] * TWO_32 + (pairs[2 * row] >>> 0) : -1;
  }

  timeMs(row) { return this.ms(this.schema.time, row); }

  idText(row) {
    const [first, ...others] = this.schema.ids;
    return others.length ? this.idJson(row) : String(this.value(first, row));
  }

  idJson(row) {
    const parts = this.schema.ids.map((field) => this.value(field, row)).map((value) => typeof value === "string" ? quoted(value) : String(value));
    return parts.length > 1 ? `[${parts.join(",")}]` : parts[0];
  }

  /** Writes a value: a BigInt, a text, or null. */
  put({ number, numeric }, row, value) {
    const pairs = this.pairs[number];
    this.valid[number][row] = value === null ? 0 : 1;
    if (value === null) return;
    pairs[2 * row] = numeric ? Number(BigInt.asIntN(32, value)) : this.texts.of(value);
    pairs[2 * row + 1] = numeric ? Number(value >> 32n) : 0;
  }

  /** Writes a column as Python packed it, of some rows in turn: into every so many rows from a row on. */
  putColumn({ number }, { numbers, valid, texts }, rows, step = 1, from = 0) {
    const [pairs, has] = [this.pairs[number], this.valid[number]], packed = new Int32Array(bytesOf(numbers).buffer), isThere = bytesOf(valid), known = texts?.map((text) => this.texts.of(text));
    for (let n = 0, to = from; n < rows.length; n++, to += step) {
      const row = rows[n];
      has[to] = isThere[row];
      pairs[2 * to] = known ? known[packed[2 * row]] : packed[2 * row];
      pairs[2 * to + 1] = packed[2 * row + 1];
    }
  }

  /** What Python takes of some fields: of each its bytes, and of texts which they are. */
  packed(fields) {
    const packed = fields.map(({ number, numeric }) => {
      const pairs = this.pairs[number].subarray(0, 2 * this.rows), valid = this.valid[number].subarray(0, this.rows), bytes = new Uint8Array(pairs.buffer, pairs.byteOffset, pairs.byteLength), texts = {};
      if (!numeric) for (let row = 0; row < this.rows; row++) if (valid[row]) texts[pairs[2 * row]] ??= this.texts.values[pairs[2 * row]];
      return { parts: [bytes, valid], texts: numeric ? null : texts };
    });
    return { parts: packed.map(({ parts }) => parts), texts: JSON.stringify(packed.map(({ texts }) => texts)) };
  }

  /** These rows, as columns of their own. */
  at(rows) {
    const found = new Columns(this.schema, this.python, this.texts, rows.length);
    found.rows = rows.length;
    this.pairs.forEach((pairs, number) => {
      const [valid, into, isThere] = [this.valid[number], found.pairs[number], found.valid[number]];
      for (let n = 0; n < rows.length; n++) {
        into[2 * n] = pairs[2 * rows[n]];
        into[2 * n + 1] = pairs[2 * rows[n] + 1];
        isThere[n] = valid[rows[n]];
      }
    });
    return found;
  }

  /** Only these rows are left, each so many times. */
  keep(rows, times) {
    const found = this.at(Int32Array.from({ length: rows.length * times }, (_, n) => rows[Math.floor(n / times)]));
    found.pairs.forEach((pairs, number) => this.pairs[number].set(pairs));
    found.valid.forEach((valid, number) => this.valid[number].set(valid));
    this.rows = found.rows;
  }
}

/** Reads lines, as many at once as columns have rows. */
class Lines {
  constructor(engine) {
    const tables = JSON.parse(engine.book.reader.tables()), length = engine.schema.recorded, size = (name) => bytesOf(tables[name]).length, at = LAYOUT.lines;
    this.engine = engine;
    this.read = 0; // lines
    this.deriver = engine.book.python.deriver;
    this.needed = this.deriver.needed.toJs();
    this.all = new Int32Array(ROWS).map((_, n) => n);
    this.shapes = {
      text: [1, 0], starts: [8, ROWS], ends: [8, ROWS], names: [1, size("names")], members: [at.member, size("members") / at.member], objects: [at.object, size("objects") / at.object], fields: [at.field, length], about: [8, size("about") / 8], ids: [8, size("ids") / 8],
      numbers: [8, length, ROWS], places: [8, length, ROWS], sizes: [4, length, ROWS], states: [1, length, ROWS], read: [1, ROWS], seen: [8, size("members") / at.member], around: [8, size("objects") / at.object], opened: [1, at.deepest],
    };
    this.arrays = new Arrays(engine.memory, this.shapes);
    for (const name in tables) engine.memory.bytes(this.arrays.addresses[name], size(name)).set(bytesOf(tables[name]));
  }

  /** Reads bytes, a record a line; `read()` is called when so many rows of the columns are filled as there are, `bad({reason, bytes})` for each line that is no event. */
  take(bytes, read, bad) {
    const { engine: { memory, columns } } = this, text = memory.take(bytes.length, false);
    memory.bytes(text, bytes.length).set(bytes);
    Object.assign(this.arrays.addresses, { text });
    Object.assign(this.shapes, { text: [1, bytes.length] });
    for (let at = 0; at < bytes.length; ) {
      columns.clear();
      at = this._fill(bytes, at, bad);
      read();
    }
    memory.give(text, bytes.length);
  }

  /** Fills rows from a place on; gives the place behind the last line. */
  _fill(bytes, at, bad) {
    const { engine, engine: { columns, counts, schema, schema: { fields, recorded, legs } } } = this, [starts, ends] = [new Int32Array(ROWS), new Int32Array(ROWS)], times = Math.max(legs.length, 1), most = Math.floor(ROWS / times);
    let lines = 0;
    while (at < bytes.length && lines < most) {
      let end = bytes.indexOf(LINE_FEED, at);
      if (end < 0) end = bytes.length;
      starts[lines] = at;
      ends[lines] = end > at && bytes[end - 1] === RETURN ? end - 1 : end;
      if (!isBlank(bytes, at, ends[lines])) lines++;
      at = end + 1;
    }
    const left = this._scan(starts.subarray(0, lines), ends.subarray(0, lines)), nans = fields.slice(0, recorded).flatMap((field) => this._column(bytes, field, lines));
    columns.rows = lines;
    const { made, failed } = this._derived(lines, new Set(left)), others = this._exactly(bytes, starts, ends, [...left, ...failed].sort((a, b) => a - b));
    const all = this.all.subarray(0, lines), rows = others.size ? all.filter((n) => typeof others.get(n) !== "string") : all;
    if (rows.length < lines || times > 1) columns.keep(rows, times);
    this._putLegs(made, rows);
    if (others.size) rows.forEach((n, row) => others.get(n)?.forEach((event, leg) => event.forEach((value, number) => columns.put(fields[number], row * times + leg, value))));
    if (schema.line) rows.forEach((n, row) => { for (let leg = 0; leg < times; leg++) columns.put(schema.line, row * times + leg, BigInt(this.read + n + 1)); });
    for (const [n, reason] of others) if (typeof reason === "string") bad({ reason, bytes: bytes.slice(starts[n], Math.min(ends[n], starts[n] + 2000)) });
    this.read += lines;
    counts.nanAsNull += nans.filter((n) => !others.has(n)).length;
    counts.records += columns.rows + lines - rows.length;
    counts.deadLetters += lines - rows.length;
    return at;
  }

  /** Has Python derive fields: the columns that it made of legs, and the rows that it could not, of those that are not `left` to it anyway. */
  _derived(rows, left) {
    const { schema, schema: { recorded, fields, given, legs }, columns } = this.engine;
    if (fields.length === recorded || !rows) return { made: [], failed: [] };
    const { parts, texts } = columns.packed(this.needed.map((name) => schema.byName.get(name))), { columns: made, failed } = JSON.parse(this.deriver.derived(parts, texts));
    made.splice(0, (given.derived ?? []).length).forEach((column, n) => columns.putColumn(fields[recorded + n], column, this.all.subarray(0, rows)));
    return { made: legs.length ? made : [], failed: failed.filter((row) => !left.has(row)) };
  }

  /** Writes what legs have of their own, and which they are, into rows that have been kept for each. `made`: of all lines. */
  _putLegs(made, rows) {
    const { schema: { recorded, fields, given, legs }, columns } = this.engine, first = recorded + (given.derived ?? []).length, own = fields.slice(first + 1);
    legs.forEach((leg, turn) => {
      for (let row = 0; row < rows.length; row++) columns.put(fields[first], row * legs.length + turn, leg);
      own.forEach((field, n) => columns.putColumn(field, made[turn * own.length + n], rows, legs.length, turn));
    });
  }

  /** Has the compiled reader read lines; gives the numbers of those that it leaves. */
  _scan(starts, ends) {
    const { engine, engine: { memory }, arrays } = this;
    Object.assign(this.shapes, { starts: [8, starts.length], ends: [8, ends.length] });
    for (const [name, places] of Object.entries({ starts, ends })) for (let n = 0, into = arrays.i32(name); n < places.length; n++) into[2 * n] = places[n];
    arrays.into(engine.frame, LAYOUT.frame.LINES);
    engine.call("scan_lines");
    const read = memory.bytes(arrays.addresses.read, starts.length), left = [];
    for (let n = 0; n < read.length; n++) if (!read[n]) left.push(n);
    return left;
  }

  /** Has Python read lines: by number their values, or why they are no events. */
  _exactly(bytes, starts, ends, left) {
    if (!left.length) return new Map();
    const lines = new Uint8Array(left.reduce((size, n) => size + ends[n] - starts[n] + 1, -1));
    let at = 0;
    for (const n of left) {
      lines.set(bytes.subarray(starts[n], ends[n]), at);
      at += ends[n] - starts[n] + 1;
      if (at < lines.length) lines[at - 1] = LINE_FEED;
    }
    const { read, nan } = fromPython(this.engine.book.reader.read(lines));
    this.engine.counts.nanAsNull += nan;
    return new Map(read.map((values, n) => [left[n], values]));
  }

  /** Copies what the compiled reader has of a field, for so many lines; gives those that have NaN there. */
  _column(bytes, field, lines) {
    const { arrays: { addresses }, engine: { memory, columns } } = this, { texts } = columns, { number, numeric } = field, first = number * ROWS, nans = [];
    const read = memory.bytes(addresses.read, ROWS), states = memory.bytes(addresses.states + first, ROWS), sizes = memory.i32(addresses.sizes + 4 * first, ROWS);
    const from = memory.i32((numeric ? addresses.numbers : addresses.places) + 8 * first, 2 * ROWS), pairs = columns.pairs[number], valid = columns.valid[number];
    for (let n = 0; n < lines; n++) {
      const state = read[n] ? states[n] : 0;
      valid[n] = state === 1 ? 1 : 0;
      if (state === 2) nans.push(n);
      if (state !== 1) continue;
      const low = from[2 * n], size = sizes[n];
      pairs[2 * n] = numeric ? low : size < 0 ? texts.of(JSON.parse(`"${textDecoder.decode(bytes.subarray(low, low - size))}"`)) : texts.at(bytes, low, low + size);
      pairs[2 * n + 1] = numeric ? from[2 * n + 1] : 0;
    }
    return nans;
  }
}
