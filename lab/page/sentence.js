// A rule as one sentence, read into the attributes of a message, and written out of a rule. lab.model.sentence, lab.model.rule.
//
// sentence:    (condition [joined] | absence) ["," "when" when] ["," "at" "most" number "per" duration] ["," "then" action "for" duration]
// condition:   aggregation operator limit          limit: number | [number "×"] aggregation ["÷" number] ["+" | "-" number]
// aggregation: function "(" ("events" | field {"," field}) ["where" when] ")" ["where" filter] ["per" field {"," field}]
//              "over" duration ["without the current event"]          filter and per: of the first condition
// absence:     "NO" "(" "events" ["where" when] ")" ["where" filter] ["per" field {"," field}] "within" duration "after"
"use strict";

const SENTENCE = new RegExp(`^[${BLANKS}]*([0-9]{1,19})(?:[${BLANKS}]+([A-Za-z]{1,9}))?[${BLANKS}]*:`);
const UNITS_OF_SENTENCE = { s: "s", min: "m", m: "m", h: "h", d: "d" };

/** The attributes of a rule, without id and state, as a message has them. Throws a Bad, which says where, and what would be right. */
function readSentence(text, schema) {
  const reader = new SentenceReader(text, schema), rule = new Map();
  const add = (attributes) => { for (const [name, value] of attributes) rule.set(name, value); };
  if (reader.next.isWord("no")) add(reader.absence());
  else {
    add(reader.comparison(true));
    add(reader.more());
  }
  while (reader.next.isSign(",")) {
    reader.take();
    add(reader.rest(rule));
  }
  if (reader.next.kind !== "end") throw reader.refuse("expected and, or, a comma with when or then, or the end");
  return rule;
}

class SentenceReader extends WhenReader {
  comparison(first = false) {
    const condition = this.aggregation(first), sign = this.take(), operator = sign.kind === "sign" && OPERATORS.find((name) => SYMBOLS[name] === sign.text);
    if (!operator) throw this.refuse(`expected one of ${Object.values(SYMBOLS).join(" ")} and a limit`, sign);
    return [...condition, ["limitOperatorType", operator], ...this.limit()];
  }

  absence() {
    this.take();
    this._sign("(", "what is not to come stands as NO(events), or as NO(events where …)");
    this._words(["events"], ", as in NO(events)");
    const of = [["absence", true], ["aggregatorFunctionType", "COUNT"], ...this._insideBrackets(), ...this._ofRoute()];
    this._words(["within"], ", how long, and after, such as within 10 min after");
    of.push(["window", this.duration()]);
    this._words(["after"], ", as in within 10 min after");
    return of;
  }

  /** `where`, if there is one, and the closing bracket. */
  _insideBrackets() {
    const of = [];
    if (this.next.isWord("where")) {
      this.take();
      of.push(["where", whenText(this.condition())]);
    }
    this._sign(")", "expected where and conditions, or ), after what it is of");
    return of;
  }

  /** The filter and the keys. */
  _ofRoute() {
    const of = [];
    if (this.next.isWord("where")) {
      this.take();
      this.mostValues = Infinity;
      of.push(["filter", whenText(this.condition())]);
      this.mostValues = MOST_VALUES;
    }
    if (this.next.isWord("per")) {
      this.take();
      of.push(["groupingKeyNames", this._names()]);
    }
    return of;
  }

  aggregation(first) {
    const name = this.take(), called = name.text.toUpperCase();
    if (name.kind !== "word" || !(called in LAYOUT.running))
      throw this.refuse(`expected a function with what it is of, as in SUM(amount) per userId over 1 h > 500; there are ${Object.keys(LAYOUT.running).join(", ")}`, name);
    this._sign("(", `${called} and what it is of stand as ${called}(…)`);
    const of = [["aggregatorFunctionType", called], ...this._of(called), ...this._insideBrackets(), ...(first ? this._ofRoute() : [])];
    this._words(["over"], " and a window, such as over 10 min");
    of.push(["window", this.duration()]);
    if (this.next.isWord("without")) {
      this._words(["without", "the", "current", "event"]);
      of.push(["excludeCurrent", true]);
    }
    return of;
  }

  _of(called) {
    if (this.next.isWord("events") && !this.schema.byName.has("events")) {
      this.take();
      return [];
    }
    const names = this._names();
    if (LAYOUT.running[called].of === "unique") return [["unique", names]];
    if (names.length > 1) throw this.refuse(`${called} takes one field`);
    return [["aggregateFieldName", names[0]]];
  }

  /** Fields with commas between them; one before `when`, `at` or `then` is not theirs. */
  _names() {
    const names = [this._name()];
    while (this.next.isSign(",") && !this.after(1).isWord("when", "at", "then")) {
      this.take();
      names.push(this._name());
    }
    return names;
  }

  _name() {
    if (this.next.kind !== "word") throw this.refuse("expected the name of a field");
    return this.field(this.take(), this.schema).name;
  }

  limit() {
    let number = "1";
    if (!this.after(1).isSign("(")) {
      number = this._amount("a limit");
      if (!this.next.isWord("×", "*", "x")) return [["limit", number]];
      this.take();
    }
    const base = this.aggregation();
    if (this.next.isWord("÷", "/")) {
      this.take();
      base.push(["dividedBy", this._whole("a divisor")]);
    }
    if (this.next.isWord("+", "-")) base.push(["plus", this.take().text.replace("+", "") + this._amount("a number")]);
    return [["limit", number], ["limitOf", new Map(base)]];
  }

