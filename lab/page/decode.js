// Lines of bytes into columns of int64s, as pairs of int32s. What is plain is read as it stands in the bytes; all else, exactly, by exact.js.
"use strict";

const ROWS = 4096; // that are decoded at once
const MOST_LINE = 1 << 20, MOST_TEXTS = 200000;
const [QUOTE, COMMA, COLON, OPEN, CLOSE, MINUS, POINT, ZERO, LINE_FEED, RETURN, TRUE, NULL] = [34, 44, 58, 123, 125, 45, 46, 48, 10, 13, 116, 110];
const encoder = new TextEncoder(), decoder = new TextDecoder("utf-8", { fatal: true });
const textDecoder = new TextDecoder("utf-8", { ignoreBOM: true });

/** A schema with what reading needs; `given` as lab.model.schema writes it. */
function schemaOf(given) {
  const fields = given.fields.map((field, number) => {
    const decimal = /^decimal\((\d+),(\d+)\)$/.exec(field.type);
    const numeric = !["string", "boolean"].includes(field.type);
    const scale = numeric ? Number(decimal?.[2] ?? 0) : null, precision = Number(decimal?.[1] ?? 0);
    return { ...field, number, numeric, scale, precision, keys: field.path?.length ? field.path : [field.name], most: Math.min(10 ** precision, 2 ** 53) };
  });
  const byName = new Map(fields.map((field) => [field.name, field]));
  const numericId = given.id_fields.length === 1 && byName.get(given.id_fields[0]).numeric;
  return { ...given, fields, byName, numericId, flat: fields.every((field) => field.keys.length === 1), time: byName.get(given.time_field), line: fields.find((field) => field.virtual) };
}

/** Texts by number: the same bytes have the same number, until `forget`. */
class Texts {
  constructor() { this.forget(); }

  forget() {
    this.values = [];
    this.spans = [];
    this.table = new Int32Array(1 << 10).fill(-1);
    this.bytes = new Uint8Array(1 << 14);
    this.used = 0;
    this.digests = [];
    this.places = [];
  }

  /** The number of the text in bytes[start … end). */
  at(bytes, start, end) {
    let hash = 0x811c9dc5;
    for (let n = start; n < end; n++) hash = Math.imul(hash ^ bytes[n], 0x01000193);
    hash ^= hash >>> 15;
    const mask = this.table.length - 1, size = end - start;
    for (let place = hash & mask; ; place = (place + 1) & mask) {
      const number = this.table[place];
      if (number < 0) return this._add(bytes, start, end, place, hash);
      if (this.spans[2 * number + 1] !== size) continue;
      const first = this.spans[2 * number];
      let n = 0;
      while (n < size && this.bytes[first + n] === bytes[start + n]) n++;
      if (n === size) return number;
    }
  }

