// `absence`: what has not come when its time has passed in the log, which is here the newest event time. lab.model.reference.
"use strict";

/** What the rules in force that say `absence` await. `found(wait)` is called for what never came. */
class Waits {
  constructor() {
    // waits are {rule, group, until, number, over, alert}
    this.byGroup = new Map(); // rule id and group -> waits
    this.ending = new Map(); // rule id -> waits, those first that end first
    this.number = 0;
  }

  /** Only the waits of these rules go on: one that leaves the shadow is the same. */
  change(rules) {
    const nameOf = ({ id, version }) => `${id}.${version}`, same = new Set(rules.map(nameOf)), kept = [...this.ending.values()].flat().filter((wait) => !wait.over && same.has(nameOf(wait.rule))).sort((a, b) => a.number - b.number);
    this.byGroup.clear();
    this.ending.clear();
    for (const wait of kept) this._keep(wait);
  }

  _keep(wait) {
    const { rule, group } = wait, name = `${rule.id} ${group}`;
    if (!this.byGroup.has(name)) this.byGroup.set(name, []);
    this.byGroup.get(name).push(wait);
    if (!this.ending.has(rule.id)) this.ending.set(rule.id, []);
    this.ending.get(rule.id).push(wait);
  }

  /** An event that counts ends what is awaited in its group. */
  end(rule, group) {
    const name = `${rule.id} ${group}`;
    for (const wait of this.byGroup.get(name) ?? []) wait.over = true;
    this.byGroup.delete(name);
  }

  begin(rule, group, newest, alert) { this._keep({ rule, group, until: newest + rule.reachMs, number: this.number++, over: false, alert }); }

  /** Time has come to `newest`, ms. */
  reach(newest, found) {
    const due = [];
    for (const waiting of this.ending.values()) {
      let n = 0;
      for (; n < waiting.length && (waiting[n].over || waiting[n].until < newest); n++) if (!waiting[n].over) due.push(waiting[n]);
      waiting.splice(0, n);
    }
    for (const wait of due.sort((a, b) => a.number - b.number)) {
      wait.over = true;
      const name = `${wait.rule.id} ${wait.group}`, others = this.byGroup.get(name).filter((other) => other !== wait);
      if (others.length) this.byGroup.set(name, others); else this.byGroup.delete(name);
      found(wait);
    }
  }
}
