// Lines of bytes into columns of int64s, as pairs of int32s. What is plain is read as it stands in the bytes; all else, exactly, by exact.js.
"use strict";

const ROWS = 4096; // that are decoded at once
const TWO_32 = 2 ** 32, MOST_LINE = 1 << 20, MOST_TEXTS = 200000, MOST_TEXT_BYTES = 32 << 20;
const [QUOTE, COMMA, COLON, OPEN, CLOSE, MINUS, POINT, ZERO, NINE, LINE_FEED, RETURN, NULL] = [34, 44, 58, 123, 125, 45, 46, 48, 57, 10, 13, 110];
const encoder = new TextEncoder(), decoder = new TextDecoder("utf-8", { fatal: true });
const PLAIN_WORDS = new Map(["true", "false", "null"].map((word) => [word.charCodeAt(0), encoder.encode(word)]));
const textDecoder = new TextDecoder("utf-8", { ignoreBOM: true });

/** A schema with what reading needs; `given` as lab.model.schema writes it. */
function schemaOf(given) {
  const derived = [...(given.derived ?? []), ...(given.legs?.[0]?.[1] ?? [])].map(([name]) => name);
  if (derived.length) throw new Bad(`schema ${given.name}: the page computes no derived fields (${derived.join(", ")}); lab replay does`);
  const fields = given.fields.map((field, number) => {
    const decimal = /^decimal\((\d+),(\d+)\)$/.exec(field.type);
    const numeric = !["string", "boolean"].includes(field.type);
    const scale = numeric ? Number(decimal?.[2] ?? 0) : null, precision = Number(decimal?.[1] ?? 0);
    // of a plain number in JSON
    const digits = precision ? 15 : field.type === "long" ? 18 : field.type === "time" && field.unit === "ms" ? 13 : 0;
    return { ...field, number, numeric, scale, precision, keys: field.path?.length ? field.path : [field.name], most: Math.min(10 ** precision, 2 ** 53), digits };
  });
  for (const field of fields) field.opening = /^[ !#-[\]-~]+$/.test(field.keys[0]) ? encoder.encode(`"${field.keys[0]}":`) : null; // as it stands in most records
  const byName = new Map(fields.map((field) => [field.name, field]));
  const ids = given.id_fields.map((name) => byName.get(name)), numericId = ids.length === 1 && ids[0].numeric;
  return { ...given, given, fields, byName, byKey: new Map(fields.map((field) => [field.keys[0], field])), ids, numericId, flat: fields.every((field) => field.keys.length === 1), time: byName.get(given.time_field), line: fields.find((field) => field.virtual) };
}

function standsAt(bytes, at, wanted) {
  for (let n = 0; n < wanted.length; n++) if (bytes[at + n] !== wanted[n]) return false;
  return true;
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
  constructor(schema, texts = new Texts(), size = ROWS) {
    this.schema = schema;
    this.texts = texts;
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

  /** The event time; -1 if it is null. */
  timeMs(row) {
    const { number } = this.schema.time, pairs = this.pairs[number];
    return this.valid[number][row] ? pairs[2 * row + 1] * TWO_32 + (pairs[2 * row] >>> 0) : -1;
  }

  /** Whether two rows have the same value, which is not null. */
  isSame({ number }, row, other) {
    const pairs = this.pairs[number], valid = this.valid[number];
    return valid[row] === 1 && valid[other] === 1 && pairs[2 * row] === pairs[2 * other] && pairs[2 * row + 1] === pairs[2 * other + 1];
  }

  idText(row) {
    const [first, ...others] = this.schema.ids;
    return others.length ? this.idJson(row) : String(this.value(first, row));
  }

  idJson(row) {
    const parts = this.schema.ids.map((field) => this.value(field, row)).map((value) => typeof value === "string" ? quoted(value) : String(value));
    return parts.length > 1 ? `[${parts.join(",")}]` : parts[0];
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
    const { ids, time } = this.schema;
    for (let n = 0; n < ids.length; n++) {
      const field = ids[n], value = this.valid[field.number][row] && (field.numeric || this.value(field, row));
      if (value === 0) throw new Bad(expected(field.name, null, "the id of the event"));
      if (typeof value === "string" && !(length(value) >= 1 && length(value) <= MAX_ID)) throw new Bad(expected(field.name, value, `the id of the event, 1 to ${MAX_ID} characters`));
    }
    const ms = this.timeMs(row);
    if (!(ms >= 0 && ms < MAX_TIME)) throw new Bad(expected(time.name, ms < 0 ? null : new Literal(String(ms)), `the event time, 0 to ${MAX_TIME - 1} ms since the epoch (1970 to 2200)`));
  }

  // -- what is plain: a flat object of ASCII without escapes, numbers of up to 15 digits, or 18 if whole, without exponents

  /** Whether the line was read; if not, nobody knows yet what is wrong with it, if anything. */
  _plain(bytes, start, end, row) {
    const { fields } = this.schema;
    let at = start, expectedField = 0;
    if (bytes[at++] !== OPEN || end - start > MOST_LINE) return false;
    for (;;) {
      while (bytes[at] === 32) at++;
      let field = fields[expectedField]; // most records have their names in the schema's order
      if (field.opening !== null && standsAt(bytes, at, field.opening)) at += field.opening.length;
      else {
        if (bytes[at++] !== QUOTE) return false;
        const first = at;
        for (let sign = bytes[at]; sign !== QUOTE; sign = bytes[++at]) if (sign < 32 || sign > 126 || sign === 92 || at >= end) return false;
        field = this.schema.byKey.get(textDecoder.decode(bytes.subarray(first, at++)));
        while (bytes[at] === 32) at++;
        if (bytes[at++] !== COLON) return false;
      }
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

  /** Reads a value and gives where it ends; -1 if it is not plain. */
  _plainValue(bytes, at, end, row, field) {
    const sign = bytes[at];
    if (sign === QUOTE) {
      const first = ++at;
      for (let each = bytes[at]; each !== QUOTE; each = bytes[++at]) if (each < 32 || each > 126 || each === 92 || at >= end) return -1;
      return !field || this._plainText(bytes, first, at, row, field) ? at + 1 : -1;
    }
    const word = sign > NINE ? PLAIN_WORDS.get(sign) : undefined;
    if (!word) return this._plainNumber(bytes, at, end, row, field);
    if (!standsAt(bytes, at, word)) return -1;
    if (field && sign === NULL) this.valid[field.number][row] = 0;
    else if (field && field.type !== "boolean") return -1;
    else if (field) this._putText(field, row, this.texts.at(word, 0, word.length));
    return at + word.length;
  }

  /** Whether that text can be a value of the field; then it is. */
  _plainText(bytes, start, end, row, field) {
    if (end - start > MAX_TEXT) return false;
    if (field.type === "string") this._putText(field, row, this.texts.at(bytes, start, end));
    else if (field.type === "time" && !(field.unit in UNIT_DIGITS)) {
      const ms = timeMs(String.fromCharCode.apply(null, bytes.subarray(start, end)), field.unit);
      if (ms === null) return false;
      this._putNumber(field, row, Math.floor(ms / TWO_32), ms);
    } else return false;
    return true;
  }

  _plainNumber(bytes, at, end, row, field) {
    const negative = bytes[at] === MINUS, first = negative ? at + 1 : at;
    let number = 0, digits = 0, scale = -1, more = 0, tens = 1; // the first 15 digits, and those after them
    for (at = first; at < end; at++) {
      const each = bytes[at];
      if (each >= ZERO && each <= NINE) {
        if (digits < 15) number = number * 10 + each - ZERO;
        else { more = more * 10 + each - ZERO; tens *= 10; }
        digits++;
        if (scale >= 0) scale++;
      } else if (each === POINT && scale < 0 && digits) scale = 0;
      else break;
    }
    if (!digits || digits > 18 || scale === 0 || (bytes[first] === ZERO && digits > 1 && bytes[first + 1] !== POINT)) return -1;
    if ((bytes[at] | 32) === 101) return -1; // an exponent
    if (!field) return at;
    if (digits > field.digits || (field.precision ? scale > field.scale : scale >= 0)) return -1;
    if (field.precision) {
      for (let n = Math.max(scale, 0); n < field.scale; n++) number *= 10;
      if (number >= field.most) return -1;
    }
    let high = Math.floor(number / TWO_32), low = (number - high * TWO_32) * tens + more;
    if (digits > 15) {
      const carried = Math.floor(low / TWO_32);
      high = high * tens + carried;
      low -= carried * TWO_32;
    }
    this._putNumber(field, row, negative ? (low ? -1 : 0) - high : high, negative ? -low : low);
    return at;
  }

  /** `low`: any number that is the same in its lowest 32 bits. */
  _putNumber(field, row, high, low) {
    const pairs = this.pairs[field.number];
    pairs[2 * row] = low;
    pairs[2 * row + 1] = high;
    this.valid[field.number][row] = 1;
  }

  _putText(field, row, number) { this._putNumber(field, row, 0, number); }

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
      const cells = readCsv(trimmedAtEnd(text, /[\r\n]/), schema.delimiter);
      if (schema.delimiter && cells.length !== schema.fields.length) throw new Bad(`${cells.length} cells, but the header has ${schema.fields.length}: ${text.slice(0, 200)}`);
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
    if (field.numeric) this._putNumber(field, row, Number(value >> 32n), Number(BigInt.asIntN(32, value)));
    else this._putText(field, row, this.texts.of(value));
  }
}
