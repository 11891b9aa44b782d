// The Emscripten glue as it goes into dist: the file that `em++ -sEXPORT_ES6` wrote, made to load
// everywhere as an ES module. The package's loader always hands the wasm bytes over, so the branches
// that look for the wasm file themselves are never taken.
//
//   node glue.mjs core.js dist/core.js

import { readFileSync, writeFileSync } from 'node:fs';

const [input, output] = process.argv.slice(2);
let text = readFileSync(input, 'utf8');
if (!/export default createCore/.test(text)) {
  throw new Error(`${input} does not export createCore as an ES module`);
}
writeFileSync(output, `/* eslint-disable */\n${text}`);
