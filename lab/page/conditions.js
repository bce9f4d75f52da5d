// Words and signs, of which conditions and rules in words are made. lab.model.conditions.
"use strict";

const BLANKS = "\\t-\\r\\x1c-\\x20\\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000"; // as Python has them
const TOKEN = new RegExp(
  `[${BLANKS}]*(?:(?<quoted>"[^"\\\\]*(?:\\\\.[^"\\\\]*)*"|'[^']*')` +
    "|(?<sign>==|!=|<>|<=|>=|[=<>,();]|\\|\\|?|&&?)" +
    `|(?<word>(?!["'\`“”„‘’])(?:[^${BLANKS}"=<>,();|&!]|!(?!=))+)|(?<open>["'\`“”„‘’]))`,
  "sy",
);

const OTHER_SIGNS = { "==": "=", "<>": "!=", "=>": ">=", "=<": "<=", "≥": ">=", "≤": "<=", "≠": "!=" };

/** A word, a quoted text, a sign, or the end; `text` is what it stands for, `start` and `end` are its place. */
class Token {
  constructor(kind, text, start, end) { Object.assign(this, { kind, text, start, end }); }
  isWord(...words) { return this.kind === "word" && words.includes(this.text.toLowerCase()); }
  isSign(...signs) { return this.kind === "sign" && signs.includes(this.text); }
  isNumber(least, most) { return /^\+?[0-9]{1,9}$/.test(this.text) && this.text >= least && this.text <= most; }
  get isValue() { return this.kind === "word" || this.kind === "quoted"; }
}

/** Reads a text from left to right, each token once. */
class Reader {
  constructor(text) {
    this.text = text;
    this.tokens = [];
    this.place = 0;
    const stop = trimmedAtEnd(text, new RegExp(`[${BLANKS}]`)).length;
    for (TOKEN.lastIndex = 0; TOKEN.lastIndex < stop; ) {
      const { groups, index, 0: whole } = TOKEN.exec(text), [kind, part] = Object.entries(groups).find(([, found]) => found !== undefined);
      const end = index + whole.length, token = new Token(kind, part, end - part.length, end);
      if (kind === "open") throw this.refuse(`"'`.includes(part) ? "this quote is not closed" : `${part} is no quote here, write " or ' around a text, and nothing around a field`, token);
      if (kind === "quoted") token.text = this._unquoted(token);
      this.tokens.push(token);
    }
    this.tokens.push(new Token("end", "", text.length, text.length));
  }

  _unquoted(token) {
    const { text } = token;
    if (text[0] === "'") return text.slice(1, -1);
    try {
      if (!/\\[\x00-\x1f]/.test(text)) return JSON.parse(text.replace(/[\x00-\x1f]/g, (sign) => `\\u00${sign.charCodeAt(0).toString(16).padStart(2, "0")}`));
    } catch { /* the same is wrong */ }
    throw this.refuse("\\ is a sign of its own within \"…\": write \\\\, or put the value into '…'", token);
  }

  get next() { return this.tokens[this.place]; }
  get last() { return this.tokens[this.place - 1]; }
  after(count) { return this.tokens[Math.min(this.place + count, this.tokens.length - 1)]; }

  take() {
    const token = this.next;
    this.place = Math.min(this.place + 1, this.tokens.length - 1);
    return token;
  }

  /** Whether a comma and digits follow without blanks, as in 20,000 or 5,50. */
  get isCommaBeforeDigits() {
    const comma = this.next, digits = this.after(1);
    return comma.isSign(",") && this.last.end === comma.start && comma.end === digits.start && /^[0-9]/.test(digits.text);
  }

  /** The sign to write instead of one that other languages have; of two signs the token is the first. */
  signInstead(sign) {
    if (sign.kind === "sign" && this.next.kind === "sign" && this.next.start === sign.end) return OTHER_SIGNS[sign.text + this.next.text];
    return sign.kind === "quoted" ? undefined : OTHER_SIGNS[sign.text.slice(0, 2)] ?? OTHER_SIGNS[sign.text.slice(0, 1)];
  }

  /** A Bad that says what is wrong, and where. */
  refuse(reason, { start, end } = this.next) {
    return new Bad(`${reason} (at ${end > start ? `${shown(this.text.slice(start, end))}, character ${[...this.text.slice(0, start)].length + 1}` : "the end"})`);
  }

  /** The value of a field that a token means. */
  valueOf(field, token) {
    let value;
    try {
      value = field.numeric ? ofCell(field, token.text) : valueOf(field, token.text);
    } catch (error) {
      throw error instanceof Bad ? this.refuse(error.message, token) : error;
    }
    if (value === null) throw this.refuse(`${field.name} is a number, not an empty text`, token);
    return value;
  }

  field(token, schema) {
    try { return fieldNamed(token.text, schema); } catch (error) { throw this.refuse(error.message, token); }
  }
}

/** A number in the text of a CSV cell or of a condition; null if that is empty. */
function ofCell(field, text) {
  if (!text) return null;
  return valueOf(field, field.type === "long" && /^[+-]?\d+$/.test(text) ? new Literal(text.replace(/^\+/, "")) : text);
}

function fieldNamed(name, schema) {
  const field = typeof name === "string" && schema.byName.get(name);
  if (!field) throw new Bad(`unknown ${schema.name} field ${shown(name)} (known: ${[...schema.byName.keys()].join(", ")})`);
  return field;
}

const byCodePoint = (a, b) => {
  if (a === b) return 0;
  const [one, other] = [[...a], [...b]];
  for (let n = 0; n < Math.min(one.length, other.length); n++) if (one[n] !== other[n]) return one[n].codePointAt(0) - other[n].codePointAt(0);
  return one.length - other.length;
};
const byNumber = (a, b) => (a < b ? -1 : a > b ? 1 : 0);
const sortedValues = (field, values) => [...new Set(values)].sort(field.numeric ? byNumber : byCodePoint);

/** A text with what is obeyed instead of shown, or cannot be seen, as JSON writes it. */
const UNSEEN = /[\u0000-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb]|\udb40[\udc00-\udc7f]/g;
const visible = (text) => text.replace(UNSEEN, (sign) =>
  sign < " " ? JSON.stringify(sign).slice(1, -1) : sign.split("").map((unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`).join(""));

/** A text in quotes, as JSON has it: whatever is in it, it is one token that reads back as the text. */
const inQuotes = (text) => visible(JSON.stringify(text));

/** A value as it is when that cannot be misread, else in quotes. */
function written(field, value) {
  const text = field.numeric ? plain(value, field.scale) : value;
  return /^[\p{L}\p{N}_.-]+$/u.test(text) ? text : inQuotes(text);
}