  of(text) {
    const bytes = encoder.encode(text);
    return this.at(bytes, 0, bytes.length);
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

/** The columns of up to ROWS events, by the field's number: pairs of int32s (low, high), of texts their numbers; and which are null. */
class Columns {
  constructor(schema) {
    this.schema = schema;
    this.texts = new Texts();
    this.pairs = schema.fields.map(() => new Int32Array(2 * ROWS));
    this.valid = schema.fields.map(() => new Uint8Array(ROWS));
    this.rows = 0;
    this._names = new Map();
  }

  clear() {
    this.rows = 0;
    if (this.texts.values.length > MOST_TEXTS) this.texts.forget();
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

  /** Reads the line in bytes[start … end) as another row. Throws a Bad; counts values that were NaN in `nan`. */
  read(bytes, start, end, counts) {
    const row = this.rows;
    for (const valid of this.valid) valid[row] = 0;
    if (!this.schema.flat || this.schema.records === "csv" || !this._plain(bytes, start, end, row)) {
      for (const valid of this.valid) valid[row] = 0;
      this._exactly(bytes, start, end, row, counts);
    }
    if (this.schema.line) this._put(this.schema.line, row, BigInt(counts.records));
    this._check(row);
    this.rows++;
  }

  _check(row) {
    for (const name of this.schema.id_fields) {
      const field = this.schema.byName.get(name), value = this.valid[field.number][row] && (field.numeric || this.value(field, row));
      if (value === 0) throw new Bad(expected(name, null, "the id of the event"));
      if (typeof value === "string" && !(length(value) >= 1 && length(value) <= MAX_ID)) throw new Bad(expected(name, value, `the id of the event, 1 to ${MAX_ID} characters`));
    }
    const { time } = this.schema, pairs = this.pairs[time.number];
    const ms = this.valid[time.number][row] ? pairs[2 * row + 1] * 4294967296 + (pairs[2 * row] >>> 0) : -1;
    if (!(ms >= 0 && ms < MAX_TIME)) throw new Bad(expected(time.name, ms < 0 ? null : new Literal(String(ms)), `the event time, 0 to ${MAX_TIME - 1} ms since the epoch (1970 to 2200)`));
  }

  // -- what is plain: a flat object of ASCII without escapes, numbers of up to 15 digits without exponents

  /** Whether the line was read; if not, nobody knows yet what is wrong with it, if anything. */
  _plain(bytes, start, end, row) {
    const { fields } = this.schema;
    let at = start, expectedField = 0;
    if (bytes[at++] !== OPEN || end - start > MOST_LINE) return false;
    for (;;) {
      while (bytes[at] === 32) at++;
      if (bytes[at++] !== QUOTE) return false;
      const first = at;
      for (let sign = bytes[at]; sign !== QUOTE; sign = bytes[++at]) if (sign < 32 || sign > 126 || sign === 92 || at >= end) return false;
      const field = this._field(bytes, first, at, expectedField);
      at++;
      while (bytes[at] === 32) at++;
      if (bytes[at++] !== COLON) return false;
      while (bytes[at] === 32) at++;
      at = this._plainValue(bytes, at, end, row, field);
      if (at < 0) return false;
      if (field) expectedField = field.number + 1 < fields.length ? field.number + 1 : 0;
      while (bytes[at] === 32) at++;
      const sign = bytes[at++];
      if (sign === CLOSE) break;
      if (sign !== COMMA) return false;
    }
    while (at < end && bytes[at] === 32) at++;
    return at === end;
  }

  /** The field of that name; most records have their names in the schema's order. */
  _field(bytes, start, end, number) {
    const field = this.schema.fields[number], name = field.ascii ??= encoder.encode(field.keys[0]);
    if (name.length === end - start) {
      let n = 0;
      while (n < name.length && name[n] === bytes[start + n]) n++;
      if (n === name.length) return field;
    }
    let found = "";
    for (let n = start; n < end; n++) found += String.fromCharCode(bytes[n]);
    if (this._names.size === 0) for (const each of this.schema.fields) this._names.set(each.keys[0], each);
    return this._names.get(found);
  }

  /** Reads a value and gives where it ends; -1 if it is not plain. */
  _plainValue(bytes, at, end, row, field) {
    const sign = bytes[at];
    if (sign === QUOTE) {
      const first = ++at;
      for (let each = bytes[at]; each !== QUOTE; each = bytes[++at]) if (each < 32 || each > 126 || each === 92 || at >= end) return -1;
      if (field) {
        if (field.type !== "string" || at - first > MAX_TEXT) return -1;
        this.pairs[field.number][2 * row] = this.texts.at(bytes, first, at);
        this.valid[field.number][row] = 1;
      }
      return at + 1;
    }
    if (sign === NULL) {
      if (bytes[at + 1] !== 117 || bytes[at + 2] !== 108 || bytes[at + 3] !== 108) return -1;
      if (field) this.valid[field.number][row] = 0;
      return at + 4;
    }
    const negative = sign === MINUS, first = negative ? at + 1 : at;
    let number = 0, digits = 0, scale = -1;
    for (at = first; at < end; at++) {
      const each = bytes[at];
      if (each >= ZERO && each <= 57) {
        number = number * 10 + each - ZERO;
        digits++;
        if (scale >= 0) scale++;
      } else if (each === POINT && scale < 0 && digits) scale = 0;
      else break;
    }
    if (!digits || digits > 15 || scale === 0 || (bytes[first] === ZERO && digits > 1 && bytes[first + 1] !== POINT)) return -1;
    if ((bytes[at] | 32) === 101) return -1; // an exponent
    if (!field) return at;
    if (field.type === "long" ? scale >= 0 : !field.precision || scale > field.scale) return -1;
    if (field.precision) {
      for (let n = Math.max(scale, 0); n < field.scale; n++) number *= 10;
      if (number >= field.most) return -1;
    }
    if (negative) number = -number;
    this.pairs[field.number][2 * row] = number % 4294967296 | 0;
    this.pairs[field.number][2 * row + 1] = Math.floor(number / 4294967296);
    this.valid[field.number][row] = 1;
    return at;
  }

  // -- all else

  _exactly(bytes, start, end, row, counts) {
    if (end - start > MOST_LINE) throw new Bad(`line of ${end - start} bytes, at most ${MOST_LINE} are allowed`);
    let text;
    try { text = decoder.decode(bytes.subarray(start, end)); } catch { throw new Bad("not UTF-8"); }
    const { schema } = this;
    if (/^[ \t\r\n]*\{/.test(text)) {
      if (schema.records === "csv") throw new Bad(`not a CSV line: ${shown(text)}`);
      const record = readJson(text);
      for (const field of schema.fields) {
        const value = this._inside(record, field);
        if (value === NAN) {
          if (schema.nan !== "null") throw new Bad("not one JSON object: NaN is not a JSON number");
          counts.nanAsNull++;
        } else this._put(field, row, valueOf(field, value));
      }
    } else if (schema.records === "json") throw new Bad(`not one JSON object: ${shown(text.trim())}`);
    else {
      const cells = readCsv(text.replace(/[\r\n]+$/, ""), schema.delimiter);
      if (cells.length > schema.fields.length) throw new Bad(`${cells.length} cells, at most ${schema.fields.length}: ${schema.fields.map((field) => field.name).join(",")}`);
      schema.fields.forEach((field, n) => {
        const cell = cells[n] ?? "";
        if (field.numeric && schema.nan === "null" && /^(NaN|-?Infinity)$/.test(cell)) counts.nanAsNull++;
        else this._put(field, row, this._cell(field, cell));
      });
    }
  }

  _inside(record, field) {
    for (const [depth, key] of field.keys.entries()) {
      if (record === null || record === undefined || record === NAN) return record;
      if (!(record instanceof Map)) throw new Bad(expected(field.keys.slice(0, depth).join("."), record, "an object"));
      record = record.get(key);
    }
    return record;
  }

  _cell(field, cell) {
    if (!cell) return null;
    if (field === this.schema.time && field.type === "long" && /^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d{3})?$/.test(cell)) {
      const time = timeMs(cell, "utc");
      if (time === null) throw new Bad(expected(field.name, cell, "yyyy-MM-dd HH:mm:ss[.SSS] (UTC) or an integer of ms"));
      return BigInt(time);
    }
    return ofCell(field, cell);
  }

  _put(field, row, value) {
    if (value === null) return;
    this.valid[field.number][row] = 1;
    const pairs = this.pairs[field.number];
    if (!field.numeric) { pairs[2 * row] = this.texts.of(value); return; }
    pairs[2 * row] = Number(BigInt.asIntN(32, value));
    pairs[2 * row + 1] = Number(BigInt.asIntN(32, value >> 32n));
  }
}
