// Reads JSON, CSV, numbers and times exactly: no float anywhere. What cannot be read throws a Bad, whose text says why.
"use strict";

class Bad extends Error {}

class Literal { // a number as it stands in JSON
  constructor(text) { this.text = text; }
  get isInteger() { return /^-?\d+$/.test(this.text); }
}
const NAN = Symbol("NaN"); // also Infinity and -Infinity: no JSON, and null for its field
const MOST_DEPTH = 200;
const NUMBER = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y, WORD = /true|false|null|NaN|-?Infinity/y;
const STRING = /"[^"\\]*(?:\\.[^"\\]*)*"/y, BLANK = /[ \t\r\n]*/y;
const WORDS = new Map([["true", true], ["false", false], ["null", null]]);

/** One JSON value: objects are Maps, of two equal names the last counts; numbers are Literals. */
function readJson(text) {
  let at = 0;
  const match = (pattern) => {
    pattern.lastIndex = at;
    const found = pattern.exec(text);
    if (found) at = pattern.lastIndex;
    return found && found[0];
  };
  const fail = () => { throw new Bad(`not one JSON object: a mistake at character ${at + 1}`); };
  const value = (depth) => {
    if (depth > MOST_DEPTH) throw new Bad(`not readable: JSON nested too deeply, more than ${MOST_DEPTH} levels`);
    match(BLANK);
    const first = text[at];
    if (first === '"') return string();
    if (first === "{" || first === "[") return first === "{" ? object(depth) : list(depth);
    const word = match(WORD);
    if (word) return WORDS.has(word) ? WORDS.get(word) : NAN;
    const number = match(NUMBER);
    return number ? new Literal(number) : fail();
  };
  const string = () => {
    const literal = match(STRING) ?? fail();
    try { return JSON.parse(literal); } catch { return fail(); }
  };
  const object = (depth) => {
    const found = new Map();
    at++;
    match(BLANK);
    if (text[at] === "}") { at++; return found; }
    for (;;) {
      match(BLANK);
      const name = text[at] === '"' ? string() : fail();
      match(BLANK);
      if (text[at++] !== ":") fail();
      found.set(name, value(depth + 1));
      match(BLANK);
      const next = text[at++];
      if (next === "}") return found;
      if (next !== ",") fail();
    }
  };
  const list = (depth) => {
    const found = [];
    at++;
    match(BLANK);
    if (text[at] === "]") { at++; return found; }
    for (;;) {
      found.push(value(depth + 1));
      match(BLANK);
      const next = text[at++];
      if (next === "]") return found;
      if (next !== ",") fail();
    }
  };
  const found = value(1);
  match(BLANK);
  return at === text.length ? found : fail();
}

/** The cells of a line of CSV. Throws a Bad if a quote is not closed. */
function readCsv(text, delimiter = ",") {
  const cells = [];
  let cell = "", quoted = false;
  for (let at = 0; at < text.length; at++) {
    const sign = text[at];
    if (quoted) {
      if (sign !== '"') cell += sign;
      else if (text[at + 1] === '"') { cell += sign; at++; } else quoted = false;
    } else if (sign === '"' && cell === "") quoted = true;
    else if (sign === delimiter) { cells.push(cell); cell = ""; } else cell += sign;
  }
  if (quoted) throw new Bad("a row that is not CSV: a quote is not closed in its line");
  return [...cells, cell];
}

const DECIMAL_TEXT = /^([+-]?)(?:(\d+)(?:\.(\d*))?|\.(\d+))(?:[eE]([+-]?\d+))?$/;

/** A number as text in units of its last of `scale` digits after the point; null if it has more than `precision` digits, or more after the point. */
function scaled(text, precision, scale) {
  const found = DECIMAL_TEXT.exec(text);
  if (!found) return null;
  const fraction = found[3] ?? found[4] ?? "", digits = ((found[2] ?? "") + fraction).replace(/^0+/, "");
  if (!digits) return 0n;
  const shift = Number(found[5] ?? 0) + scale - fraction.length;
  if (digits.length + shift > precision || digits.length + shift <= 0) return null;
  if (shift < 0 && !/^0*$/.test(digits.slice(shift))) return null;
  const number = BigInt(shift < 0 ? digits.slice(0, shift) : digits + "0".repeat(shift));
  return found[1] === "-" ? -number : number;
}

/** A decimal in units of its last digit as text. */
function plain(number, scale) {
  const sign = number < 0n ? "-" : "", digits = String(number < 0n ? -number : number).padStart(scale + 1, "0");
  return scale ? `${sign}${digits.slice(0, -scale)}.${digits.slice(-scale)}` : sign + digits;
}

const UNIT_DIGITS = { s: 9, ms: 6, us: 3, ns: 0 };
const TIME_TEXT = /^([1-9]\d{3})-(\d\d)-(\d\d)(?:[T ]([01]\d|2[0-3]):([0-5]\d)(?::([0-5]\d)(?:\.(\d{1,9}))?)?(Z|[+-](?:[01]\d|2[0-3])(?::?[0-5]\d)?)?)?$/;

/** ms since the epoch of a JSON value in a unit (s, ms, us, ns, iso, utc), cut off towards the past; null if it is no such time. */
function timeMs(value, unit) {
  if (unit in UNIT_DIGITS) {
    const text = value instanceof Literal ? value.text : typeof value === "string" ? value : "";
    const ns = scaled(text, 19, UNIT_DIGITS[unit]);
    return ns === null ? null : Number((ns - (((ns % 1000000n) + 1000000n) % 1000000n)) / 1000000n);
  }
  const found = typeof value === "string" && TIME_TEXT.exec(value);
  if (!found || (unit === "iso") !== (found[8] !== undefined)) return null;
  const [year, month, day, hour, minute, second] = found.slice(1, 7).map((part) => Number(part ?? 0));
  const at = Date.UTC(year, month - 1, day, hour, minute, second);
  if (month < 1 || new Date(at).getUTCDate() !== day || new Date(at).getUTCMonth() !== month - 1) return null;
  const zone = (found[8] ?? "Z").replace(":", "");
  const offset = zone === "Z" ? 0 : (zone[0] === "-" ? -1 : 1) * (Number(zone.slice(1, 3)) * 60 + Number(zone.slice(3) || 0));
  return at + Number((found[7] ?? "").padEnd(3, "0").slice(0, 3)) - offset * 60000;
}

/** The JSON of a text in ASCII, as alerts have it. */
const quoted = (text) => JSON.stringify(text).replace(/[\u007f-\uffff]/g, (sign) => "\\u" + sign.charCodeAt(0).toString(16).padStart(4, "0"));

const byCodePoint = (a, b) => {
  if (a === b) return 0;
  const [one, other] = [[...a], [...b]];
  for (let n = 0; n < Math.min(one.length, other.length); n++) if (one[n] !== other[n]) return one[n].codePointAt(0) - other[n].codePointAt(0);
  return one.length - other.length;
};
const byNumber = (a, b) => (a < b ? -1 : a > b ? 1 : 0);

/** A text with what is obeyed instead of shown, or cannot be seen, as JSON writes it. */
const UNSEEN = /[\u0000-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb]|\udb40[\udc00-\udc7f]/g;
const visible = (text) => text.replace(UNSEEN, (sign) =>
  sign < " " ? JSON.stringify(sign).slice(1, -1) : sign.split("").map((unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`).join(""));
const thousands = (text) => text.replace(/^-?\d+/, (digits) => digits.replace(/\d(?=(\d{3})+$)/g, "$&,"));
