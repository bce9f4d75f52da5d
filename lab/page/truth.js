// Of which decoded rows a condition is true: a comparison with null is false, whichever it is. lab.model.when.
"use strict";

// what compares a text with one text, or with a list of which one is enough
const TEXTS = { startsWith: (text, one) => text.startsWith(one), contains: (text, one) => text.includes(one), endsWith: (text, one) => text.endsWith(one) };
const RELATIONS = {
  "=": (sign) => sign === 0, "!=": (sign) => sign !== 0, ">": (sign) => sign > 0, ">=": (sign) => sign >= 0, "<": (sign) => sign < 0, "<=": (sign) => sign <= 0,
};

/** A function that says of which rows of the columns, as they are now, a condition is true. */
function truthOf(when, columns) {
  if (when.all || when.any) {
    const parts = (when.all ?? when.any).map((part) => truthOf(part, columns));
    return when.all ? (row) => parts.every((part) => part(row)) : (row) => parts.some((part) => part(row));
  }
  const { clock, operator, operand } = when, { byName } = columns.schema, field = byName.get(when.field), valid = columns.valid[field.number];
  if (operator === "is null") return (row) => !valid[row];
  if (operator === "is not null") return (row) => valid[row] === 1;
  if (clock) return showsNumbers(field, when, columns);
  const other = operand.other && byName.get(operand.other);
  const test = other ? comparesFields(field, RELATIONS[operator], other, columns) : field.numeric ? comparesNumber(field, operator, operand, columns) : comparesText(field, operator, operand, columns);
  const otherValid = other ? columns.valid[other.number] : valid;
  return (row) => valid[row] === 1 && otherValid[row] === 1 && test(row);
}

function comparesFields(field, relation, other, columns) {
  const to = 10n ** BigInt(Math.max(field.scale, other.scale, 0)), unit = (of) => to / 10n ** BigInt(of.scale ?? 0);
  if (!field.numeric) return (row) => relation(byCodePoint(columns.value(field, row), columns.value(other, row)));
  return (row) => relation(byNumber(columns.value(field, row) * unit(field), columns.value(other, row) * unit(other)));
}

function comparesNumber(field, operator, operand, columns) {
  const pairs = columns.pairs[field.number];
  if (operand.values) {
    const wanted = new Set(operand.values), negated = operator === "not in";
    return (row) => wanted.has(columns.value(field, row)) !== negated;
  }
  const high = Number(operand >> 32n), low = Number(operand & 0xffffffffn), relation = RELATIONS[operator];
  return (row) => {
    const one = pairs[2 * row + 1], two = pairs[2 * row] >>> 0;
    return relation(one - high || two - low);
  };
}

/** Each different text is looked at once. */
function comparesText(field, operator, operand, columns) {
  const pairs = columns.pairs[field.number], { values } = columns.texts, known = new Map(), wanted = new Set(operand.values);
  const negated = operator.startsWith("not ") || operator === "!=", bare = operator.replace("not ", "");
  if (bare === "=" || bare === "!=") {
    const number = columns.texts.of(operand, false);
    return (row) => (pairs[2 * row] === number) !== negated;
  }
  const test = TEXTS[bare] ? (text) => (operand.values ?? [operand]).some((one) => TEXTS[bare](text, one)) : operand.networks ? (text) => operand.networks.some((network) => isInside(addressOf(text), network))
    : bare === "in" ? (text) => wanted.has(text) : (text) => RELATIONS[operator](byCodePoint(text, operand));
  return (row) => {
    const number = pairs[2 * row];
    if (!known.has(number)) known.set(number, test(values[number]) !== negated);
    return known.get(number);
  };
}

// -- clocks: lab.model.when ----------------------------------------------------------------------------------------------

