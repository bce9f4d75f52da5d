// The engine beside the page: plays a stream or a file through it, and reports to the page a few times a second what came out.
"use strict";

const SLICE_MS = 20, REPORT_MS = 250, MOST_REPORTED = 100, CHUNK = 1 << 20;
const STREAM_LATE_MS = 10000; // the simulated events are out of order by less; of a file nobody knows
const state = { engine: null, wasm: null, python: null, number: 0, stream: null, file: null };
let FILES = {}, front = null, done = Promise.resolve(); // what Pyodide reads; the module lab.page.front; when the last message is answered

/** Answers to what the page asks. */
const answers = {
  judge: (text, id, ruleState) => JSON.parse(state.engine.book.python.judge(text, id, ruleState)),
  inferred: (name, bytes, whole, known) => JSON.parse(state.python.pyimport("lab.page.inference").inferred(name, bytes, whole, JSON.stringify(known))),
  listCondition: (...given) => JSON.parse(state.engine.book.python.condition_on_list(...given)),
  derived: (schema, text) => JSON.parse(front.with_derived(JSON.stringify(schema), text)),
  schemaFile: (text) => JSON.parse(front.schema_of_file(text)),
  window: (alert) => windowBehind(state.engine, alert),
};
const carriesOut = {
  start,
  open,
  control: ({ text, number }) => {
    const ack = state.engine.control(text);
    report(); // so that the page shows what is accepted when it says so
    postMessage({ kind: "ack", ack, number });
  },
  ask: ({ number, name, given }) => postMessage({ kind: "answer", number, answer: answers[name](...given) }),
  burst: ({ name }) => state.stream?.burst(name),
  set: ({ values, rate }) => {
    Object.assign(state, values, { due: null });
    if (rate && state.stream) state.stream.rate = rate;
  },
};

onmessage = ({ data }) => { done = done.then(() => carriesOut[data.kind](data)).catch((error) => setTimeout(() => { throw error; })); };

/** Starts Python and compiles the loop, each of which came packed, as text. */
async function start({ loop: module, python }) {
  FILES = Object.fromEntries(Object.entries(python).map(([name, text]) => [name, unpacked(text)]));
  const lockFileContents = JSON.parse(textDecoder.decode(await FILES["pyodide-lock.json"]));
  const [lab, wasm, pyodide] = await Promise.all([
    FILES["kit.zip"], WebAssembly.compile(bytesOf(module)), loadPyodide({ indexURL: "file:///", createPyodideModule: _createPyodideModule, lockFileContents }),
  ]);
  pyodide.FS.writeFile("/kit.zip", lab);
  pyodide.runPython("import sys; sys.path.insert(0, '/kit.zip')");
  front = pyodide.pyimport("lab.page.front");
  Object.assign(state, { wasm, python: pyodide });
}

/** Begins anew with some rules; if one of them is none, with the others; and with messages that changed lists, of rules that may be gone. */
function open({ number, schema, rules, otherRules, lists, rate, file, skip }) {
  const of = schemaOf(schema), settings = { mostAlerts: MOST_REPORTED, ...(file ? {} : { lateMs: STREAM_LATE_MS }) };
  const begins = (given) => {
    state.engine = new Engine(state.wasm, of, settings);
    return given.every((rule) => state.engine.control(rule).status === "accepted");
  };
  if (!begins(rules)) begins(otherRules);
  for (const each of lists) state.engine.control(each);
  const isFirst = !state.number;
  Object.assign(state, { number, paused: false, fast: false, alerts: [], letters: [], samples: [], ended: false, lists: -1, due: null, file: null, stream: null });
  if (file) state.file = { blob: file, at: skip, rest: new Uint8Array(0), size: file.size };
  else state.stream = new Payments(rate, Date.now());
  if (isFirst) loop();
}

