// `when`, `where` and filters: a condition on an event, read into a tree. lab.model.whenreader, lab.model.when.
//
// any:   all {"or" all}            all: term {"and" term}            term: "(" any ")" | comparison
// tree:  {any: […]} | {all: […]} | {field, clock, operator, operand}; operand: a value, {values}, {networks}, or {other: field}
"use strict";

const MOST_COMPARISONS = 100, MOST_BRACKETS = 10, MOST_VALUES = 1000;
const SHOWS = { hour: [0n, 23n], weekday: [1n, 7n] }; // of clocks: the smallest and the largest number; 1 is Monday
const WHEN_EXAMPLES = 'amount > 500, country in (KR, CN), name startsWith "A", ip in 10.0.0.0/8, country is null';
// the first word of a clause of a rule's sentence, and the attribute that it gives
const CLAUSES = { when: "when", at: "atMost", then: "action", severity: "severity", title: "title", labels: "labels", with: "eventFields" };
// what compares a text with one text, or with a list of which one is enough
const TEXTS = { startsWith: (text, one) => text.startsWith(one), contains: (text, one) => text.includes(one), endsWith: (text, one) => text.endsWith(one) };
const COMPARES = ["in", "not", "is", ...Object.keys(TEXTS).map((name) => name.toLowerCase())]; // words
const LIKE_NETWORK = /^[0-9A-Fa-f:.]{0,60}[:.][0-9A-Fa-f:.]{0,60}\/[0-9.]{1,20}$/;
const AFTER_CONDITION = ["and", "or", "where", "per", "over", "within", ...Object.keys(CLAUSES)]; // in a rule's sentence
const RELATIONS = {
  "=": (sign) => sign === 0, "!=": (sign) => sign !== 0, ">": (sign) => sign > 0, ">=": (sign) => sign >= 0, "<": (sign) => sign < 0, "<=": (sign) => sign <= 0,
};

/** The condition that a text means. Throws a Bad, which says where, and what would be right. */
function readWhen(text, schema, kind = "condition") {
  const reader = new WhenReader(text, schema), when = reader[kind]();
  if (reader.next.kind !== "end") reader.refuseRest();
  return when;
}

/** The same for conditions that differ only in the order of their parts. */
function canonical(when) {
  const ordered = inOrder(when);
  return isOfValues(ordered) ? joinedParts("all", [...(ordered.all ?? [ordered])].sort((a, b) => byCodePoint(a.field.name, b.field.name))) : ordered;
}

/** Whether a condition says which values fields must have, and nothing else. */
function isOfValues(when) {
  const parts = when.all ?? [when];
  const fixed = parts.every(({ field, clock, operator, operand }) => field && !clock && (operator === "=" ? !operand.other : operator === "in" && !operand.networks));
  return fixed && new Set(parts.map(({ field }) => field)).size === parts.length;
}

function inOrder(when) {
  const how = when.all ? "all" : "any";
  if (when[how]) {
    // one of which only a part of the same kind is left joins its parts to these before they are put in order
    const distinct = new Map(flatParts(how, when[how].map(inOrder)).map((part) => [whenText(part), part]));
    return joinedParts(how, [...distinct].sort(([one], [other]) => byCodePoint(one, other)).map(([, part]) => part));
  }
  return when.operand?.values?.length === 1 ? { ...when, operator: when.operator === "in" ? "=" : "!=", operand: when.operand.values[0] } : when;
}

/** The parts without brackets that change nothing. */
const flatParts = (how, parts) => parts.flatMap((part) => part[how] ?? [part]);

/** Several parts as one condition; brackets that change nothing leave no trace. */
function joinedParts(how, parts) {
  const flat = flatParts(how, parts);
  return flat.length > 1 ? { [how]: flat } : flat[0];
}

class WhenReader extends Reader {
  constructor(text, schema) {
    super(text);
    Object.assign(this, { schema, mostValues: MOST_VALUES, comparisons: 0, tooMany: null, compared: null, given: null, texts: "" });
  }

