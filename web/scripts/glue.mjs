// The Emscripten glue as it goes into dist: the ES module that `em++ -sEXPORT_ES6` wrote, checked for
// C++ functions that nobody defines (the link cannot tell them from the kernels, which come later).
//
//   node glue.mjs core.js dist/core.js

import { copyFileSync, existsSync, readFileSync, writeFileSync } from 'node:fs';

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
// The loader hands the module over, so the glue's own address of it is never used; bundlers would
// look for the file all the same.
const glue = text.replace(
  /new URL\(["']core\.wasm["'], *import\.meta\.url\)\.(toString\(\)|href)/g,
  '"core.wasm"',
);
writeFileSync(output, `/* eslint-disable */\n${glue}`);

// Emscripten before 3.1.58 keeps what a thread runs first in a file of its own.
const worker = input.replace(/\.js$/, '.worker.js');
if (existsSync(worker)) copyFileSync(worker, output.replace(/\.js$/, '.worker.js'));