function take(bytes) {
  state.engine.take(bytes, (alert) => {
    state.alerts.push(alert);
    if (state.alerts.length > 2 * MOST_REPORTED) state.alerts.splice(0, MOST_REPORTED);
  }, (letter) => {
    state.letters.push({ reason: letter.reason, text: textDecoder.decode(letter.bytes) });
    if (state.letters.length > 2 * MOST_REPORTED) state.letters.splice(0, MOST_REPORTED);
  });
}
/** Judges what is due, for a slice of time, again and again; messages of the page come in between. */
async function loop() {
  const channel = new MessageChannel();
  const pause = (ms) => new Promise((go) => { if (ms) setTimeout(go, ms); else { channel.port1.onmessage = go; channel.port2.postMessage(0); } });
  let reportedAt = 0;
  for (;;) {
    const until = performance.now() + SLICE_MS;
    let worked = false;
    while (!state.paused && performance.now() < until) {
      const more = state.file ? await some() : due();
      if (!more) break;
      worked = true;
    }
    if (performance.now() - reportedAt >= REPORT_MS) { reportedAt = performance.now(); report(); }
    await pause(worked ? 0 : 20);
  }
}

/** What of the stream is due by now; whether there was some. */
function due() {
  if (state.fast) { take(state.stream.lines(ROWS)); return true; }
  const now = performance.now();
  state.due ??= { since: now, sent: 0 };
  const count = Math.min(Math.floor(((now - state.due.since) / 1000) * state.stream.rate) - state.due.sent, ROWS);
  if (count <= 0) return false;
  state.due.sent += count;
  take(state.stream.lines(count));
  return true;
}

/** The next part of the file, up to the end of a line; whether there was one. */
async function some() {
  const { file } = state;
  if (file.at >= file.size && !file.rest.length) { state.ended = true; return false; }
  file.next ??= chunk(file);
  const bytes = new Uint8Array(await file.next);
  if (state.file !== file) return false; // something else was opened meanwhile
  file.at += bytes.length;
  file.next = chunk(file); // comes while this one is judged
  const whole = new Uint8Array(file.rest.length + bytes.length);
  whole.set(file.rest);
  whole.set(bytes, file.rest.length);
  const tooLong = whole.length > 2 * MOST_LINE + CHUNK; // a line without an end, which is a dead letter anyway
  const end = file.at >= file.size || tooLong ? whole.length : whole.lastIndexOf(10) + 1;
  file.rest = whole.slice(end);
  take(whole.subarray(0, end));
  return true;
}

const chunk = ({ blob, at }) => blob.slice(at, at + CHUNK).arrayBuffer();

function report() {
  const { engine, samples } = state, now = performance.now(), { records } = engine.counts;
  if (records && (!state.ended || samples.at(-1)?.records !== records)) samples.push({ now, records }); // what went before the first event is no part of its rate
  while (samples.length > 2 && samples[1].now < now - 1000) samples.shift();
  const [first, last] = [samples[0], samples.at(-1)];
  const perSecond = last && !state.paused && !state.ended && last.now > first.now + REPORT_MS ? (1000 * (last.records - first.records)) / (last.now - first.now) : 0;
  const fates = { duplicates: 0, droppedLate: 0 };
  for (const route of engine.routes.values()) for (const name in fates) fates[name] += route.counts[name];
  const { listChanges } = engine.book, lists = state.lists === listChanges ? null : [...engine.book.lists.values()];
  state.lists = listChanges;
  postMessage({
    kind: "state", lists, number: state.number, counts: { ...engine.counts, ...fates }, stored: engine.stored, bytes: engine.memory.memory.buffer.byteLength, perSecond, now: Date.now(), ended: state.ended,
    progress: state.file ? Math.min(state.file.at / state.file.size, 1) : null, fired: engine.fired, inShadow: engine.inShadow, suppressed: engine.suppressed, alerts: engine.book.alerts(state.alerts.splice(0).slice(-MOST_REPORTED)), letters: state.letters.splice(0),
    rules: engine.book.sorted().map((rule) => ({ id: String(rule.id), version: rule.version, state: rule.state, summary: rule.summary, message: rule.message })),
  });
}
