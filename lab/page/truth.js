// Of which decoded rows a condition is true: numbers are compared here, Python judges each different text and quarter of an hour once. lab.model.when.
"use strict";

const RELATIONS = {
  "=": (sign) => sign === 0, "!=": (sign) => sign !== 0, ">": (sign) => sign > 0, ">=": (sign) => sign >= 0, "<": (sign) => sign < 0, "<=": (sign) => sign <= 0,
};

/** A function that says of which rows of the columns, as they are now, a condition is true. */
function truthOf(when, columns) {
  if (when.all || when.any) {
    const parts = (when.all ?? when.any).map((part) => truthOf(part, columns));
    return when.all ? (row) => parts.every((part) => part(row)) : (row) => parts.some((part) => part(row));
  }
  const fields = when.fields.map((name) => columns.schema.byName.get(name)), [first, last] = [fields[0], fields.at(-1)].map(({ number }) => columns.valid[number]), { operator, operand } = when;
  if (operator === "is null") return (row) => !first[row];
  if (operator === "is not null") return (row) => first[row] === 1;
  const areThere = (row) => first[row] === 1 && last[row] === 1;
  const test = when.judged ? judgedByPython(when, fields, columns, areThere) : operand.other ? comparesFields(...fields, RELATIONS[operator], columns) : comparesNumber(fields[0], operator, operand, columns);
  return (row) => areThere(row) && test(row);
}

function comparesFields(field, other, relation, columns) {
  const to = 10n ** BigInt(Math.max(field.scale, other.scale)), unit = ({ scale }) => to / 10n ** BigInt(scale);
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

/** Remembers what Python says of values, for as long as texts have the same numbers: whether the condition is true, or until when a named list has them. */
function judgedByPython(when, fields, columns, areThere) {
  const { texts } = columns, [field] = fields, [pairs, otherPairs] = fields.map(({ number }) => columns.pairs[number]), known = texts.known.get(when) ?? new Map(), keys = [], values = [];
  const keyOf = when.clock ? (row) => Math.floor(columns.ms(field, row) / LAYOUT.quarterMs) : field.numeric ? (row) => columns.value(field, row) : otherPairs ? (row) => pairs[2 * row] + TWO_32 * otherPairs[2 * row] : (row) => pairs[2 * row];
  if (known.size > MOST_TEXTS) known.clear();
  texts.known.set(when, known);
  for (let row = 0; row < columns.rows; row++) {
    if (!areThere(row) || known.has(keyOf(row))) continue;
    keys.push(keyOf(row));
    values.push(when.clock ? keyOf(row) : fields.map((each) => columns.text(each, row)));
    known.set(keys.at(-1), null); // asked once
  }
  if (keys.length) JSON.parse(columns.python.judged(when.judged, JSON.stringify(values))).forEach((verdict, n) => known.set(keys[n], verdict));
  const verdictOf = (row) => {
    const verdict = known.get(keyOf(row)); // of a quarter in which it changes one for each second
    return verdict.length ? verdict[Math.floor((columns.ms(field, row) - LAYOUT.quarterMs * keyOf(row)) / 1000)] : verdict;
  };
  return when.list ? (row) => columns.timeMs(row) < verdictOf(row) !== when.list.isNegated : verdictOf;
}
