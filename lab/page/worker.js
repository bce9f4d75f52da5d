// The engine beside the page: plays a stream or a file through it, and reports to the page a few times a second what came out.
"use strict";

const SLICE_MS = 20, REPORT_MS = 250, MOST_REPORTED = 200, CHUNK = 1 << 20;
const STREAM_LATE_MS = 10000; // the simulated events are out of order by less; of a file nobody knows
const state = { engine: null, stream: null, file: null, paused: false, fast: false, alerts: [], letters: [], samples: [], ended: false, began: 0 };

onmessage = async ({ data }) => {
  if (data.kind === "open") await open(data);
  else if (data.kind === "control") control(data.text, true);
  else if (data.kind === "window") postMessage({ kind: "window", key: data.key, found: windowBehind(state.engine, data.alert) });
  else if (data.kind === "burst") state.stream?.burst(data.name);
  else if (data.kind === "set") {
    Object.assign(state, data.values);
    if (data.rate && state.stream) state.stream.rate = data.rate;
    state.due = null;
  }
};

async function open({ wasm, schema, rules, rate, file, skip }) {
  state.engine = new Engine(await WebAssembly.compile(wasm), schemaOf(schema), { mostAlerts: MOST_REPORTED, ...(file ? {} : { lateMs: STREAM_LATE_MS }) });
  for (const rule of rules) control(rule, false);
  if (file) state.file = { blob: file, at: skip, rest: new Uint8Array(0), size: file.size };
  else state.stream = new Payments(rate, Date.now());
  loop();
}

function control(text, answered) {
  const ack = state.engine.control(text);
  if (!answered) return;
  report(); // so that the page shows what is accepted when it says so
  postMessage({ kind: "ack", ack });
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
  state.began ||= now;
  const fates = { duplicates: 0, droppedLate: 0 };
  for (const route of engine.routes.values()) for (const name in fates) fates[name] += route.counts[name];
  postMessage({
    kind: "state", counts: { ...engine.counts, ...fates }, stored: engine.stored, bytes: engine.memory.memory.buffer.byteLength, perSecond, now: Date.now(), ended: state.ended,
    progress: state.file ? Math.min(state.file.at / state.file.size, 1) : null, fired: engine.fired, suppressed: engine.suppressed, alerts: state.alerts.splice(0), letters: state.letters.splice(0),
    rules: engine.book.sorted().map((rule) => ({ id: String(rule.id), version: rule.version, state: rule.state, summary: summary(rule) })),
  });
}
