// Prepares the Emscripten glue for dist: the ES module that `em++ -sEXPORT_ES6` wrote, checked for C++
// functions that nobody defines (the link cannot tell them from the kernels, which are merged later).
//
//   node glue.mjs core.js dist/core.js

import { readFileSync, writeFileSync } from 'node:fs';

const [input, output] = process.argv.slice(2);
const text = readFileSync(input, 'utf8');
if (!/export default createCore/.test(text)) {
  throw new Error(`${input} does not export createCore as an ES module`);
}
const missing = [...text.matchAll(/missing function: ([\w$]+)/g)].map((match) => match[1]);
const undefinedNames = missing.filter((name) => !name.startsWith('rq_'));
if (undefinedNames.length > 0) {
  console.error(`undefined in the core: ${undefinedNames.join(', ')}`);
  process.exit(1);
}
// The loader supplies the module, so the glue never uses its own address of it; bundlers would look for the
// file nevertheless.
const glue = text.replace(
  /new URL\(["']core\.wasm["'], *import\.meta\.url\)\.(toString\(\)|href)/g,
  '"core.wasm"',
);
// Bundlers for the browser would replace a bare `process` by a polyfill.
const global = glue.replace(/(?<![\w$.'"])process(?![\w$'"])/g, 'globalThis.process');
// Browsers decode no text from shared memory (https://encoding.spec.whatwg.org, TextDecoder), so it
// is copied first.
const copying = global.replace(/(Decoder\.decode\(\w+)\.subarray\(/g, '$1.slice(');
if (copying === global && /\.decode\(/.test(global)) {
  console.error(`${input}: text is decoded in a way that glue.mjs does not know`);
  process.exit(1);
}
writeFileSync(output, `/* eslint-disable */\n${copying}`);
