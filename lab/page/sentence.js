// A rule as one sentence, read into the attributes of a message, and written out of a rule. lab.model.sentence, lab.model.rule.
//
// sentence:    (condition [joined] | absence) {"," clause}          each clause once, in any order
// clause:      "when" when | "at" "most" number "per" duration | "then" action "for" duration | "severity" severity
//              | "title" text | "labels" label "=" text {"," label "=" text} | "with" field {"," field} "of" "the" "event"
// condition:   aggregation operator limit          limit: number | [number "×"] aggregation ["÷" number] ["+" | "-" number]
// aggregation: function "(" ("events" | field {"," field}) ["where" when] ")" ["where" filter] ["per" field {"," field}]
//              "over" duration ["without the current event"]          filter and per: of the first condition
// absence:     "NO" "(" "events" ["where" when] ")" ["where" filter] ["per" field {"," field}] "within" duration "after"
"use strict";

const SENTENCE = new RegExp(`^[${BLANKS}]*([0-9]{1,19})(?:[${BLANKS}]+([A-Za-z]{1,9}))?[${BLANKS}]*:`);
const UNITS_OF_SENTENCE = { s: "s", min: "m", m: "m", h: "h", d: "d" };
const UNIT_ALONE = /^(?:\p{L}{1,3}|[$€£¥₩₹])$/u, WITH_UNIT = /^(?:\p{L}{1,3}|[$€£¥₩₹])?([0-9]{1,30}(\.[0-9]{1,30})?)((?:\p{L}{1,3}|[$€£¥₩₹])?)$/u;
const POINTS_BETWEEN_THOUSANDS = /^[+-]?[1-9][0-9]{0,2}(?:\.[0-9]{3}){0,9}\.[0-9]{2}0$/; // 20.000 and 1.500.000, as Europeans write 20,000 and 1,500,000
const ZEROS = { k: "000", m: "000000" }; // what people write instead of them
// what other units people write, without a plural's s -> how many of which stored unit to write instead
const OTHER_UNITS = { sec: [1, "s"], second: [1, "s"], min: [1, "m"], minute: [1, "m"], hr: [1, "h"], hour: [1, "h"], day: [1, "d"], w: [7, "d"], week: [7, "d"], month: [30, "d"], year: [365, "d"] };
const OFTEN = { once: 1, one: 1, twice: 2, two: 2 }; // what people write for a number of alerts
const OF_CLAUSES = "when, at most, then, severity, title, labels or with";

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
  if (reader.next.kind !== "end") {
    reader.refuseRoute();
    if (!rule.has("when")) reader.refuseConditionOnEvent();
    if (rule.get("absence") || Object.values(CLAUSES).some((name) => rule.has(name))) throw reader.refuse(`expected a comma and ${OF_CLAUSES}, or the end`);
    throw reader.refuse(`expected and, or, a comma and ${OF_CLAUSES}, or the end`);
  }
  return rule;
}

class SentenceReader extends WhenReader {
  comparison(first = false) {
    const start = this.next;
    if (first) this._refuseConditionAlone();
    if (start.isSign("(")) throw this.refuse("conditions have no brackets: join all by and, or all by or; or write several rules", start);
    const condition = this.aggregation(first);
    this.refuseRoute();
    const sign = this.take(), operator = sign.kind === "sign" && OPERATORS.find((name) => SYMBOLS[name] === sign.text);
    if (sign.isWord("÷", "/")) throw this.refuse("a share is written with a factor: SUM(amount) over 1 h > 0.2 × SUM(amount) over 30 d", sign);
    const instead = this.signInstead(sign);
    if (instead) throw this.refuse(`write ${instead}: ${instead} 500`, sign);
    if (!operator) throw this.refuse(`expected one of ${Object.values(SYMBOLS).join(" ")} and a limit`, sign);
    const limit = this.limit();
    if (limit.length > 1) this._refuseRoot(start);
    return [...condition, ["limitOperatorType", operator], ...limit];
  }

