// The newest events in memory, and the window behind an alert among them: lab.past.plainpast, lab.widgets.alertwindow.
"use strict";

const PAST_BYTES = 16 << 20, MOST_POINTS = 100, MOST_BARS = 500, MOST_LISTED = 100;

/** The newest decoded events, as many as fit into PAST_BYTES. Each has a number: how many came before it. */
class Past {
  constructor(schema, texts) {
    this.size = Math.floor(PAST_BYTES / (9 * schema.fields.length));
    this.columns = new Columns(schema, texts, this.size);
    this.begin = 0; // the number of the oldest one
    this.end = 0;
    this.forgotten = texts.forgotten;
  }

  /** Copies decoded rows behind the events that are here; where texts have new numbers, it begins anew. */
  take({ rows, pairs, valid, texts }) {
    if (this.forgotten !== texts.forgotten) this.begin = this.end;
    this.forgotten = texts.forgotten;
    for (let row = 0; row < rows; ) {
      const at = this.end % this.size, next = Math.min(rows, row + this.size - at);
      for (let n = 0; n < pairs.length; n++) {
        this.columns.pairs[n].set(pairs[n].subarray(2 * row, 2 * next), 2 * at);
        this.columns.valid[n].set(valid[n].subarray(row, next), at);
      }
      this.end += next - row;
      row = next;
    }
    this.begin = Math.max(this.begin, this.end - this.size);
  }

  rowOf(number) { return number % this.size; }

  /** The numbers of the events in a rule's window that ends with the event of a number, as its route had stored them then: without duplicates; none if that one is gone. */
  window(rule, last, route) {
    if (last < this.begin) return [];
    const { columns } = this, { schema } = columns, { windowMs, endsBeforeMs } = rule.conditions[0].of, endRow = this.rowOf(last), endMs = columns.timeMs(endRow);
    const passes = rule.filter ? truthOf(rule.filter, columns) : () => true, keys = rule.keys.map((name) => schema.byName.get(name)), candidates = [], found = new Map();
    for (let number = Math.max(this.begin, route.beganBefore(last)); number <= last; number++) {
      const row = this.rowOf(number), ms = columns.timeMs(row);
      if (ms >= endMs - endsBeforeMs - windowMs && keys.every((field) => columns.valid[field.number][row]) && passes(row) && !route.hasForgotten(number, ms, last)) candidates.push({ number, row, ms });
    }
    const reached = this._reached(candidates, route.keyGroupsOf(columns, candidates.map(({ row }) => row)), keys), horizon = reached - route.widestAt(last) - route.engine.lateMs, since = Math.max(0, ...rule.conditions[0].of.needs.map((name) => route.keptSince.get(name) ?? 0));
    for (const { number, row, ms } of candidates) {
      if (ms > endMs || ms < horizon || number < since || !keys.every((field) => columns.isSame(field, row, endRow))) continue;
      const name = `${ms} ${columns.idJson(row)}`;
      if (!found.has(name)) found.set(name, number);
    }
    return this._inside([...found.values()], last, rule.conditions[0].of);
  }

  /** Of numbers in order of arrival those in a window: lab.model.aggregation; the own one is shown in any case. */
  _inside(numbers, last, { endsBeforeMs, sessionGapMs, lastEvents, excludes }) {
    const timeOf = (number) => this.columns.timeMs(this.rowOf(number)), end = timeOf(last) - endsBeforeMs;
    const inTime = numbers.filter((number) => timeOf(number) <= end).sort((a, b) => timeOf(a) - timeOf(b));
    const begin = sessionGapMs ? inTime.findLastIndex((number, n) => n && timeOf(number) - timeOf(inTime[n - 1]) > sessionGapMs) : 0;
    const kept = new Set([...inTime.slice(Math.max(begin, 0)).filter((number) => !(excludes && number === last)).slice(-lastEvents), last]);
    return numbers.filter((number) => kept.has(number));
  }

  /** The time that the last one's group, or its key-group, has reached: lab.model.horizon. */
  _reached(candidates, keyGroups, keys) {
    const newest = new Map(), own = new Map(), groupOf = (row) => JSON.stringify(keys.map((field) => this.columns.text(field, row))), ownGroup = groupOf(candidates.at(-1).row);
    candidates.forEach(({ row, ms }, n) => {
      if (keyGroups[n] !== keyGroups.at(-1)) return;
      const group = groupOf(row);
      newest.set(group, Math.max(ms, newest.get(group) ?? -Infinity));
      if (group === ownGroup) own.set(`${ms} ${this.columns.idJson(row)}`, ms);
    });
    return Math.max(...[newest, own].map((times) => timeReached([...times.values()].sort((a, b) => b - a))));
  }
}

