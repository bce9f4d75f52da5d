// A seeded stream of payments, as lab.stream.simulate makes them: ordinary ones, and bursts that the first rules catch.
"use strict";

const BURSTS = { // what its payments share, how many, their total in hundredths
  pair: { shared: ["payeeId", "beneficiaryId"], payments: 3, total: 2100000000 },
  beneficiary: { shared: ["beneficiaryId"], payments: 12, total: 1050000000 },
  surge: { shared: ["paymentType"], payments: 120, total: 0 },
};
const BURST_MS = 2000, BURST_EVERY_MS = 10000, DISORDER_MS = 2000, ODD_SHARE = 0.03;
const LONGEST = 256; // bytes of a line
const [ID_IS, TIME_IS, PAYER_IS, PAYEE_IS, TYPE_IS, AMOUNT_IS, END] = ['{"transactionId":', ',"eventTime":', ',"payeeId":', ',"beneficiaryId":', ',"paymentType":"', '","paymentAmount":', "}\n"].map((text) => encoder.encode(text));
const TYPES = ["CRD", "CSH"].map((text) => encoder.encode(text));

class Payments {
  constructor(rate, startMs, seed = 1) {
    Object.assign(this, { rate, now: startMs, id: 0, newest: 0, waiting: [], nextBurst: startMs + BURST_EVERY_MS, kinds: Object.keys(BURSTS), planted: 0 });
    this._state = seed;
    this.bytes = new Uint8Array(1 << 16);
    this.used = 0;
  }

  /** A random number from 0 to below `end` (mulberry32). */
  random(end) {
    let t = (this._state = (this._state + 0x6d2b79f5) | 0);
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return Math.floor((((t ^ (t >>> 14)) >>> 0) / 4294967296) * end);
  }

  _payment() {
    return { payeeId: this.random(100000), beneficiaryId: this.random(100000), paymentType: this.random(2), cents: 500 + this.random(1501) };
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
    this.used = 0;
    for (let n = 0; n < count; n++) {
      this.now += 1000 / this.rate;
      if (this.now >= this.nextBurst) {
        this.nextBurst += BURST_EVERY_MS;
        this.burst(this.kinds[this.planted % this.kinds.length]);
      }
      while (this.waiting.length && this.waiting[0].at <= this.now) this._line(this.waiting.shift().payment);
      this._line(this._payment());
    }
    return this.bytes.subarray(0, this.used);
  }

  /** Writes a payment as a line of bytes: texts would have to be made, joined and encoded. */
  _line({ payeeId, beneficiaryId, paymentType, cents }) {
    const odd = this.random(100000) / 100000;
    let time = Math.floor(this.now);
    if (odd < ODD_SHARE && this.newest) time = this.newest - 1 - this.random(DISORDER_MS);
    this.newest = Math.max(this.newest, time);
    if (this.used + LONGEST > this.bytes.length) {
      const grown = new Uint8Array(2 * this.bytes.length);
      grown.set(this.bytes);
      this.bytes = grown;
    }
    this._text(ID_IS);
    this._number(++this.id);
    this._text(TIME_IS);
    this._number(time);
    this._text(PAYER_IS);
    this._number(payeeId);
    this._text(PAYEE_IS);
    this._number(beneficiaryId);
    this._text(TYPE_IS);
    this._text(TYPES[paymentType]);
    this._text(AMOUNT_IS);
    this._number(Math.floor(cents / 100));
    this.bytes[this.used++] = POINT;
    this.bytes[this.used++] = ZERO + (Math.floor(cents / 10) % 10);
    this.bytes[this.used++] = ZERO + (cents % 10);
    this._text(END);
  }

  _text(text) {
    const { bytes, used } = this;
    for (let n = 0; n < text.length; n++) bytes[used + n] = text[n];
    this.used += text.length;
  }

  /** Writes a whole number that is not negative; in parts that are small integers, with which the machine is fast. */
  _number(value) {
    if (value >= 1e9) {
      const millions = Math.floor(value / 1e6);
      this._number(millions);
      this._digits(value - 1e6 * millions, 6);
      return;
    }
    let count = 1;
    for (let least = 10; value >= least; least *= 10) count++;
    this._digits(value, count);
  }

  _digits(value, count) {
    const { bytes } = this;
    let rest = value | 0, at = this.used + count;
    for (let n = 0; n < count; n++) {
      const tenth = (rest / 10) | 0;
      bytes[--at] = ZERO + rest - 10 * tenth;
      rest = tenth;
    }
    this.used += count;
  }
}