  _refuseRoot(called) {
    if (called.isWord("stddev")) throw this.refuse("the page compares no root with another aggregate; lab replay does", called);
  }

  /** Refuses `per` and `where` in places where they cannot stand, and says where they do. */
  refuseRoute() {
    if (this.next.isWord("per")) throw this.refuse("per and its fields stand once, before the first over or within, as in SUM(amount) per userId over 1 h > 500");
    if (this.next.isWord("where")) throw this._misplacedWhere(this.next);
  }

  _misplacedWhere(where) {
    return this.refuse("where and its conditions stand in the brackets, as in COUNT(events where …), or before per and over; a condition on the event that alerts follows a comma: , when …", where);
  }

  /** Refuses a comparison of a field, and says that it is a clause. */
  refuseConditionOnEvent() {
    if (this.schema.byName.has(this.next.text) && this.isComparisonAhead) throw this._notInWhen(this.next);
  }

  /** Refuses a rule that begins with a condition on the event, and says what to write before it. */
  _refuseConditionAlone() {
    const isComparison = this.schema.byName.has(this.next.text) && this.isComparisonAhead;
    const { text: name } = this.next, { numeric } = this.schema.byName.get(name) ?? {};
    if (isComparison && numeric && this._isAggregateAhead) throw this.refuse(`to compare an event with an aggregate write VALUE(${name}) per … > 3 × AVG(${name}) over 30 d without the current event`);
    if (isComparison || this.next.isWord("when")) throw this.refuse("for a condition on the event alone write COUNT(events) over 1 s >= 1, when …");
  }

  get _isAggregateAhead() {
    return this.tokens.slice(this.place).some((name, n, ahead) => (name.text.toUpperCase() in { ...LAYOUT.running, ...LAYOUT.otherNames }) && ahead[n + 1]?.isSign("("));
  }

  _notInWhen(name) {
    return this.refuse(`a condition on the event itself follows a comma: , when ${name.text} …`, name);
  }

  /** Refuses a comparison in the brackets of a count. */
  _refuseComparisonIn(called) {
    const { next } = this, isField = this.schema.byName.has(next.text) || !next.isWord("events");
    if (isField && this.isComparisonAhead) throw this.refuse(`write ${called}(events where ${next.text} …)`);
  }

  absence() {
    this.take();
    this._sign("(", "what is not to come stands as NO(events), or as NO(events where …)");
    this._refuseComparisonIn("NO");
    this._words("expected events, as in NO(events)", "events");
    const of = [["absence", true], ["aggregatorFunctionType", "COUNT"], ...this._insideBrackets(), ...this._ofRoute()];
    this._words("expected within, how long, and after, such as within 10 min after", "within");
    of.push(["window", this.duration()]);
    this._words("expected after, as in within 10 min after", "after");
    return of;
  }

  /** `where`, if there is one, and the closing bracket. */
  _insideBrackets() {
    const of = [];
    if (this.next.isWord("where")) {
      this.take();
      of.push(["where", whenText(this.condition())]);
      const isEnd = this.next.kind === "end" || this.next.isSign(")") || this.next.isWord("where", "per", "over", "within");
      if (!isEnd) this.refuseRest();
    }
    this._sign(")", "expected where and conditions, or ), after what it is of");
    return of;
  }

  /** The filter and the keys. Without a window, a sign that compares may follow them. */
  _ofRoute(hasWindow = true) {
    const of = [];
    if (this.next.isWord("where")) {
      this.take();
      of.push(["filter", whenText(this.filter())]);
      const isEnd = !hasWindow && this.next.isSign(...Object.keys(RELATIONS));
      if (!isEnd && !this.next.isWord("per", "over", "within")) this.refuseRest();
    }
    if (this.next.isWord("per")) {
      this.take();
      of.push(["groupingKeyNames", this._names()]);
    }
    return of;
  }