  /** A whole condition, as far as it goes. */
  condition() {
    const when = this._anySize();
    if (this.tooMany) throw this.refuse(`expected at most ${MOST_COMPARISONS} comparisons`, this.tooMany);
    return when;
  }

  _anySize() {
    Object.assign(this, { comparisons: 0, tooMany: null, compared: null, given: null });
    return this.any(0);
  }

  /** A filter; one that says which values fields must have is as long as a message has room for, as an object is. */
  filter() {
    this.mostValues = Infinity;
    const filter = canonical(this._anySize());
    this.mostValues = MOST_VALUES;
    if (this.tooMany && !isOfValues(filter)) throw this.refuse(`expected at most ${MOST_COMPARISONS} comparisons`, this.tooMany);
    return filter;
  }

  any(brackets) {
    const parts = [this._all(brackets)];
    while (this.next.isWord("or")) { this.take(); parts.push(this._all(brackets)); }
    return joinedParts("any", parts);
  }

  _all(brackets) {
    const parts = [this._term(brackets)];
    while (this.next.isWord("and")) { this.take(); parts.push(this._term(brackets)); }
    return joinedParts("all", parts);
  }

  _term(brackets) {
    if (!this.next.isSign("(")) return this._comparison();
    const opened = this.take();
    if (brackets === MOST_BRACKETS) throw this.refuse(`expected at most ${MOST_BRACKETS} brackets in each other`, opened);
    const when = this.any(brackets + 1);
    if (this.next.kind === "end") throw this.refuse("this bracket is not closed", opened);
    if (!this.next.isSign(")")) this.refuseRest();
    this.take();
    return when;
  }

  _comparison() {
    if (this.next.isWord("not") && !this.schema.byName.has(this.next.text) && ["word", "sign"].includes(this.after(1).kind))
      throw this.refuse("not stands beside the comparison: write field not in (…), field not startsWith …, field not contains …, field not endsWith …, field != …, field is not null");
    if (this.next.kind !== "word") {
      if (this.next.isSign(...Object.keys(RELATIONS))) this._refuseWithoutName(this.next);
      throw this.refuse(`expected the name of a field, as in ${WHEN_EXAMPLES}`);
    }
    const name = this.take();
    if (++this.comparisons > MOST_COMPARISONS) this.tooMany ??= name;
    if (this.next.isSign("(") && name.isWord(...Object.keys(SHOWS))) return this._clock(name);
    if (!this.schema.byName.has(name.text)) this._refuseName(name);
    return this._compared(name, this.field(name, this.schema));
  }

  /** Refuses what stands for a field, if it is clear what is meant. */
  _refuseName(name) {
    if (name.isWord(...Object.keys(SHOWS))) throw this.refuse(`write ${name.text.toLowerCase()}(${this.schema.time.name})`, name);
    if (name.isWord(...COMPARES)) this._refuseWithoutName(name);
    const before = this.tokens[this.place - 2], goesOn = this.next.isSign(...Object.keys(RELATIONS)) || this.next.isWord(...COMPARES);
    if (before?.isWord("and", "or") && name.isWord(...AFTER_CONDITION)) throw this.refuse(`expected a condition after ${before.text}, not ${name.text}`, name);
    if (!this.given || goesOn || !before?.isWord("and", "or")) return;
    const [of, value] = this.given, several = `${of.text} ${this.texts || "in"} (${written({}, value.text)}, ${written({}, name.text)})`;
    throw this.refuse(`write and or or between two conditions; one of several values: ${several}`, name);
  }

  /** Refuses a comparison without the field, if the one before has one. */
  _refuseWithoutName(compares) {
    const before = this.tokens[this.tokens.indexOf(compares) - 1];
    if (this.compared && before?.isWord("and", "or")) throw this.refuse(`repeat the field: … ${before.text} ${this.compared.text} ${compares.text} …`, compares);
  }

