// The window behind an alert: a sentence about it, its picture, and its events. lab.widgets.alertwindow.
"use strict";

const WIDE = 400, HIGH = 190, LEFT = 4, RIGHT = 396, TOP = 20, BOTTOM = 168;

/** The place where the window behind an alert is shown, as soon as the worker has found it. */
function openWindow(alert) {
  const place = make("div", { class: "lab-window" });
  ask("window", alert).then((found) => place.replaceChildren(...(found.events ? [statusLine(explain(alert, found)), ...picture(alert, found), tableOf(found)] : alone(alert, found))));
  return place;
}

/** Explains the picture and any difference from what the engine saw. */
function explain(alert, { meaning, events, counted, window, aggregation, isPlain, resets, first, condition, total, step, most }) {
  const sentences = [say("{rule}: {count} events in the window of {window} that ends with event {event}, group {group}. The alert's value was {value}.",
    { rule: meaning, count: events, window, event: alert.eventId, group: alert.key, value: alert.aggregate === null ? say("no value") : thousands(alert.aggregate) })];
  if (condition) sentences.push(say("This is the value of {condition}. The picture shows the first condition's aggregate, {aggregation}: {value}.", { condition, aggregation, value: first.aggregate === null ? say("no value") : thousands(first.aggregate) }));
  if (!isPlain || counted < events && !resets) sentences.push(say("Of them {count} count for {aggregation}.", { count: counted, aggregation }));
  else if (counted < events) sentences.push(say("The first {count}, in grey, no longer count: the rule alerted on them and reset its count.", { count: events - counted }));
  if (step > 1) sentences.push(say("The picture shows of each {count} events the one with the highest bar.", { count: step }));
  if (total === first.aggregate) return sentences.join(" ");
  sentences.push(most ? say("The window may have more events: of the newest {count} in memory it has these.", { count: number(most) }) : total === null ? say("These events give no value: the rule or its window has changed since, or some of the events are no longer in memory.")
    : say("These events give {value}: the rule or its window has changed since, or some of the events are no longer in memory.", { value: thousands(total) }));
  return sentences.join(" ");
}

/** An alert whose window cannot be shown: what is known of its group. */
function alone(alert, { meaning, absence, kept }) {
  const of = { event: alert.eventId, group: alert.key };
  const gone = !meaning ? say("Rule {id} was deleted, so its windows are unknown.", { id: alert.ruleId })
    : absence ? say("{rule}: after event {event} of group {group} none came in time.", { rule: meaning, ...of })
      : say("Event {event} is no longer in memory, which keeps the newest {kept}, so the window of group {group} cannot be drawn.", { kept: number(kept), ...of });
  const others = room.alerts.filter((other) => other.ruleId === alert.ruleId && other.key === alert.key).slice(-SHOWN_ALERTS).reverse(), last = { time: utc(alert.eventTime), count: others.length };
  const below = absence ? say("The event was at {time} UTC. Below are the last {count} alerts of this rule and group.", last)
    : say("The alert was {values} at {time} UTC. Below are the last {count} alerts of this rule and group.", { values: measuredText(alert), ...last });
  return [statusLine(`${gone} ${below}`), plainTable(say("Alerts of this rule and group, newest first"), [say("event"), say("value"), say("time (UTC)")], [false, true, false], others.map((other) => [other.eventId, measuredText(other), utc(other.eventTime)]))];
}