  aggregation(first) {
    const name = this.take(), called = name.text.toUpperCase();
    if (name.kind === "word" && !(called in LAYOUT.running) && this.schema.byName.has(name.text) && !first)
      throw this._notInWhen(name);
    if (name.kind !== "word" || !(called in LAYOUT.running)) {
      const known = Object.keys(LAYOUT.running).join(", "), isOther = name.kind === "word" && Object.hasOwn(LAYOUT.otherNames, called);
      throw this.refuse(isOther ? `here it is called ${LAYOUT.otherNames[called]}; there are ${known}` : `expected a function with what it is of, as in SUM(amount) per userId over 1 h > 500; there are ${known}`, name);
    }
    this._sign("(", `expected ( after ${called}, as in ${called}(${LAYOUT.running[called].of === "events" ? "events" : "…"})`);
    const of = [["aggregatorFunctionType", called], ...this._of(called), ...this._insideBrackets(), ...(first ? this._ofRoute(LAYOUT.running[called].hasWindow) : [])];
    this.refuseRoute();
    if (!LAYOUT.running[called].hasWindow) {
      if (this.next.isWord("over", "without")) throw this.refuse(`${called} is of the event itself: it has no window`);
      return of;
    }
    const noKeys = first && !of.some(([attribute]) => attribute === "groupingKeyNames");
    this._words(noKeys ? "expected per and fields, or over and a window, such as over 10 min" : "expected over and a window, such as over 10 min", "over");
    of.push(["window", this.duration()]);
    if (this.next.isWord("without")) {
      this._words("expected without the current event", "without", "the", "current", "event");
      of.push(["excludeCurrent", true]);
    }
    return of;
  }

  _of(called) {
    if (LAYOUT.running[called].of === "events" && this.next.isWord("events")) {
      this.take();
      return [];
    }
    this._refuseForeignArgument(called);
    const first = this.next, names = this._names();
    if (LAYOUT.running[called].of === "unique") return [["unique", names]];
    if (names.length > 1) throw this.refuse(`${called} takes one field`);
    const isNumeric = (field) => !["string", "boolean"].includes(field.type);
    if (LAYOUT.running[called].of === "field" && !isNumeric(this.schema.byName.get(names[0]))) {
      const numeric = [...this.schema.byName.values()].filter(isNumeric).map(({ name }) => name).join(", ");
      throw this.refuse(`expected a numeric field for ${called}: ${numeric}`, first);
    }
    return [["aggregateFieldName", names[0]]];
  }

  /** COUNT(action = pay), and what other languages count: COUNT(*), COUNT(DISTINCT ip). */
  _refuseForeignArgument(called) {
    if (LAYOUT.running[called].of === "events") this._refuseComparisonIn(called);
    if (this.schema.byName.has(this.next.text)) return;
    if (this.next.isWord("distinct")) throw this.refuse("distinct values are counted by UNIQUE_COUNT(…)");
    if (LAYOUT.running[called].of === "events" && (this.next.isSign(")") || this.next.isWord("*", "event"))) throw this.refuse(`write ${called}(events)`);
  }

  /** Fields with commas between them; the first word of a clause is none of them, unless it is a field. */
  _names() {
    const names = [this._name()], isField = (token) => this.schema.byName.has(token.text) || !token.isWord(...Object.keys(CLAUSES));
    while (this.next.isSign(",") && isField(this.after(1))) {
      this.take();
      const name = this._name();
      if (names.includes(name)) throw this.refuse("expected each field once", this.last);
      names.push(name);
    }
    if (this.next.isWord("and") || this.next.isSign("&")) throw this.refuse("write a comma between two fields");
    return names;
  }

  _name() {
    if (!this.next.isValue) throw this.refuse("expected the name of a field");
    return this.field(this.take(), this.schema).name;
  }