  _amount(what) {
    const isThousands = (comma, digits) => comma.isSign(",") && this.last.end === comma.start && comma.end === digits.start && /^[0-9]{3}(\.[0-9]{1,60})?$/.test(digits.text);
    let number = this._number(what);
    while (isThousands(this.next, this.after(1))) {
      this.take();
      number += this.take().text;
    }
    return number;
  }

  _whole(what) {
    const number = this._number(`${what}, a whole number`);
    if (!/^[0-9]{1,18}$/.test(number)) throw this.refuse("expected a whole number", this.last);
    return new Literal(String(BigInt(number)));
  }

  _number(what) {
    const token = this.take();
    if (token.kind !== "word" || !/^[+-]?[0-9][0-9_]{0,60}(\.[0-9]{1,60})?$/.test(token.text)) throw this.refuse(`expected ${what}, such as 500, without signs between the digits`, token);
    return token.text.replaceAll("_", "");
  }

  duration() {
    let token = this.take();
    const [, digits, close] = (token.kind === "word" && /^([0-9]{1,12})([a-z]*)$/.exec(token.text.toLowerCase())) || [];
    let unit = close ?? "";
    if (digits && !unit && this.next.kind === "word") {
      unit = this.next.text.toLowerCase();
      token = this.take();
    }
    if (!digits || !Object.hasOwn(UNITS_OF_SENTENCE, unit)) throw this.refuse("expected a duration in s, min, h or d, such as 10 min", token);
    return digits + UNITS_OF_SENTENCE[unit];
  }

  more() {
    if (!this.next.isWord("and", "or")) return [];
    const how = this.next.text.toLowerCase(), conditions = [];
    while (this.next.isWord("and", "or")) {
      if (!this.next.isWord(how)) throw this.refuse("conditions are joined by and, or by or: not by both");
      this.take();
      conditions.push(new Map(this.comparison()));
    }
    return [[how, conditions]];
  }

  /** What follows a comma: `when`, `at most` or `then`. */
  rest(rule) {
    if (this.next.isWord("when") && !rule.has("when")) {
      this.take();
      return [["when", whenText(this.condition())]];
    }
    if (this.next.isWord("at") && this.after(1).isWord("most") && !rule.has("atMost")) {
      this._words(["at", "most"]);
      const alerts = this._whole("how many alerts");
      this._words(["per"], " and a duration, such as per 10 min");
      return [["atMost", new Map([["alerts", alerts], ["per", this.duration()]])]];
    }
    if (this.next.isWord("then") && !rule.has("action")) {
      this.take();
      const action = this.take().text;
      this._words(["for"], " and how long, such as for 24 h");
      return [["action", action], ["ttl", this.duration()]];
    }
    throw this.refuse("expected when and a condition, at most and how often, or then and an action");
  }

  _words(words, also = "") {
    for (const word of words) if (!this.take().isWord(word)) throw this.refuse(`expected ${words.join(" ")}${also}`, this.last);
  }

  _sign(sign, reason) {
    if (!this.take().isSign(sign)) throw this.refuse(reason, this.last);
  }
}

// -- as people read it --------------------------------------------------------------------------------------------------

const limitText = (limit) => plain(limit, PLACES).replace(/\.?0+$/, "");
const thousands = (text) => text.replace(/^-?\d+/, (digits) => digits.replace(/\d(?=(\d{3})+$)/g, "$&,"));
function durationText(ms) {
  const [unit, size] = Object.entries(UNIT_SECONDS).find(([, each]) => ms % (1000 * each) === 0);
  return `${ms / 1000 / size} ${unit === "m" ? "min" : unit}`;
}

/** What an aggregation is of, in brackets. */
function ofText({ unique, field, where }) {
  return `(${unique.join(", ") || field || "events"}${where ? ` where ${whenText(where)}` : ""})`;
}

function aggregationText(of, per = "") {
  return `${of.function}${ofText(of)}${per} over ${durationText(of.windowMs)}${of.excludes ? " without the current event" : ""}`;
}

function conditionText(condition, per, number = limitText(condition.limit)) {
  const { of, operator, limit, base, by, plus } = condition, times = limit === FRACTION ? "" : `${number} × `;
  const multiple = () => `${times}${aggregationText(base)}${by > 1n ? ` ÷ ${by}` : ""}${plus ? ` ${plus > 0n ? "+" : "-"} ${limitText(plus > 0n ? plus : -plus)}` : ""}`;
  return `${aggregationText(of, per)} ${SYMBOLS[operator]} ${base ? multiple() : number}`;
}

/** A rule in plain English, its limit as people write numbers. */
function meaning(rule) {
  const where = rule.filter ? ` where ${whenText(rule.filter)}` : "", per = `${where}${rule.keys.length ? ` per ${rule.keys.join(", ")}` : ""}`;
  const [first, ...more] = rule.conditions, alone = rule.absence && `NO${ofText(first.of)}${per} within ${durationText(first.of.windowMs)} after`;
  const told = alone || [conditionText(first, per, thousands(limitText(first.limit))), ...more.map((each) => conditionText(each))].join(` ${rule.joined} `);
  const when = rule.when ? `, when ${whenText(rule.when)}` : "", most = rule.atMost ? `, at most ${rule.atMost} per ${durationText(rule.perMs)}` : "";
  return `${told}${when}${most}${rule.action ? `, then ${rule.action} for ${durationText(rule.ttlMs)}` : ""}`;
}
