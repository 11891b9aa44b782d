// Moves string literals of the core's memory into the module whose functions alone use them. The linker has
// put all literals into one run of texts, where equal ones are merged and one may be the end of another.

import { readFileSync, writeFileSync } from 'node:fs';
import { addLiterals } from './wasm_literals.mjs';
import { readData, withData } from './wasm_sections.mjs';

/** Texts with the addresses of their first characters and terminators. */
function readTexts({ offset, bytes }) {
  const texts = [];
  for (let at = 0, end; (end = bytes.indexOf(0, at)) >= 0; at = end + 1) {
    const text = bytes.subarray(at, end).toString('latin1');
    texts.push({ start: offset + at, end: offset + end, text });
  }
  return texts;
}

/**
 * The longest run of possible texts: the linker leaves nothing in between. Its ends may belong to neighboring
 * data.
 */
function longestRun(texts, isText) {
  let longest = [];
  let run = [];
  for (const entry of texts) {
    if (!isText(entry.text)) run = [];
    else if (run.push(entry) > longest.length) longest = run;
  }
  return longest.slice(1, -1);
}

/** Words of data that may be addresses, outside of the texts. */
function readWords({ offset, bytes }, texts) {
  const start = texts.length > 0 ? texts[0].start - offset : 0;
  const end = texts.length > 0 ? texts.at(-1).end - offset : 0;
  const words = [];
  for (let at = -offset & 3; at + 4 <= bytes.length; at += 4) {
    if (at < start || at >= end) words.push(bytes.readUInt32LE(at));
  }
  return words;
}

/**
 * The texts that may hold a literal, among those that end with it: the literal itself, or else the last one,
 * as the linker sorts texts by their ends. `isAddress` says whether another one may be used.
 */
function holders(literal, texts, isAddress) {
  const itself = texts.filter(({ text }) => text === literal);
  if (itself.length > 0) return itself;
  const addressed = texts.filter(({ end }) => isAddress(end - literal.length));
  return [...addressed, texts.at(-1)];
}

/**
 * Moves literals between `files`, the modules in the order of loading, the first of which has the data.
 * `placeOf(names)` gives the first module that has one of these functions, where undefined stands for data.
 * `constants` are the constants that may be addresses, in functions of the first module (or of libraries,
 * whose objects are not in `objects`) and in all functions.
 */
export function moveLiterals(files, objects, placeOf, constants) {
  const users = new Map();
  for (const object of objects) addLiterals(readFileSync(object), users);

  const main = readFileSync(files[0]);
  const isText = (text) => /^[\t\n -~]+$/.test(text) || (text !== '' && users.has(text));
  const segments = readData(main).map((segment) => {
    return { ...segment, texts: longestRun(readTexts(segment), isText) };
  });
  const [{ offset, bytes, texts }] = [...segments].sort((a, b) => b.texts.length - a.texts.length);
  const words = segments.flatMap((segment) => readWords(segment, texts));
  const staying = new Set([...constants.first, ...words]);
  const all = new Set([...constants.all, ...words]);

  const ending = new Map([...users.keys()].map((literal) => [literal, []]));
  for (const entry of texts) {
    for (let at = 0; at < entry.text.length; at++) ending.get(entry.text.slice(at))?.push(entry);
  }
  for (const [literal, names] of users) {
    const found = ending.get(literal);
    if (found.length === 0) continue;
    const place = placeOf([...names]);
    for (const entry of holders(literal, found, (address) => all.has(address))) {
      entry.place = Math.min(entry.place ?? place, place);
    }
  }
  const moved = files.map(() => []);
  for (const { start, end, text, place } of texts) {
    const stays = Array.from(text).some((_, at) => staying.has(start + at));
    if (!place || !users.has(text) || stays) continue;
    const content = bytes.subarray(start - offset, end - offset);
    moved[place].push({ offset: start, bytes: Buffer.from(content) });
    content.fill(0);
  }
  writeFileSync(files[0], main);
  for (const [place, file] of files.entries()) {
    if (place > 0) writeFileSync(file, withData(readFileSync(file), moved[place]));
  }
}