  limit() {
    let number = "1";
    this._refuseBracketsOfLimit();
    if (!this.after(1).isSign("(")) {
      number = this._amount("a limit");
      if (!this.next.isWord("×", "*", "x")) {
        if (this.next.text.startsWith("%")) throw this._percentage(this.next);
        if (this.next.kind === "word" && !this.next.isWord("and", "or", ...Object.keys(CLAUSES))) {
          this.refuseRoute();
          this.refuseConditionOnEvent();
          throw this.refuse("expected and, or, × or a comma after the limit, a number without blanks and units");
        }
        return [["limit", number]];
      }
      this.take();
    }
    this._refuseBracketsOfLimit();
    this._refuseRoot(this.next);
    if (this.next.isWord("count_with_reset")) throw this.refuse("COUNT_WITH_RESET is no limit: take COUNT");
    const base = this.aggregation(), [[, called]] = base;
    this._refuseFactor(called);
    if (this.next.isWord("÷", "/")) {
      this.take();
      base.push(["dividedBy", this._whole("a divisor")]);
      this._refuseFactor(called);
    }
    if (this.next.kind === "word" && /^[+-][0-9]/.test(this.next.text)) throw this.refuse(`write a blank after ${this.next.text[0]}, as in ${this.next.text[0]} 5`);
    if (this.next.isWord("+", "-")) {
      const minus = this.take().text.replace("+", "");
      if (/^[+-]/.test(this.next.text)) throw this._notPlain("a number", this.next);
      if (this.after(1).isSign("(") || this.after(1).isWord("×", "*", "x")) throw this.refuse("the page compares with a multiple of one aggregate, plus or minus a number; lab replay also with two");
      base.push(["plus", minus + this._amount("a number")]);
    }
    return [["limit", number], ["limitOf", new Map(base)]];
  }

  _refuseBracketsOfLimit() {
    if (this.next.isSign("(")) throw this.refuse("a limit has no brackets: write > 5 × SUM(amount) over 30 d ÷ 30");
  }

  /** Refuses a factor after the aggregate. */
  _refuseFactor(called) {
    if (!this.next.isWord("×", "*", "x")) return;
    const [number] = /^[0-9]{1,30}(\.[0-9]{1,30})?$/.exec(this.after(1).text) ?? ["5"];
    throw this.refuse(`the factor stands first: ${number} × ${called}(…)`);
  }

  _amount(what) {
    let number = this._number(what);
    this._refusePointsBetweenThousands(this.last.text, this.last);
    let group = this.last.text.replace(/^[+-]/, "");
    while (this.isCommaBeforeDigits) {
      const isGrouped = /^[0-9]{1,3}$/.test(group) && /^[0-9]{3}(\.[0-9]{1,60})?$/.test(this.after(1).text);
      if (!isGrouped) throw this.refuse("expected commas only before three digits each, such as 20,000,000.5");
      this.take();
      group = this.take().text;
      number += group;
    }
    return number;
  }

  valueOf(field, token) {
    if (field.numeric && field.scale !== 3) this._refusePointsBetweenThousands(token.text, token); // with three decimals, 20.000 is how 20 is shown
    return super.valueOf(field, token);
  }

  _refusePointsBetweenThousands(number, token) {
    if (!POINTS_BETWEEN_THOUSANDS.test(number) || this.isCommaBeforeDigits) return;
    const whole = number.replaceAll(".", ""), either = number.split(".").length === 2 ? `${number.replace(/\.?0+$/, "")} or ${whole}` : whole;
    throw this.refuse(`a point stands before decimals, not between thousands: write ${either}`, token);
  }

  _whole(what) {
    const number = this._number(`${what}, a whole number`);
    if (!/^[0-9]{1,18}$/.test(number)) throw this.refuse("expected a whole number", this.last);
    return new Literal(String(BigInt(number)));
  }

  _number(what) {
    const token = this.take();
    if (token.kind !== "word" || !/^[+-]?[0-9][0-9_]{0,60}(\.[0-9]{1,60})?$/.test(token.text)) throw this._notPlain(what, token);
    return token.text.replaceAll("_", "");
  }