const HOUR_MS = 3600000, DAY_MS = 24 * HOUR_MS, FIRST_WEEKDAY = 3; // days from a Monday to 1970-01-01
const OFFSET = /^([+-])(0\d|1[0-4]):([0-5]\d)$/, MOST_OFFSETS = 10000;
const zones = new Map(); // name -> {format, offsets}

function zoneOf(name) {
  if (!zones.has(name)) {
    const parts = Object.fromEntries(["year", "month", "day", "hour", "minute", "second"].map((part) => [part, "numeric"]));
    zones.set(name, { format: new Intl.DateTimeFormat("en-US", { ...parts, timeZone: name, hourCycle: "h23" }), offsets: new Map() });
  }
  return zones.get(name);
}

/** The difference to UTC at a time, ms; zones by name are those of the browser. */
function offsetMs(zone, timeMs) {
  const fixed = OFFSET.exec(zone);
  if (zone === "UTC" || fixed) return fixed ? (fixed[1] === "-" ? -60000 : 60000) * (60 * Number(fixed[2]) + Number(fixed[3])) : 0;
  const { format, offsets } = zoneOf(zone), second = 1000 * Math.floor(timeMs / 1000);
  if (!offsets.has(second)) {
    if (offsets.size === MOST_OFFSETS) offsets.clear();
    const { year, month, day, hour, minute, second: seconds } = Object.fromEntries(format.formatToParts(second).map(({ type, value }) => [type, Number(value)]));
    offsets.set(second, Date.UTC(year, month - 1, day, hour, minute, seconds) - second);
  }
  return offsets.get(second);
}

function showsNumbers(field, { clock: { shows, zone }, operator, operand }, columns) {
  const valid = columns.valid[field.number], wanted = (operand.values ?? [operand]).map(Number), relation = RELATIONS[operator];
  const test = relation ? (shown) => relation(shown - wanted[0]) : (shown) => wanted.includes(shown) === (operator === "in");
  return (row) => {
    if (!valid[row]) return false;
    const time = Number(columns.value(field, row)), local = time + offsetMs(zone, time);
    return test(shows === "hour" ? ((Math.floor(local / HOUR_MS) % 24) + 24) % 24 : ((((Math.floor(local / DAY_MS) + FIRST_WEEKDAY) % 7) + 7) % 7) + 1);
  };
}

// -- networks -------------------------------------------------------------------------------------------------------------

/** The IP address that a text is, as {version, number}, or null: such a text lies in no network. */
function addressOf(text) {
  if (/^\d{1,3}(\.\d{1,3}){3}$/.test(text)) {
    const parts = text.split(".");
    if (parts.some((part) => (part[0] === "0" && part !== "0") || Number(part) > 255)) return null;
    return { version: 4, number: parts.reduce((number, part) => (number << 8n) | BigInt(part), 0n) };
  }
  const scoped = /^([^%/]*)(?:%[^%/]+)?$/.exec(text);
  if (!scoped || !scoped[1].includes(":")) return null;
  const parts = scoped[1].split(":"), few = parts.length < 3, dotted = parts.at(-1).includes(".") && addressOf(parts.pop());
  if (few || dotted === null) return null;
  if (dotted) parts.push((dotted.number >> 16n).toString(16), (dotted.number & 0xffffn).toString(16));
  if (parts[0] === "" && parts[1] === "") parts.shift();
  if (parts.at(-1) === "" && parts.at(-2) === "") parts.pop();
  const gap = parts.indexOf(""), missing = 8 - parts.length + 1;
  if (gap >= 0) {
    if (missing < 1) return null;
    parts.splice(gap, 1, ...new Array(missing).fill("0"));
  }
  if (parts.length !== 8 || !parts.every((part) => /^[0-9a-fA-F]{1,4}$/.test(part))) return null;
  return { version: 6, number: parts.reduce((number, part) => (number << 16n) | BigInt(`0x${part}`), 0n) };
}

const isInside = (address, network) => address !== null && address.version === network.version && address.number >> network.host === network.number >> network.host;
