// Writes answers.json, what LiteRT.js answers to the cases of cases.mjs:
//
//   node tests/tflite/answers.mjs
//
// It installs LiteRT.js under build/ and runs it in Chromium. Tests compare with the file, so that they need
// neither.

import { writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import plainCases from './cases.mjs';
import dynamicCases from './dynamic_cases.mjs';
import { drop, litertFolder, load, openLiteRt, packages, run } from './litert.mjs';
import rareCases from './rare_cases.mjs';

const cases = [...plainCases, ...rareCases, ...dynamicCases];

/** The answers of LiteRT.js by the names of cases: a list of [type, dims, base64 of the data]. */
export async function askLiteRt(litert) {
  const answers = {};
  for (const { name, build } of cases) {
    const net = build();
    await load(litert, name, net.bytes());
    const feeds = net.inputs.map((index) => net.feeds[net.tensors[index].name]);
    const { results } = await run(litert, name, feeds);
    answers[name] = results.map(({ dtype, dims, data }) => [dtype, dims, data.toString('base64')]);
    await drop(litert, name);
  }
  return answers;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const folder = litertFolder();
  if (!folder) throw new Error('the packages cannot be installed without a network');
  const litert = await openLiteRt(folder);
  try {
    const answers = await askLiteRt(litert);
    const lines = Object.entries(answers).map(
      ([name, list]) => `${JSON.stringify(name)}: ${JSON.stringify(list)}`,
    );
    const version = packages['@litertjs/core'];
    writeFileSync(
      new URL('answers.json', import.meta.url),
      `{\n"version": "@litertjs/core ${version}",\n"answers": {\n${lines.join(',\n')}\n}\n}\n`,
    );
  } finally {
    await litert.close();
  }
}
