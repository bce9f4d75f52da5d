// A schema for somebody's own events, by the beginning of their file: JSON lines, or CSV with a header. In short what `lab infer` does.
"use strict";

const TIME_WORDS = /time|date|timestamp|_at$|At$|^ts$|^at$/i, ID_WORDS = /id$|^id|uuid|key|number/i;
const SAMPLE = 5000, MOST_FIELDS = 60, MOST_DEEP = 3;
const OTHER_NUMBER = /^[+(−-]?\s?[€$£¥₩]?\s?\d[\d.,'’ ]*\d?\s?(?:[€$£¥₩%]|[A-Z]{3})?[)−-]?$/, PADDED = /^[+-]?0\d/;
const UNITS = [["s", 1e9, 5e9], ["ms", 1e12, 5e12], ["us", 1e15, 5e15], ["ns", 1e18, 5e18]];

/**
 * What the beginning of a file says of its events: {schema, ids, times, skip, lines, texts}, `skip` bytes of a header, `lines` that are
 * JSON objects, `texts` the names of texts that look like numbers. Throws a Bad.
 */
function inferred(name, text, whole) {
  const lines = text.split("\n").slice(0, SAMPLE + 1);
  if (!whole) lines.pop();
  const first = lines.find((line) => line.trim()) ?? "";
  const csv = !/^\ufeff?\s*[{[]/.test(first);
  if (/^\ufeff?\s*\[/.test(first)) throw new Bad(say("The file is one JSON list; expected one record per line: jq -c '.[]' makes lines of it."));
  const found = csv ? ofCsv(lines) : ofJson(lines);
  if (!found.records) throw new Bad(say("No record could be read; expected JSON, one object per line, or CSV with a header."));
  const names = new Set(), fields = [...found.columns].slice(0, csv ? found.columns.size : MOST_FIELDS).map(([path, values]) => fieldFor(JSON.parse(path), values, names, csv));
  const complete = fields.filter(({ values }) => values.length === found.records);
  const times = complete.filter(({ field }) => field.type === "time").sort((a, b) => TIME_WORDS.test(b.field.name) - TIME_WORDS.test(a.field.name));
  if (!times.length) throw new Bad(say("No event time: no field of all records is a time, as ISO 8601 text or as a number of s, ms, us or ns since the epoch."));
  const ids = complete.filter(({ field, values }) => ["long", "string"].includes(field.type) && new Set(values.map(String)).size === values.length)
    .sort((a, b) => ID_WORDS.test(b.field.name) - ID_WORDS.test(a.field.name));
  const line = { name: fields.some(({ field }) => field.name === "line") ? "line.number" : "line", type: "long", virtual: true };
  const schema = {
    name: name.replace(/[^\w.-]/g, "_").slice(0, 60), fields: [...fields.map(({ field }) => field), ...(csv ? [] : [line])],
    id_fields: [ids[0]?.field.name ?? line.name], time_field: times[0].field.name, records: csv ? "csv" : "json", nan: "null", delimiter: found.delimiter,
  };
  if (csv && !ids.length) throw new Bad(say("No id: no column has a different value in each row."));
  return { schema, ids: [...ids.map(({ field }) => field.name), ...(csv ? [] : [line.name])], times: times.map(({ field }) => field.name), skip: found.skip ?? 0, lines: found.lines ?? [], texts: fields.filter(({ field, values }) => field.type === "string" && looksLikeNumbers(values)).map(({ field }) => field.name) };
}

function ofJson(all) {
  const columns = new Map(), lines = [];
  let records = 0;
  const add = (path, value) => {
    if (value instanceof Map && path.length < MOST_DEEP) { for (const [name, inside] of value) add([...path, name], inside); return; }
    if (value === null || value instanceof Map || Array.isArray(value)) return;
    const key = JSON.stringify(path);
    if (!columns.has(key)) columns.set(key, []);
    columns.get(key).push(value);
  };
  for (const each of all) {
    const line = each.replace(/^\ufeff/, "");
    let record;
    try { record = line.trim() ? readJson(line) : null; } catch { record = null; }
    if (!(record instanceof Map)) continue;
    records++;
    lines.push(line);
    add([], record);
  }
  return { columns, records, lines };
}

function ofCsv(lines) {
  const header = lines[0] ?? "", delimiter = [",", ";", "\t", "|"].reduce((best, each) => (header.split(each).length > header.split(best).length ? each : best));
  const names = readCsv(header.replace(/^\ufeff|\r$/g, ""), delimiter), columns = new Map(names.map((name, n) => [JSON.stringify([name || `column ${n + 1}`]), []]));
  const lists = [...columns.values()];
  let records = 0;
  for (const line of lines.slice(1)) {
    if (!line.trim()) continue;
    let cells;
    try { cells = readCsv(line.replace(/\r$/, ""), delimiter); } catch { continue; }
    if (cells.length !== names.length) continue;
    records++;
    cells.forEach((cell, n) => { if (cell !== "") lists[n].push(cell); });
  }
  return { columns, records, delimiter, skip: encoder.encode(header).length + 1 };
}

/** Whether texts are numbers as people write them, such as 12,50 or € 3: with a comma, a currency or a minus behind. */
const looksLikeNumbers = (values) => values.length > 0 && values.every((text) => text.length < 60 && (DECIMAL_TEXT.test(text) || OTHER_NUMBER.test(text)))
  && values.some((text) => !DECIMAL_TEXT.test(text) && !/^\d+([ .]\d+){2,}$/.test(text));

/** A field for the values that were found at a path. */
function fieldFor(path, values, names, csv) {
  let name = path.at(-1).replace(/[^\p{L}\p{N}_.-]/gu, "_").slice(0, 100) || "field";
  for (let n = 2; names.has(name); n++) name = `${path.join(".").replace(/[^\p{L}\p{N}_.-]/gu, "_").slice(0, 90)}${n > 2 ? n : ""}`;
  names.add(name);
  const texts = values.map((value) => (value instanceof Literal ? value.text : String(value)));
  const typed = (type, unit = "") => ({ field: { name, type, unit, path }, values: texts });
  if (!values.length) return typed("string");
  for (const unit of ["iso", "utc"]) if (values.every((value) => timeMs(value, unit) !== null) && (TIME_WORDS.test(name) || texts.some((text) => text.length > 10))) return typed("time", unit);
  const decimal = texts.every((text) => DECIMAL_TEXT.test(text)), literal = values.every((value) => value instanceof Literal);
  const pointed = decimal && texts.some((text) => text.includes(".")), coded = !pointed && texts.some((text) => PADDED.test(text));
  const numbers = decimal && !coded && (csv || literal || pointed || TIME_WORDS.test(name));
  if (numbers) {
    const range = texts.map(Number), about = TIME_WORDS.test(name);
    const [unit] = UNITS.find(([, low, high]) => range.every((number) => number >= low && number < high)) ?? [];
    if (unit && (about || unit !== "s")) return typed("time", unit);
    if (texts.every((text) => /^[+-]?\d{1,19}$/.test(text) && BigInt.asIntN(64, BigInt(text)) === BigInt(text))) return typed(csv || literal ? "long" : "string");
    if (texts.some((text) => /^[+-]?\d{19,}/.test(text))) return typed("string");
    const digits = Math.max(...texts.map((text) => (/\.(\d+)/.exec(text)?.[1] ?? "").length));
    return typed(`decimal(18,${Math.min(Math.max(digits, 2), 9)})`);
  }
  return typed(values.every((value) => typeof value === "boolean") ? "boolean" : "string");
}
