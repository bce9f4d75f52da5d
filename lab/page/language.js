// The reader's language: lab.model.language. The engine says everything in English.
"use strict";

const MOST_TRANSLATED = 2000; // characters of a text
const PLACEHOLDER = /\{(\w+)\}/;
const language = { words: {}, messages: [] }; // messages: {parts, translation}: a sentence, split at its placeholders, and its translation; the first that fits counts

function choose(words, messages) {
  Object.assign(language, { words, messages: Object.entries(messages).map(([sentence, translation]) => ({ parts: sentence.split(PLACEHOLDER), translation })) });
}

/** A sentence in the reader's language, with values for its named placeholders. */
const say = (sentence, values = {}) => (language.words[sentence] ?? sentence).replace(/\{(\w+)\}/g, (whole, name) => values[name] ?? whole);

/** What the engine said in English, in the reader's language: the sentence that fits, and the values in it, which may be such sentences. */
function translated(text) {
  if (text.length > MOST_TRANSLATED) return text;
  const same = language.messages.find(({ parts }) => parts.length === 1 && parts[0] === text);
  if (same) return same.translation;
  for (const { translation, parts } of language.messages) {
    const values = valuesIn(text, parts);
    if (values) return translation.replace(/\{(\w+)\}/g, (_, name) => translated(values[name]));
  }
  return text;
}

/** What a text has for each placeholder of a sentence, the shortest that fits; null if it is another sentence. */
function valuesIn(text, [begin, ...parts]) {
  if (!parts.length || !text.startsWith(begin)) return null;
  const values = {};
  let place = begin.length;
  for (let n = 0; n < parts.length; n += 2) {
    const [name, then] = parts.slice(n, n + 2), end = n + 2 < parts.length ? text.indexOf(then, place + 1) : text.length - then.length;
    const value = text.slice(place, end);
    if (end <= place || !text.startsWith(then, end) || (values[name] ??= value) !== value) return null;
    place = end + then.length;
  }
  return values;
}
