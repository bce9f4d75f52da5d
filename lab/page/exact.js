// Numbers and texts as alerts have them, and as people read them: no float anywhere.
"use strict";

/** A decimal in units of its last digit as text. */
function plain(number, scale) {
  const sign = number < 0n ? "-" : "", digits = String(number < 0n ? -number : number).padStart(scale + 1, "0");
  return scale ? `${sign}${digits.slice(0, -scale)}.${digits.slice(-scale)}` : sign + digits;
}

/** The JSON of a text in ASCII, as alerts have it. */
const quoted = (text) => JSON.stringify(text).replace(/[\u007f-\uffff]/g, (sign) => "\\u" + sign.charCodeAt(0).toString(16).padStart(4, "0"));

const byNumber = (a, b) => (a < b ? -1 : a > b ? 1 : 0);

/** A text with what is obeyed instead of shown, or cannot be seen, as JSON writes it. */
const UNSEEN = /[\u0000-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb]|\udb40[\udc00-\udc7f]/g;
const visible = (text) => text.replace(UNSEEN, (sign) =>
  sign < " " ? JSON.stringify(sign).slice(1, -1) : sign.split("").map((unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`).join(""));
const thousands = (text) => text.replace(/^-?\d+/, (digits) => digits.replace(/\d(?=(\d{3})+$)/g, "$&,"));