  /** Whether a word and a sign or word that compares follow. */
  get isComparisonAhead() {
    const compares = this.after(1);
    return this.next.kind === "word" && (compares.isSign(...Object.keys(RELATIONS)) || compares.isWord(...COMPARES));
  }

  /** What a clock shows, compared with numbers. */
  _clock(name) {
    this.take();
    const of = this.take(), field = this.field(of, this.schema), shows = name.text.toLowerCase();
    if (field.type !== "time" && field !== this.schema.time) throw this.refuse(`${field.name} is no time: ${name.text} is of a time`, of);
    let zone = "UTC";
    if (this.next.isSign(",")) {
      this.take();
      zone = this._one(name).text;
    }
    const last = this.last;
    if (!this.take().isSign(")")) throw this.refuse(`expected ) after ${name.text}(${field.name}, zone`, this.last);
    if (!isZone(zone)) throw this.refuse(`unknown time zone ${shown(zone)} (known: UTC, a difference such as +09:00, or a name such as Europe/Berlin)`, last);
    const called = new Token("word", `${shows}(${field.name}${zone === "UTC" ? "" : `, ${written({}, zone)}`})`, name.start, name.end);
    const compared = this._compared(called, { name: shows, type: "long", numeric: true, scale: 0, range: SHOWS[shows] }), { operand } = compared;
    if (operand === undefined || operand.other) throw this._noLocalTime(shows, this.last);
    return { ...compared, field, clock: { shows, zone } };
  }

  _noLocalTime(shows, token) {
    return this.refuse(shows === "weekday" ? "weekday is compared with numbers from 1 (Monday) to 7 (Sunday)" : "hour is compared with numbers from 0 to 23", token);
  }

  valueOf(field, token) {
    if (field.range && !token.isNumber(...field.range)) throw this._noLocalTime(field.name, token);
    return super.valueOf(field, token);
  }

  /** The rest of a comparison. `name` is what a condition calls the field: `amount`, `hour(eventTime)`. */
  _compared(name, field) {
    let sign = this.take();
    const instead = this.signInstead(sign);
    this.compared = name;
    if (instead) throw this.refuse(`write ${instead}: ${name.text} ${instead} …`, sign);
    const negated = sign.isWord("not"), prefix = negated ? "not " : "";
    if (negated) sign = this.take();
    const texts = Object.keys(TEXTS).find((each) => sign.isWord(each.toLowerCase()));
    this.texts = texts ? `${prefix}${texts}` : "";
    if (sign.isWord("in")) return { field, operator: `${prefix}in`, operand: this._values(field, name, `${prefix}in`) };
    if (texts) {
      if (field.type !== "string") throw this.refuse(`${name.text} is no text: ${texts} is for texts`, sign);
      return { field, operator: this.texts, operand: this._texts(field, name) };
    }
    if (sign.isWord("is") && !negated) return this._null(field, name);
    if (sign.kind === "sign" && sign.text in RELATIONS && !negated) return { field, operator: sign.text, operand: this._operand(field, name, sign) };
    if (sign.isWord("between")) throw this.refuse(`write ${this._between(name, field.range, negated)}`, sign);
    if (negated) throw this.refuse(`expected in, startsWith, contains or endsWith after ${name.text} not`, sign);
    throw this.refuse(`expected =, !=, <, <=, >, >=, in, not in, startsWith, not startsWith, contains, not contains, endsWith, not endsWith, is null or is not null after ${name.text}`, sign);
  }

  /** What `between`, after which the reader stands, means; of a clock, 22 and 6 are the hours around midnight. */
  _between(name, range, negated) {
    const low = this.next, high = this.after(2), isWhole = low.isValue && this.after(1).isWord("and") && high.isValue;
    const [least, most] = isWhole ? [low, high].map(({ text }) => written({}, text)) : ["…", "…"];
    const turns = Boolean(isWhole && range && low.isNumber(...range) && high.isNumber(...range)) && Number(low.text) > Number(high.text);
    const [from, to] = negated ? ["<", ">"] : [">=", "<="];
    return negated === turns ? `${name.text} ${from} ${least} and ${name.text} ${to} ${most}` : `(${name.text} ${from} ${least} or ${name.text} ${to} ${most})`;
  }