  _percentage(token) {
    return this.refuse("a percentage is written as a number: 0.3 for 30 %", token);
  }

  _notPlain(what, token) {
    if (/^[0-9.]{1,60}%$/.test(token.text)) return this._percentage(token);
    this._refusePointsBetweenThousands(token.text, token);
    const number = this._withoutUnit(token);
    this._refusePointsBetweenThousands(number, token);
    if (number) return this.refuse(`a number has no unit and no currency: write ${number}`, token);
    return this.refuse(`expected ${what}, such as 500, without units and without signs between the digits`, token);
  }

  /** The number in $1,000, EUR 500, 500EUR or 20M; empty if the token is none of these. */
  _withoutUnit(token) {
    let { text } = token;
    if (UNIT_ALONE.test(text)) text = this.take().text;
    while (this.isCommaBeforeDigits) { this.take(); text += this.take().text; }
    const [, number, fraction, unit] = WITH_UNIT.exec(text) ?? [], zeros = ZEROS[unit?.toLowerCase()] ?? "";
    return !number || (zeros && fraction) ? "" : number + zeros;
  }

  /** A duration; `before`: what to write before it, if it is to be written otherwise. */
  duration(before = "") {
    const duration = this._oneDuration(before), more = this.next, ms = (code) => 1000 * UNIT_SECONDS[code.at(-1)] * Number(code.slice(0, -1));
    let sum = ms(duration);
    while (this.next.kind === "word" && /^[0-9]/.test(this.next.text)) sum += ms(this._oneDuration());
    if (this.next !== more) throw this.refuse(`expected one number and one unit: write ${durationText(sum)}`, more);
    return duration;
  }

  _oneDuration(before = "") {
    const number = this.next, { count, unit, isWrittenSo, token } = this._takeDuration();
    if (!unit) throw this.refuse("expected a duration in whole s, min, h or d, such as 90 min", token);
    const seconds = count * UNIT_SECONDS[unit];
    if (!(seconds > 0 && seconds <= MOST_SECONDS)) throw this.refuse("expected a duration from 1 s to 3660 d", number);
    if (!isWrittenSo) throw this.refuse(`expected a duration in whole s, min, h or d: write ${before}${durationAsGiven(count, unit)}`, token);
    return count + unit;
  }

  /** How many of which stored unit, "" if none is meant; whether it is written so; and its last token. */
  _takeDuration() {
    let token = this.take();
    const text = token.kind === "word" ? token.text.toLowerCase() : "", [, digits, close] = /^([0-9]{1,12})([a-z]*)$/.exec(text) ?? [];
    const count = Number(digits ?? 1);
    let unit = close ?? text;
    if (this.next.kind === "word" && ((digits && !unit) || ["a", "an", "one"].includes(unit))) {
      unit = this.next.text.toLowerCase();
      token = this.take();
    }
    if (Object.hasOwn(UNITS_OF_SENTENCE, unit)) return { count, unit: UNITS_OF_SENTENCE[unit], isWrittenSo: digits !== undefined, token };
    const [times, stored] = [unit, unit.replace(/s$/, "")].filter((name) => Object.hasOwn(OTHER_UNITS, name)).map((name) => OTHER_UNITS[name])[0] ?? [1, ""];
    return { count: count * times, unit: stored, isWrittenSo: false, token };
  }

  more() {
    if (!this.next.isWord("and", "or")) return [];
    const how = this.next.text.toLowerCase(), conditions = [];
    while (this.next.isWord("and", "or")) {
      if (conditions.length === MOST_CONDITIONS - 1) throw this.refuse(`expected at most ${MOST_CONDITIONS} conditions`);
      if (!this.next.isWord(how)) throw this.refuse("conditions are joined by and, or by or: not by both");
      this.take();
      conditions.push(new Map(this.comparison()));
    }
    return [[how, conditions]];
  }