/** What the page shows of the window behind the alert at event `last`: see lab.widgets.alertwindow. */
function windowBehind({ past, schema, book, routes }, { ruleId, last, aggregate, limit, conditions, firstHolding }) {
  const rule = book.rules.get(BigInt(ruleId)), kept = past.end - past.begin, route = [...routes.values()].find(({ rules }) => rules.includes(rule));
  const arrived = rule && !rule.absent ? past.window(rule, last, route) : [];
  const about = { meaning: rule?.summary, absence: Boolean(rule?.absent), kept, events: arrived.length };
  if (!arrived.length) return about;
  const { columns } = past, [{ of }] = rule.conditions, needed = [...of.unique, of.field].filter((name) => name !== null).map((name) => schema.byName.get(name));
  const isWhere = of.where ? truthOf(of.where, columns) : () => true, counts = (number) => needed.every((field) => columns.valid[field.number][past.rowOf(number)]) && isWhere(past.rowOf(number));
  let counted = arrived;
  const isOfRule = conditions.length === rule.conditions.length, first = isOfRule ? conditions[0] : { aggregate, limit };
  if (of.function === "COUNT_WITH_RESET") {
    const counting = arrived.filter((number) => counts(number) && !(of.excludes && number === last));
    counted = counting.slice(Math.max(counting.length - Number(first.aggregate), 0));
  } else if (!rule.isPlain) counted = arrived.filter((number) => counts(number) && !(of.excludes && number === last));
  const inTime = (numbers) => numbers.map((number) => ({ number, ms: columns.timeMs(past.rowOf(number)) })).sort((a, b) => a.ms - b.ms);
  const amount = schema.byName.get(of.field), ofAmount = LAYOUT.running[of.function].of === "field", isCounted = new Set(counted);
  const bars = inTime(arrived).map(({ number, ms }) => ({ ms, height: ofAmount ? Number(columns.text(amount, past.rowOf(number)) ?? 0) : 1, counts: isCounted.has(number), own: number === last }));
  const { soFar, total } = buildingUp(of, inTime(counted), counts, past, book), step = Math.ceil(bars.length / MOST_BARS);
  return {
    ...about, total, soFar, step, bars: step > 1 ? highest(bars, step) : bars, counted: counted.length, isPlain: rule.isPlain, first, condition: isOfRule && firstHolding ? rule.conditions[firstHolding].text : null, aggregation: of.text, window: of.window,
    amount: ofAmount ? of.field : null, ...listed(rule, inTime(counted).slice(-MOST_LISTED).reverse().map(({ number }) => past.rowOf(number)), columns),
  };
}

/** Of each `step` bars the highest, or the alert's own. */
function highest(bars, step) {
  const found = [];
  for (let n = 0; n < bars.length; n += step) found.push(bars.slice(n, n + step).reduce((best, bar) => (bar.own || (!best.own && bar.height > best.height) ? bar : best)));
  return found;
}

/** The aggregate over the first event, the first two, …, of many events only about MOST_POINTS of these; `total`: over all, as an alert shows it. */
function buildingUp(of, events, counts, past, book) {
  const { power } = LAYOUT.running[of.function], { columns } = past, { byName } = columns.schema, field = byName.get(of.field), step = Math.ceil(events.length / MOST_POINTS);
  const different = new Set(), times = [], measured = [], takeStep = of.steps && stepsTaken(of.steps, columns);
  let n = 0n, sum = 0n, squares = 0n, low = null, high = null;
  events.forEach(({ number, ms }, place) => {
    const row = past.rowOf(number);
    if (counts(number)) {
      n++;
      takeStep?.(row);
      if (of.unique.length) different.add(JSON.stringify(of.unique.map((name) => columns.text(byName.get(name), row))));
      if (power) {
        const value = columns.value(field, row);
        sum += value;
        squares += value * value;
        low = low === null || value < low ? value : low;
        high = high === null || value > high ? value : high;
      }
    }
    if ((events.length - 1 - place) % step || n === 0n) return;
    const measures = {
      SUM: [sum, 1n], AVG: [sum, n], MIN: [low, 1n], MAX: [high, 1n], VARIANCE: [n * squares - sum * sum, n * n], STDDEV: [n * squares - sum * sum, n * n], UNIQUE_COUNT: [BigInt(different.size), 1n], SEQUENCE: [BigInt(takeStep?.() ?? 0), 1n],
    };
    measured.push(measures[of.function] ?? [n, 1n]);
    times.push(ms);
  });
  const values = book.reported(of, measured);
  return { soFar: values.map((value, place) => ({ ms: times[place], value: Number(value) })), total: values.at(-1) ?? (power ? null : "0") };
}

/** Follows a sequence: takes an event in, and gives how many steps have been taken. */
function stepsTaken({ taken, without }, columns) {
  const isStep = taken.map((step) => truthOf(step, columns)), ends = without ? truthOf(without, columns) : () => false, reached = taken.map(() => false);
  return (row) => {
    if (row !== undefined && ends(row)) reached.fill(false);
    else if (row !== undefined) for (let step = taken.length - 1; step >= 0; step--) if (isStep[step](row) && (step === 0 || reached[step - 1])) reached[step] = true;
    return reached.filter(Boolean).length;
  };
}

/** Events as rows of a table, with the columns' names: what the rule looks at comes first. */
function listed(rule, rows, columns) {
  const { schema } = columns, { time } = schema, known = new Set([...schema.id_fields, time.name]);
  const names = [...new Set([...rule.fields, ...schema.fields.map((field) => field.name).filter((name) => !known.has(name))])], fields = names.map((name) => schema.byName.get(name));
  const cell = (field, row) => { const text = columns.text(field, row); return text === null ? "–" : field.precision ? thousands(text) : text; };
  return { names, numeric: fields.map((field) => field.numeric), rows: rows.map((row) => [columns.idText(row), columns.timeMs(row), ...fields.map((field) => cell(field, row))]) };
}
