// Runs ONNX's conformance data in our session and in onnxruntime-web.
//
//   node tests/node/conformance.mjs [--write] [--verbose] [name part]
//
// Prints the table by folder; --write puts it into docs/conformance.md.

import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import * as ort from 'onnxruntime-web';
import { InferenceSession, Tensor, packSequence, unpackSequence } from '../../dist/index.js';
import { FOLDERS, dataSets, outOfScope, testsOf, testsWithoutModel } from './onnx_test_data.mjs';
import { ROOT } from './support.mjs';

const DOC = path.join(ROOT, 'docs/conformance.md');

/** The files of the data hold bfloat16 as uint16, where the model says bfloat16. */
function declared(tensor, type) {
  const brain = type === 'bfloat16' && tensor.type === 'uint16';
  return brain ? { type, data: tensor.data, dims: tensor.dims } : tensor;
}

/**
 * The difference by numpy.testing.assert_allclose as onnx.backend.test.runner calls it; integers must be
 * equal.
 */
export function difference(got, recorded) {
  if (recorded.items) {
    const items = unpackSequence(got);
    if (items.length !== recorded.items.length) return `has ${items.length} items`;
    return items.map((item, i) => difference(item, recorded.items[i])).find(Boolean) ?? '';
  }
  const wanted = declared(recorded, got.type);
  if (got.type !== wanted.type || String(got.dims) !== String(wanted.dims)) {
    return `is ${got.type}[${got.dims}], not ${wanted.type}[${wanted.dims}]`;
  }
  const real = /float/.test(wanted.type);
  const numbers = ({ type, data, dims }) =>
    /float(16|8)/.test(type) ? new Tensor(type, data, dims).toFloat32() : data;
  const [theirs, expected] = [numbers(got), numbers(wanted)];
  for (let i = 0; i < expected.length; i++) {
    const [a, b] = [theirs[i], expected[i]];
    if (a === b || (Number.isNaN(a) && Number.isNaN(b))) continue;
    if (real && Math.abs(a - b) <= 1e-7 + 1e-3 * Math.abs(b)) continue;
    return `element ${i} is ${a}, not ${b}`;
  }
  return '';
}

/** A container as one tensor. */
const packed = (value) => (value.items ? packSequence(value.items.map(packed)) : value);

const engines = {
  ours: {
    create: (bytes) => InferenceSession.create(bytes),
    tensor: ({ type, data, dims }) => new Tensor(type, data, dims),
    refuses: (error) => error?.code === 'UNSUPPORTED',
  },
  theirs: {
    create: (bytes) => ort.InferenceSession.create(bytes, { executionProviders: ['wasm'] }),
    tensor: ({ type, data, dims }) => new ort.Tensor(type, data, dims),
    // onnxruntime-web has no typed errors: any error before the first output counts as a refusal.
    refuses: () => true,
  },
};

/** Runs one test; gives 'passed', or 'refused: why', or 'failed: why'. */
export async function runTest(engine, bytes, sets) {
  let session;
  try {
    session = await engine.create(bytes);
    for (const { inputs, outputs } of sets) {
      const feeds = Object.fromEntries(
        inputs.map((tensor, index) => [
          session.inputNames[index],
          engine.tensor(declared(packed(tensor), session.inputMetadata?.[index]?.type)),
        ]),
      );
      const results = await session.run(feeds);
      for (const [index, wanted] of outputs.entries()) {
        const why = difference(results[session.outputNames[index]], wanted);
        if (why) return `failed: output ${index} ${why}`;
      }
    }
    return 'passed';
  } catch (error) {
    const message = String(error?.message ?? error).split('\n')[0];
    return `${engine.refuses(error) ? 'refused' : 'failed'}: ${error?.code ?? ''} ${message}`;
  } finally {
    await session?.release();
  }
}

/** Runs all tests whose name contains the part; gives { folder, name, scope, ours, theirs } of each. */
export async function runAll({ part = '', folders = FOLDERS, judges = ['ours', 'theirs'] } = {}) {
  const results = [];
  for (const folder of folders) {
    for (const test of testsOf(folder)) {
      if (!test.name.includes(part)) continue;
      const result = { folder, name: test.name, scope: outOfScope(test) };
      const bytes = new Uint8Array(readFileSync(path.join(test.folder, 'model.onnx')));
      let sets;
      try {
        sets = dataSets(test);
      } catch {
        sets = []; // types without tensors here: out of scope, but the model is loaded
      }
      for (const judge of result.scope && judges.includes('ours') ? ['ours'] : judges) {
        result[judge] = await runTest(engines[judge], bytes, sets);
      }
      results.push(result);
    }
  }
  return results;
}

const is = (kind, engine) => (result) => result[engine]?.startsWith(kind);

/** The numbers of passed, refused and failed tests in scope, by folder, for both engines. */
export function countsOf(results) {
  return Object.fromEntries(
    FOLDERS.map((folder) => {
      const scope = results.filter((result) => result.folder === folder && !result.scope);
      const count = (engine) =>
        ['passed', 'refused', 'failed'].map((kind) => scope.filter(is(kind, engine)).length);
      return [folder, { inScope: scope.length, ours: count('ours'), theirs: count('theirs') }];
    }),
  );
}