  /** The clause that follows a comma. */
  rest(rule) {
    const first = this.take(), clause = first.text.toLowerCase();
    if (first.isWord("where", "filter")) throw this._misplacedWhere(first);
    if (first.isWord("at") && rule.get("absence"))
      throw this.refuse("at most: not beside absence, which is about the events after one, and has no other condition", first);
    if (first.kind !== "word" || !Object.hasOwn(CLAUSES, clause)) throw this.refuse(`expected ${OF_CLAUSES} after the comma`, first);
    if (rule.has(CLAUSES[clause])) throw this.refuse(`${first.text} is given twice`, first);
    return this[`_${clause}`](rule);
  }

  _when() {
    const when = whenText(this.condition());
    if (this.next.kind !== "end" && !this.next.isSign(",") && !this.next.isWord(...Object.keys(CLAUSES))) {
      this.refuseRoute();
      this.refuseRest();
    }
    return [["when", when]];
  }

  _at() {
    this._words("expected at most and how often, such as at most 1 per 10 min", "most");
    this._refuseOften();
    const alerts = this._whole("how many alerts");
    this._words("expected per and a duration, such as per 10 min", "per");
    return [["atMost", new Map([["alerts", alerts], ["per", this.duration(`at most ${alerts.text} per `)]])]];
  }

  /** Refuses `once per hour`, `twice a day`, `3 alerts per day`, and says how it is written. */
  _refuseOften() {
    const token = this.next, word = token.kind === "word" ? token.text.toLowerCase() : "";
    let alerts = Object.hasOwn(OFTEN, word) ? OFTEN[word] : 0;
    if (token.isNumber(1, 999999999) && this.after(1).isWord("alert", "alerts", "time", "times")) alerts = Number(this.take().text);
    if (!alerts) return;
    this.take();
    if (this.next.isWord("per", "every", "each", "in", "within")) this.take();
    const { count, unit } = this._takeDuration(), often = `at most ${alerts} per ${unit ? durationAsGiven(count, unit) : "1 h"}`;
    throw this.refuse(`write ${often}`, token);
  }

  _then(rule) {
    const action = this.take();
    this._check(action, () => readAction(action.text, rule.get("groupingKeyNames")));
    this._words("expected for and how long, such as for 24 h", "for");
    return [["action", action.text], ["ttl", this.duration()]];
  }

  _severity() {
    const severity = this.take(), name = severity.text.toLowerCase();
    this._check(severity, () => readSeverity(name));
    return [["severity", name]];
  }

  _title() {
    const title = this.take();
    if (title.kind !== "quoted") throw this.refuse('expected the title in quotes, such as title "Too much"', title);
    this._check(title, () => readTitle(title.text));
    return [["title", title.text]];
  }

  /** Names with texts; after a comma the first word of a clause is none of them, unless = follows it. */
  _labels() {
    const labels = new Map(), goesOn = () => this.next.isSign(",") && (this.after(2).isSign("=") || !this.after(1).isWord(...Object.keys(CLAUSES)));
    while (!labels.size || goesOn()) {
      if (labels.size) this.take();
      const name = this.take();
      if (name.kind !== "word" || !this.next.isSign("=")) throw this.refuse('expected a name, = and a text, such as team = "fraud"', name);
      this.take();
      const text = this._one(name);
      if (labels.has(name.text)) throw this.refuse("expected each label once", name);
      this._check(name, () => readLabels(new Map([...labels, [name.text, ""]])));
      this._check(text, () => readLabels(new Map([[name.text, text.text]])));
      labels.set(name.text, text.text);
    }
    if (this.next.isValue) throw this.refuse("expected a comma or the end; a text with blanks goes in quotes");
    return [["labels", labels]];
  }

  _with() {
    const names = this._names();
    this._words("expected of the event after the fields, as in with ip of the event", "of", "the", "event");
    return [["eventFields", names]];
  }

