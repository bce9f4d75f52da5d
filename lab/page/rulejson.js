// A rule as JSON, as the kit in Python writes it: a rule that would be too long so is refused. lab.model.rule.
"use strict";

/** The attributes of a rule as a message gives them, in ASCII. */
function ruleJson(rule) {
  const [first, ...more] = rule.conditions.map(conditionAttributes);
  return pythonJson({
    ruleId: rule.id, ruleState: rule.state, groupingKeyNames: rule.keys, filter: filterValue(rule.filter), ...first,
    [rule.joined ?? "and"]: more.length ? more : null, when: rule.when && whenText(rule.when),
    atMost: rule.atMost && { alerts: rule.atMost, per: durationCode(rule.perMs) }, absence: rule.absence || null,
    action: rule.action, ttl: rule.action && durationCode(rule.ttlMs), severity: rule.severity, title: rule.title,
    labels: rule.labels.length ? new Map(rule.labels) : null, eventFields: rule.eventFields.length ? rule.eventFields : null,
  });
}

const durationCode = (ms) => durationParts(ms).join("");

function conditionAttributes({ of, operator, limit, base, by, plus }) {
  const limitOf = base && { ...aggregationAttributes(base), dividedBy: by > 1n ? by : null, plus: plus ? exactValue(limitText(plus)) : null };
  return { ...aggregationAttributes(of), limitOperatorType: operator, limit: exactValue(limitText(limit)), limitOf };
}

function aggregationAttributes({ function: called, field, unique, windowMs, where, excludes }) {
  return {
    aggregateFieldName: field, aggregatorFunctionType: called, unique: unique.length ? unique : null, window: durationCode(windowMs),
    where: where && whenText(where), excludeCurrent: excludes || null,
  };
}

/** A filter as an object if it says which values fields must have, else in words. */
function filterValue(filter) {
  if (!filter || !isOfValues(filter)) return filter && whenText(filter);
  const valueOf = ({ numeric, scale }, value) => (numeric ? exactValue(plain(value, scale)) : value);
  return new Map((filter.all ?? [filter]).map(({ field, operand }) => [field.name, operand.values ? operand.values.map((value) => valueOf(field, value)) : valueOf(field, operand)]));
}

/** A whole number as one, another as text. */
const exactValue = (text) => (/\.0*[1-9]/.test(text) ? text : BigInt(text.replace(/\..*/, "")));

/** A value as `json.dumps` writes it; what is null inside an object is left out. */
function pythonJson(value) {
  if (typeof value === "string") return quoted(value);
  if (Array.isArray(value)) return `[${value.map(pythonJson).join(", ")}]`;
  if (typeof value !== "object") return String(value);
  const given = [...(value instanceof Map ? value : Object.entries(value))].filter(([, inner]) => inner !== null);
  return `{${given.map(([name, inner]) => `${quoted(name)}: ${pythonJson(inner)}`).join(", ")}}`;
}
