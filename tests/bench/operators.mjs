// Single operators beside onnxruntime-web, in turns on one thread.
//
//   node tests/bench/operators.mjs [--rounds N] [--json] [KIND ...]
//
// KIND: types, functions, 'two operands', 'along an axis', moves, others; all by default. The answers of both engines
// are compared first.

import { readArguments } from './arguments.mjs';
import { formatTimes, ratios, spread, takeTurns } from './networks.mjs';
import { normals } from './numbers.js';
import { CASES, sizeOf } from './operator_cases.mjs';

const { rounds, json, words } = readArguments({ rounds: 9, json: false });
const { InferenceSession, Tensor, parseModel } = await import('requant');
const ort = await import('onnxruntime-web');
ort.env.wasm.numThreads = 1;
ort.env.logLevel = 'error';

const kinds = new Set(CASES.map(({ kind }) => kind));
const unknown = words.find((word) => !kinds.has(word));
if (unknown) {
  console.error(`operators: no kind ${unknown} (${[...kinds].join(', ')})`);
  process.exit(2);
}

/** Numbers of a type: noise, and integers from 0 to 59. */
function numbersOf(type, count, seed, given) {
  const noise = given ?? normals(count, seed);
  const whole = (x) => (given ? x : Math.abs(Math.trunc(x * 20)) % 60);
  switch (type) {
    case 'float32':
      return Float32Array.from(noise);
    case 'int64':
      return BigInt64Array.from(noise, (x) => BigInt(whole(x)));
    case 'int32':
      return Int32Array.from(noise, whole);
    case 'int8':
      return Int8Array.from(noise, whole);
    case 'bool':
      return Uint8Array.from(noise, (x) => (x > 0 ? 1 : 0));
    default:
      return Uint8Array.from(noise, whole);
  }
}

/** The largest difference of two results by 1 + |x|; Infinity where only one is NaN. */
function differenceOf(a, b) {
  let most = 0;
  for (let i = 0; i < a.length; i++) {
    const [x, y] = [Number(a[i]), Number(b[i])];
    if (Object.is(x, y) || x === y || (Number.isNaN(x) && Number.isNaN(y))) continue;
    const difference = Math.abs(x - y) / (1 + Math.abs(y));
    most = Math.max(most, Number.isNaN(difference) ? Infinity : difference);
  }
  return most;
}

// Some loops are among the operators that are loaded on demand, as with every transformer.
const loads = await parseModel('graph "g" opset 18\ninput %x: float32[1]\n%y = Sin(%x)\noutput %y');
const loaded = await InferenceSession.create(loads);

async function measure({ text, feeds: given = {} }) {
  const model = await parseModel(text);
  const bytes = model.toOnnx();
  const feedsOf = (Type) =>
    Object.fromEntries(
      model.info.inputs.map(({ name, type, dims }, i) => [
        name,
        new Type(type, numbersOf(type, sizeOf(dims), 5 + i, given[name]), dims),
      ]),
    );
  const rows = [];
  const outputs = {};
  for (const [label, Session, Type] of [
    ['requant', InferenceSession, Tensor],
    ['ort', ort.InferenceSession, ort.Tensor],
  ]) {
    const session = await Session.create(bytes, { executionProviders: ['wasm'] });
    const feeds = feedsOf(Type);
    const made = await session.run(feeds);
    outputs[label] = Object.values(made)[0].data.slice();
    // Results go into the same tensors again: new ones would cost more than most operators.
    rows.push({ label, session, times: [], run: () => session.run(feeds, made) });
  }
  model.dispose();
  const difference = differenceOf(outputs.requant, outputs.ort);
  if (!(difference < 1e-4)) throw new Error(`the answers differ by ${difference}`);
  await takeTurns(rows, rounds, { roundMs: 20, warmUpMs: 150 });
  for (const { session } of rows) await session.release();
  const [mine, theirs] = rows.map(({ times }) => times);
  return {
    times: { float: spread(mine), 'ort float': spread(theirs) },
    ratio: ratios(theirs, mine),
  };
}

const cases = {};
for (const one of CASES) {
  if (words.length > 0 && !words.includes(one.kind)) continue;
  try {
    cases[one.name] = { kind: one.kind, ...(await measure(one)) };
  } catch (error) {
    throw new Error(`${one.name}: ${error.message}`, { cause: error });
  }
  if (json) continue;
  const { times, ratio } = cases[one.name];
  const cells = [formatTimes(times.float), formatTimes(times['ort float'])];
  console.log(`| ${[one.name, ...cells, ratio.median.toFixed(2)].join(' | ')} |`);
}
await loaded.release();
loads.dispose();
if (json) console.log(JSON.stringify({ rounds, cases }, null, 2));
process.exit();