  /** Refuses at the token what `read` refuses. */
  _check(token, read) {
    try { read(); } catch (error) { throw error instanceof Bad ? this.refuse(error.message, token) : error; }
  }

  _words(reason, ...words) {
    for (const word of words) {
      const token = this.take();
      if (!token.isWord(word)) throw this.refuse(reason, token);
    }
  }

  _sign(sign, reason) {
    if (!this.take().isSign(sign)) throw this.refuse(reason, this.last);
  }
}

// -- as people read it --------------------------------------------------------------------------------------------------

const limitText = (limit) => plain(limit, PLACES).replace(/\.?0+$/, "");
const thousands = (text) => text.replace(/^-?\d+/, (digits) => digits.replace(/\d(?=(\d{3})+$)/g, "$&,"));
function durationParts(ms) {
  const [unit, size] = Object.entries(UNIT_SECONDS).find(([, each]) => ms % (1000 * each) === 0);
  return [ms / 1000 / size, unit];
}
const durationAsGiven = (count, unit) => `${count} ${unit === "m" ? "min" : unit}`;
const durationText = (ms) => durationParts(ms).join(" ").replace("m", "min");

/** What an aggregation is of, in brackets; a field of that name in quotes, as without them COUNT(events) counts every event. */
function ofText({ unique, field, where }) {
  const of = field && (field.toLowerCase() === "events" ? inQuotes(field) : field);
  return `(${unique.join(", ") || of || "events"}${where ? ` where ${whenText(where)}` : ""})`;
}

function aggregationText(of, per = "") {
  const over = LAYOUT.running[of.function].hasWindow ? ` over ${durationText(of.windowMs)}` : "";
  return `${of.function}${ofText(of)}${per}${over}${of.excludes ? " without the current event" : ""}`;
}

function conditionText(condition, per, number = limitText(condition.limit)) {
  const { of, operator, limit, base, by, plus } = condition, times = limit === FRACTION ? "" : `${number} × `;
  const multiple = () => `${times}${aggregationText(base)}${by > 1n ? ` ÷ ${by}` : ""}${plus ? ` ${plus > 0n ? "+" : "-"} ${limitText(plus > 0n ? plus : -plus)}` : ""}`;
  return `${aggregationText(of, per)} ${SYMBOLS[operator]} ${base ? multiple() : number}`;
}

/** A rule as one sentence, which reads back as the same rule, its limit as people write numbers, or as `number` has it. */
function meaning(rule, number = thousands) {
  const severity = rule.severity ? `, severity ${rule.severity}` : "", title = rule.title ? `, title ${inQuotes(rule.title)}` : "";
  const labels = rule.labels.length ? `, labels ${rule.labels.map(([name, text]) => `${name} = ${inQuotes(text)}`).join(", ")}` : "";
  return `${summary(rule, number)}${severity}${title}${labels}${rule.eventFields.length ? `, with ${rule.eventFields.join(", ")} of the event` : ""}`;
}

/** The same without what its alerts carry, for tables and where an alert is explained. */
function summary(rule, number = thousands) {
  const where = rule.filter ? ` where ${whenText(rule.filter)}` : "", per = `${where}${rule.keys.length ? ` per ${rule.keys.join(", ")}` : ""}`;
  const [first, ...more] = rule.conditions, alone = rule.absence && `NO${ofText(first.of)}${per} within ${durationText(first.of.windowMs)} after`;
  const conditions = alone || [conditionText(first, per, number(limitText(first.limit))), ...more.map((each) => conditionText(each))].join(` ${rule.joined} `);
  const when = rule.when ? `, when ${whenText(rule.when)}` : "", most = rule.atMost ? `, at most ${rule.atMost} per ${durationText(rule.perMs)}` : "";
  return `${conditions}${when}${most}${rule.action ? `, then ${rule.action} for ${durationText(rule.ttlMs)}` : ""}`;
}