/** A bar for each event, the first condition's aggregate so far as a line, and its limit; what is what stands above. */
function picture(alert, { bars, soFar, amount, resets, first: { limit: bound }, total }) {
  const limit = Number(bound ?? 0), heights = [0, limit, ...bars.map((bar) => bar.height), ...soFar.map(({ value }) => value)], low = Math.min(...heights), high = Math.max(...heights);
  const [begin, last] = [bars[0].ms, bars.at(-1).ms], wide = Math.max(1.5, Math.min(10, (RIGHT - LEFT) / bars.length - 1)), inside = RIGHT - LEFT - wide;
  const x = (ms) => LEFT + wide / 2 + (last > begin ? (inside * (ms - begin)) / (last - begin) : inside / 2), y = (value) => BOTTOM - ((BOTTOM - TOP) * (value - low)) / (high - low || 1);
  const drawn = svg("svg", { viewBox: `0 0 ${WIDE} ${HIGH}`, role: "img", "aria-label": say("The events of the window, their aggregate and the limit. The table below has the events.") });
  const bar = ({ ms, height, counts, own }) => svg("rect", { class: own ? "own" : counts ? "each" : "faint", x: x(ms) - wide / 2, width: wide, y: y(Math.max(height, 0)), height: Math.max(Math.abs(y(height) - y(0)), 1) });
  const text = (x, y, inside, anchor = "start") => { const made = svg("text", { x, y, "text-anchor": anchor }); made.textContent = inside; return made; };
  const time = utcTimes([begin, last]), reset = resets ? bars.filter((each) => !each.counts).at(-1) : null;
  drawn.append(...[...bars].sort((one, other) => one.own - other.own).map(bar), svg("path", { class: "axis", d: `M${LEFT} ${y(0)}H${RIGHT}` }));
  if (reset) drawn.append(svg("path", { class: "reset", d: `M${x(reset.ms)} ${TOP}V${BOTTOM}` }));
  drawn.append(svg("path", { class: "line", d: soFar.map(({ ms, value }, n) => (n ? `H${x(ms)}V${y(value)}` : `M${x(ms)} ${y(value)}`)).join("") }), ...soFar.map(({ ms, value }) => svg("circle", { cx: x(ms), cy: y(value), r: 2 })));
  if (bound !== null) drawn.append(svg("path", { class: "limit", d: `M${LEFT} ${y(limit)}H${RIGHT}` }), text(LEFT, Math.max(y(limit) - 4, 10), thousands(bound)));
  if (soFar.length) drawn.append(text(RIGHT, Math.max(y(soFar.at(-1).value) - 6, 10), thousands(total), "end"));
  drawn.append(text(LEFT, HIGH - 5, time(begin)), ...(last > begin ? [text(RIGHT, HIGH - 5, time(last), "end")] : []));
  const key = (name, called) => make("span", {}, make("i", { class: name }), called), each = `${say("each event")}${amount ? `: ${visible(amount)}` : ""}`;
  return [make("div", { class: "lab-key" }, key("each", each), key("own", say("the alert's event")), key("line", say("aggregate so far")), key("limit", say("limit")), ...(reset ? [key("reset", say("reset"))] : [])), drawn];
}

function svg(kind, attributes) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", kind);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, typeof value === "number" ? value.toFixed(1) : value);
  return made;
}

/** Times as texts, without the day if it is the same for all. */
function utcTimes(times) {
  const days = new Set(times.map((ms) => utc(ms).slice(0, 10)));
  return (ms) => utc(ms).slice(days.size > 1 ? 0 : 11);
}

function tableOf({ names, numeric, rows }) {
  const time = utcTimes(rows.map(([, ms]) => ms)), columns = [say("event"), say("time (UTC)"), ...names.map(visible)];
  return plainTable(say("Events in the window, newest first"), columns, [true, false, ...numeric], rows.map(([id, ms, ...values]) => [id, time(ms), ...values]));
}

function plainTable(label, columns, numeric, rows) {
  const cells = (kind, texts, more = {}) => make("tr", {}, ...texts.map((text, n) => make(kind, { class: numeric[n] ? "number" : "", ...more }, visible(text))));
  const table = make("table", {}, make("thead", {}, cells("th", columns, { scope: "col" })), make("tbody", {}, ...rows.map((row) => cells("td", row))));
  return make("div", { class: "lab-table lab-plain", role: "region", tabIndex: 0, "aria-label": label }, table);
}