/** The text of docs/conformance.md. */
export function report(results) {
  const counts = countsOf(results);
  const lines = [
    '# Conformance',
    '',
    'Written by `node tests/node/conformance.mjs --write`; CI checks that it is current.',
    '',
    "ONNX's own test data (libonnx-testdata 1.12) through `InferenceSession`, and the same files",
    'through onnxruntime-web 1.30 (WASM, default options). Outputs are compared as',
    '`onnx.backend.test.runner` does: shapes and types equal, floats within 1e-3 relative + 1e-7,',
    'integers exactly. "Refused" is an error before any output: ours is always one with the code',
    '`UNSUPPORTED` that names the operator or type.',
    '',
    '| folder | in scope | passed | refused | failed | onnxruntime-web: passed | refused | failed |',
    '| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |',
  ];
  for (const [folder, { inScope, ours, theirs }] of Object.entries(counts)) {
    lines.push(`| ${folder} | ${[inScope, ...ours, ...theirs].join(' | ')} |`);
  }
  const missing = testsWithoutModel('real').map((name) => name.replace('test_', ''));
  lines.push(
    '',
    `The tests in \`real\` (${missing.join(', ')}) name files to download and have no data here.`,
    '',
    '## Not passed, in scope',
    '',
    '| test | Requant | onnxruntime-web |',
    '| --- | --- | --- |',
  );
  const short = (outcome) => outcome.replaceAll('|', '/').replaceAll('`', "'").slice(0, 160);
  for (const result of results) {
    if (result.scope || (is('passed', 'ours')(result) && is('passed', 'theirs')(result))) continue;
    lines.push(
      `| ${result.folder}/${result.name} | ${short(result.ours)} | ${short(result.theirs)} |`,
    );
  }
  lines.push(
    '',
    '## Beyond the test data',
    '',
    '`tests/cpp/onnx/functions_test.cpp` holds functions of models and sparse tensors, `tests/node/ort_ml_operators.test.mjs`',
    'operators of ai.onnx.ml, and `tests/node/ort_contrib_operators.test.mjs` those of com.microsoft: against onnxruntime-web on',
    'random cases, or against the definition where it has no kernel for them. Where ONNX Runtime departs from the definition, the',
    'test says so.',
    '',
    '- Random operators draw other numbers than ONNX Runtime (Philox4x32-10); so the tests of',
    '  Bernoulli are out of scope.',
    '- Five tests of bfloat16 have wrong data: one rounds towards zero, where ONNX rounds to the nearest, and four have a',
    '  tensor `like` that contradicts the shape in their model.',
    '- Sequences and optional values cross the boundary as uint8 tensors: `packSequence()` makes one of tensors, and',
    '  `unpackSequence()` reads it. onnxruntime-web takes and gives none. Sequences of sequences are refused.',
    '- Strings are tensors as in onnxruntime-web. A Cast of a float gives the fewest digits that restore it, as in the data,',
    '  where ONNX Runtime gives up to eight. A Cast of a string that is no number, or beyond the type, is an error, where',
    '  ONNX Runtime reads what it can and wraps the rest. StringSplit splits at all white space, as ONNX says, where ONNX Runtime',
    '  heeds spaces only. StringNormalizer changes letters that have one counterpart, by the tables of Unicode; another locale',
    '  than C or en_US, and RegexFullMatch, are refused with the code `UNSUPPORTED`: use JavaScript.',
    '- ZipMap gives a list of maps, which onnxruntime-web cannot return. Here its output is a uint8 tensor, of which `unpackMaps()`',
    '  makes Maps. Models whose inputs are maps (DictVectorizer) are refused.',
    '- BeamSearch, GreedySearch, Sampling and WhisperBeamSearch are refused: export the decoder alone, and choose tokens in',
    '  JavaScript after each run.',
    '',
    '## Out of scope',
    '',
  );
  const kinds = new Set(results.map(({ scope }) => scope).filter(Boolean));
  for (const kind of [...kinds].sort()) {
    const tests = results.filter(({ scope }) => scope === kind);
    const passed = tests.filter(is('passed', 'ours'));
    lines.push(
      `${kind}: ${tests.length} tests, of which ${passed.length} pass all the same.`,
      '',
      tests.map(({ name }) => `\`${name.replace('test_', '')}\``).join(', '),
      '',
    );
  }
  return lines.join('\n');
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) {
  ort.env.wasm.numThreads = 1;
  ort.env.logLevel = 'fatal';
  const names = process.argv.slice(2).filter((argument) => !argument.startsWith('--'));
  const flag = (name) => process.argv.includes(`--${name}`);
  const results = await runAll({
    part: names[0],
    judges: flag('ours') ? ['ours'] : ['ours', 'theirs'],
  });
  if (flag('verbose')) {
    for (const { folder, name, scope, ours } of results) {
      if (ours !== 'passed') console.log(`${folder}/${name} [${scope}] ${ours}`);
    }
  }
  console.log(JSON.stringify(countsOf(results), null, 1));
  if (flag('write')) writeFileSync(DOC, report(results));
}
