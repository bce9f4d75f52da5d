// A seeded stream of payments, as lab.stream.simulate makes them: ordinary ones, and bursts that the first rules catch.
"use strict";

const BURSTS = { // what its payments share, how many, their total in hundredths
  pair: { shared: ["payeeId", "beneficiaryId"], payments: 3, total: 2100000000 },
  beneficiary: { shared: ["beneficiaryId"], payments: 12, total: 1050000000 },
  surge: { shared: ["paymentType"], payments: 120, total: 0 },
};
const BURST_MS = 2000, BURST_EVERY_MS = 10000, DISORDER_MS = 2000, ODD_SHARE = 0.03;

class Payments {
  constructor(rate, startMs, seed = 1) {
    Object.assign(this, { rate, now: startMs, id: 0, newest: 0, waiting: [], nextBurst: startMs + BURST_EVERY_MS, kinds: Object.keys(BURSTS), planted: 0 });
    this._state = seed;
  }

  /** A random number from 0 to below `end` (mulberry32). */
  random(end) {
    let t = (this._state = (this._state + 0x6d2b79f5) | 0);
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return Math.floor((((t ^ (t >>> 14)) >>> 0) / 4294967296) * end);
  }

  _payment() {
    return { payeeId: this.random(100000), beneficiaryId: this.random(100000), paymentType: this.random(2) ? "CSH" : "CRD", cents: 500 + this.random(1501) };
  }

  burst(kind) {
    const { shared, payments, total } = BURSTS[kind], first = this._payment();
    const count = kind === "surge" ? Math.max(payments, Math.ceil(1.2 * this.rate)) : payments;
    for (let n = 0; n < count; n++) {
      const payment = this._payment();
      for (const name of shared) payment[name] = first[name];
      if (total) payment.cents = Math.ceil((total / count) * (0.95 + this.random(1000) / 10000));
      this.waiting.push({ at: this.now + (BURST_MS * n) / count, payment });
    }
    this.waiting.sort((a, b) => a.at - b.at);
    this.planted++;
  }

  /** The next ordinary events, so many, and what was planted up to then, as bytes of JSON lines. */
  lines(count) {
    const lines = [];
    for (let n = 0; n < count; n++) {
      this.now += 1000 / this.rate;
      if (this.now >= this.nextBurst) {
        this.nextBurst += BURST_EVERY_MS;
        this.burst(this.kinds[this.planted % this.kinds.length]);
      }
      while (this.waiting.length && this.waiting[0].at <= this.now) lines.push(this._line(this.waiting.shift().payment));
      lines.push(this._line(this._payment()));
    }
    return encoder.encode(lines.join("\n"));
  }

  _line(payment) {
    const odd = this.random(100000) / 100000;
    let time = Math.floor(this.now);
    if (odd < ODD_SHARE && this.newest) time = this.newest - 1 - this.random(DISORDER_MS);
    this.newest = Math.max(this.newest, time);
    const { payeeId, beneficiaryId, paymentType, cents } = payment, hundredths = String(cents % 100).padStart(2, "0");
    return `{"transactionId":${++this.id},"eventTime":${time},"payeeId":${payeeId},"beneficiaryId":${beneficiaryId},"paymentType":"${paymentType}","paymentAmount":${Math.floor(cents / 100)}.${hundredths}}`;
  }
}
