/**
 * requant/fingerprint: hashes of integer results that are the same in every browser and on every processor.
 *
 * @packageDocumentation
 */

import { throwIfAborted } from '../base/abort.js';
import { RequantError } from '../base/errors.js';
import { checkOptions } from '../base/options.js';
import { version } from '../base/version.js';
import { engineInfo } from '../engine/engine_info.js';
import type { Variant } from '../engine/load_core.js';
import { parseModel } from '../model/load_model.js';
import type { Model } from '../model/model.js';
import type { RequantizeMode } from '../model/planning.js';
import type { QuantizedModel } from '../quantize/quantized_model.js';
import { InferenceSession } from '../session/session.js';
import { quantize } from '../search/quantize.js';
import { train } from '../train/train.js';
import { type Case, cases } from './cases.js';
import { known } from './known.js';

/** The result of one computation. */
export interface FingerprintCase {
  name: string;
  /** `'quantizer'` cases change with the methods of `quantize()` and `train()`, `'kernels'` never. */
  kind: 'kernels' | 'quantizer';
  /** The first 64 bits of SHA-256 over all results, as 16 hexadecimal digits. */
  hash: string;
  /** The value of this version of the package. */
  known: string;
  same: boolean;
  milliseconds: number;
}

/** The results of {@link fingerprint}. */
export interface Fingerprint {
  version: string;
  variant: Variant;
  threads: number;
  /** Whether all cases have their known values. */
  same: boolean;
  cases: FingerprintCase[];
}

/** Options of {@link fingerprint}. */
export interface FingerprintOptions {
  /** Called behind every case. */
  onProgress?: (progress: { done: number; total: number; latest: FingerprintCase }) => void;
  signal?: AbortSignal;
}

const SAMPLES = [51, 52, 53, 54];

async function hashOf(arrays: readonly ArrayBufferView[]): Promise<string> {
  if (globalThis.crypto?.subtle === undefined) {
    throw new RequantError('UNSUPPORTED', 'this page has no SHA-256', {
      hint: 'Browsers have it on pages that come by https or from localhost.',
    });
  }
  const all = new Uint8Array(arrays.reduce((sum, { byteLength }) => sum + byteLength, 0));
  let at = 0;
  for (const { buffer, byteOffset, byteLength } of arrays) {
    all.set(new Uint8Array(buffer, byteOffset, byteLength), at);
    at += byteLength;
  }
  const digest = new Uint8Array(await crypto.subtle.digest('SHA-256', all));
  return Array.from(digest.subarray(0, 8), (byte) => byte.toString(16).padStart(2, '0')).join('');
}

/** The outputs of a session for all samples. */
async function outputsOf(
  source: Model | QuantizedModel,
  feeds: Case['feeds'],
  requantize?: RequantizeMode,
): Promise<ArrayBufferView[]> {
  const session = await InferenceSession.create(source, requantize ? { requantize } : {});
  try {
    const results: ArrayBufferView[] = [];
    for (const seed of SAMPLES) {
      const outputs = Object.values(await session.run(feeds(seed)));
      results.push(...outputs.map(({ data }) => data as ArrayBufferView));
    }
    return results;
  } finally {
    session.dispose();
  }
}

/** The outputs of integer operators, in both arithmetics of requantization. */
async function runKernels(model: Model, { feeds }: Case): Promise<ArrayBufferView[]> {
  return [...(await outputsOf(model, feeds, 'fixed')), ...(await outputsOf(model, feeds, 'float'))];
}

/** The file that the quantizer writes, and the outputs of a session of it. */
async function runQuantizer(
  model: Model,
  { feeds, bits, train: learns }: Case,
): Promise<ArrayBufferView[]> {
  const [weights, activations] = bits!;
  const samples = SAMPLES.map(feeds);
  const made = [
    await quantize(model, {
      calibration: samples,
      config: {
        weights: { bits: weights },
        activations: { bits: activations },
        recover: ['round_weights', 'bias_correction'],
        floatOutputs: false,
      },
    }),
  ];
  try {
    if (learns) {
      const options = { epochs: 2, batchSize: 2, loss: 'scores', keep: 'last' } as const;
      const dataset = samples.map((sample) => ({ feeds: sample }));
      made.push(await train(made[0]!, { dataset, ...options }));
    }
    const result = made.at(-1)!;
    return [result.toOnnx(), ...(await outputsOf(result, feeds))];
  } finally {
    for (const each of made) each.dispose();
  }
}

/** The results of a case. */
async function run(one: Case): Promise<ArrayBufferView[]> {
  const model = await parseModel(one.text());
  try {
    return await (one.kind === 'kernels' ? runKernels(model, one) : runQuantizer(model, one));
  } finally {
    model.dispose();
  }
}

/**
 * Computes fixed pseudo-random networks and hashes their integers: kernels of 8 bits, and what `quantize()` and
 * `train()` make of a float network. The hashes are the same for every browser, processor, variant of the engine
 * (`env.wasm.simd`) and number of threads (`env.wasm.numThreads`).
 *
 * @throws RequantError `UNSUPPORTED` on pages without SHA-256, `ABORTED`.
 * @example
 * const { same, cases } = await fingerprint();
 * console.log(same, cases.filter((one) => !one.same));
 */
export async function fingerprint(options: FingerprintOptions = {}): Promise<Fingerprint> {
  checkOptions(options, { onProgress: 'function', signal: 'signal' }, 'options');
  const results: FingerprintCase[] = [];
  for (const one of cases) {
    throwIfAborted(options.signal);
    const start = performance.now();
    const hash = await hashOf(await run(one));
    const expected = known[one.name] ?? '';
    const latest: FingerprintCase = {
      name: one.name,
      kind: one.kind,
      hash,
      known: expected,
      same: hash === expected,
      milliseconds: performance.now() - start,
    };
    results.push(latest);
    options.onProgress?.({ done: results.length, total: cases.length, latest });
  }
  const { variant, threads } = await engineInfo();
  return { version, variant, threads, same: results.every(({ same }) => same), cases: results };
}