  _null(field, name) {
    const negated = this.next.isWord("not");
    if (negated) this.take();
    if (!this.take().isWord("null")) throw this.refuse(`expected null: ${name.text} is null, ${name.text} is not null`, this.last);
    return { field, operator: negated ? "is not null" : "is null" };
  }

  _one(name) {
    if (!this.next.isValue) throw this.refuse(`expected a value for ${name.text}; one with signs goes in quotes`);
    if (this.next.isWord("null")) throw this.refuse(`nothing equals null: write ${name.text} is null or ${name.text} is not null`);
    this.given = [name, this.next];
    return this.take();
  }

  _operand(field, name, sign) {
    if (field.type === "boolean" && !["=", "!="].includes(sign.text)) throw this.refuse(`${field.name} is true or false: compare it with = or !=`, sign);
    const token = this._one(name), other = this._other(field, token);
    if (other) return { other };
    this._noTime(field, token);
    if (token.kind === "word" && field.type === "string" && networkOf(token.text))
      throw this.refuse(`a network is compared with in: ${field.name} ${sign.text === "!=" ? "not " : ""}in ${token.text}`, token);
    const lower = token.text.toLowerCase();
    if (field.type === "boolean" && token.text !== lower && ["true", "false"].includes(lower)) throw this.refuse(`write ${name.text} ${sign.text} ${lower}`, token);
    if (field.numeric && this.isCommaBeforeDigits) throw this.refuse("a number in a condition has no commas, and a point before decimals");
    return this.valueOf(field, token);
  }

  _noTime(field, token) {
    if (field.type === "time") throw this.refuse(`${field.name} is a time: only other times compare with it, or is null`, token);
  }

  /** The field that a word names, if it does not read as a number where a number is expected. */
  _other(field, token) {
    const other = token.kind === "word" && this.schema.byName.get(token.text);
    if (!other) return null;
    if (field.numeric && field.type !== "time") {
      try { if (ofCell(field, token.text) !== null) return null; } catch { /* no number */ }
    }
    const [kind, otherKind] = [field, other].map(({ type, numeric }) => (["time", "boolean"].includes(type) ? type : numeric ? "number" : "text"));
    if (kind !== otherKind) throw this.refuse(`${field.name} is a ${kind}, ${other.name} a ${otherKind}${kind === "text" ? `; a text goes in quotes: "${token.text}"` : ""}`, token);
    return other;
  }

  _values(field, name, operator) {
    this._noTime(field, name);
    const isNetwork = (token) => token.kind === "word" && field.type === "string" && networkOf(token.text) !== null;
    if (isNetwork(this.next)) return { networks: [this._network(this.take())] };
    if (!this.next.isSign("(")) this._refuseValues(field, name, operator);
    const tokens = this._listed(name, this.mostValues);
    if (!tokens.some(isNetwork)) return { values: sortedValues(field, tokens.map((token) => this.valueOf(field, token))) };
    const networks = new Map(tokens.map((token) => this._network(token)).map((network) => [network.text, network]));
    return { networks: [...networks.values()].sort((a, b) => a.version - b.version || byNumber(a.number, b.number) || a.prefix - b.prefix) };
  }

  /** One text, or several in brackets of which one is enough; a list of one is that text. */
  _texts(field, name) {
    const tokens = this.next.isSign("(") ? this._listed(name, MOST_VALUES) : [this._one(name)];
    const values = sortedValues(field, tokens.map((token) => this.valueOf(field, token)));
    return values.length > 1 ? { values } : values[0];
  }

  /** The values between the brackets that come next. */
  _listed(name, most) {
    this.take();
    const tokens = [this._one(name)];
    for (let sign = this.take(); !sign.isSign(")"); sign = this.take()) {
      if (!sign.isSign(",")) throw this.refuse("expected , or ) after a value; one with blanks or signs goes in quotes", sign);
      tokens.push(this._one(name));
      if (tokens.length > most) throw this.refuse(`expected at most ${most} values`, this.last);
    }
    return tokens;
  }

  /** Refuses what is neither a list nor a network after `in` or `not in`. */
  _refuseValues(field, name, operator) {
    const { text } = this.next, isText = this.next.kind === "word" && field.type === "string", address = isText && !text.includes("%") && addressOf(text);
    if (address) throw this.refuse(`write ${name.text} ${operator} ${text}/${BITS_OF[address.version]}`);
    if (isText && LIKE_NETWORK.test(text)) throw this.refuse("no network: expected an address, / and a number up to 32, or up to 128 for IPv6, as in 10.0.0.0/8");
    if (this.next.kind === "word" && text.startsWith("@")) throw this.refuse("the page keeps no lists; lab run and lab replay do");
    throw this.refuse(`the values of ${operator} stand in brackets: ${name.text} ${operator} (…, …)`);
  }

  _network(token) {
    const network = networkOf(token.text.includes("/") ? token.text : `${token.text}/${token.text.includes(":") ? 128 : 32}`);
    if (network?.exact) return network;
    throw this.refuse(`expected a network such as 10.0.0.0/8: ${network ? `write ${network.text}` : "networks and other texts do not go into one list"}`, token);
  }

  /** Says what is wrong with the token after a complete condition, and what is probably meant. */
  refuseRest() {
    const sign = this.next, [following, compares] = [this.after(1), this.after(2)], isRelation = (token) => token.isSign(...Object.keys(RELATIONS));
    const goesOn = following.kind === "word" && (isRelation(compares) || compares.isWord(...COMPARES));
    if (sign.isSign(")")) throw this.refuse("no bracket is open here");
    for (const [word, signs] of Object.entries({ and: ["&", "&&", ",", ";"], or: ["|", "||"] }))
      if (sign.isSign(...signs) && (goesOn || !this.given)) throw this.refuse(`write ${word} between two conditions`);
    if (sign.kind === "word" && isRelation(following)) throw this.refuse(`write and between two conditions: … and ${sign.text} ${following.text} …`);
    if (!this.given) throw this.refuse("expected and or or");
    const [name, value] = this.given, field = this.schema.byName.get(name.text);
    if (sign.isSign(",", ";", "|", "||", "&", "&&"))
      throw this.refuse(`write and or or between two conditions; one of several values: ${name.text} ${this.texts || "in"} (${written({}, value.text)}, …)`);
    if (name.text.includes("(") || (field && !["string", "boolean"].includes(field.type))) throw this.refuse("expected and or or after a number, which has no unit");
    throw this.refuse("expected and or or; a value with blanks or signs goes in quotes");
  }
}

/** The condition in words, the same for equal conditions; `readWhen` reads it back. */
function whenText(when) {
  if (when.all) return when.all.map((part) => (part.any ? `(${whenText(part)})` : whenText(part))).join(" and ");
  if (when.any) return when.any.map(whenText).join(" or ");
  const { clock, operator, operand } = when;
  const field = clock ? { name: `${clock.shows}(${when.field.name}${clock.zone === "UTC" ? "" : `, ${written({}, clock.zone)}`})`, numeric: true, scale: 0 } : when.field;
  if (operand === undefined) return `${field.name} ${operator}`;
  if (operand.other) return `${field.name} ${operator} ${operand.other.name}`;
  if (operand.networks) {
    const listed = operand.networks.map(({ text }) => text).join(", ");
    return `${field.name} ${operator} ${operand.networks.length > 1 ? `(${listed})` : listed}`;
  }
  if (operand.values) return `${field.name} ${operator} (${operand.values.map((value) => (!field.numeric && /^null$/i.test(value) ? inQuotes(value) : written(field, value))).join(", ")})`;
  return `${field.name} ${operator} ${field.numeric ? plain(operand, field.scale) : inQuotes(operand)}`;
}
