// The option `quantize` of sessions: quantizes a float model before it runs, and keeps the result.

import { checkIterable } from '../base/abort.js';
import { invalidArgument } from '../base/errors.js';
import { hashOf } from '../base/hash.js';
import { checkKind, checkOneOf, checkOptions } from '../base/options.js';
import type { LoadProgress } from '../base/source.js';
import { type Database, checkStore, readStored, writeStored } from '../base/store.js';
import { bytesOf } from '../base/tensor.js';
import { version } from '../base/version.js';
import type { Core } from '../core.js';
import { hasFilesBeside, modelOf } from '../model/load_model.js';
import type { Model } from '../model/model.js';
import type { QuantizeConfig } from '../quantize/config.js';
import { type Samples, calibrate } from '../quantize/calibrate.js';
import { readQuantized } from '../quantize/read_quantized.js';
import { quantizeDynamic, quantizeWeights } from '../quantize/weights.js';

/** How a session quantizes a float model with samples; the members are those of {@link QuantizeOptions}. */
export interface CalibratedQuantization {
  calibration: Samples;
  maxSamples?: number;
  config?: QuantizeConfig;
}

/**
 * How a session quantizes a float model before it runs: `'dynamic'` as {@link quantizeDynamic}, `'q4'` as
 * {@link quantizeWeights} to 4 bits in the form of MatMulNBits, or as {@link quantize} with samples.
 */
export type SessionQuantization = 'dynamic' | 'q4' | CalibratedQuantization;

/** The options of a session that concern quantization. */
export interface QuantizeFirst {
  quantize: SessionQuantization;
  cache: string | undefined;
  onProgress: ((progress: LoadProgress) => void) | undefined;
  signal: AbortSignal | undefined;
}

/** Throws INVALID_ARGUMENT for bad values of the options `quantize` and `cache`. */
export function checkQuantization(quantize: unknown, cache: unknown): void {
  const name = 'options.quantize';
  if (cache !== undefined) {
    checkKind(cache, 'string', 'options.cache');
    if (quantize === undefined) {
      throw invalidArgument(
        'options.cache is without effect',
        'options.cache',
        `It keeps what ${name} makes.`,
      );
    }
  }
  if (quantize === undefined) return;
  if (typeof quantize === 'string') {
    checkOneOf(quantize, ['dynamic', 'q4'], name);
    return;
  }
  checkOptions(quantize, { calibration: 'any', maxSamples: 'number', config: 'object' }, name);
  checkIterable((quantize as CalibratedQuantization).calibration, `${name}.calibration`);
}

const WHERE: Database = { database: 'requant-models', store: 'models' };

/** The field of ModelProto for metadata, and those of its entries (onnx.proto3: StringStringEntryProto). */
const METADATA_PROPS = 14;
const KEY = 1;
const VALUE = 2;
const MADE_FROM = 'requant.made_from';

function lengthDelimited(field: number, bytes: Uint8Array): number[] {
  const length: number[] = [];
  for (let rest = bytes.length; ; rest >>>= 7) {
    length.push(rest < 128 ? rest : (rest & 127) | 128);
    if (rest < 128) break;
  }
  return [(field << 3) | 2, ...length, ...bytes];
}

/**
 * The end of a stored file: one more entry of its metadata, which says what it was made from. Messages of
 * protobuf stay valid when fields are appended, so the file is an ONNX model like any other.
 */
function trailer(madeFrom: string): Uint8Array {
  const text = new TextEncoder();
  const entry = [
    ...lengthDelimited(KEY, text.encode(MADE_FROM)),
    ...lengthDelimited(VALUE, text.encode(madeFrom)),
  ];
  return Uint8Array.from(lengthDelimited(METADATA_PROPS, Uint8Array.from(entry)));
}

function endsWith(bytes: Uint8Array, end: Uint8Array): boolean {
  const from = bytes.length - end.length;
  return from > 0 && end.every((byte, at) => bytes[from + at] === byte);
}

/** What the result depends on, as text. Samples are known by their numbers if they are an array. */
function identity(files: readonly Uint8Array[], quantize: SessionQuantization): string {
  const size = files.reduce((sum, { length }) => sum + length, 0);
  const parts = [version, size, hashOf(...files)];
  if (typeof quantize === 'string') return [...parts, quantize].join(' ');
  const { calibration, maxSamples, config } = quantize;
  const samples = Array.isArray(calibration)
    ? (calibration as { data: unknown }[][]).flatMap((feeds) =>
        Object.values(feeds).flatMap(({ data }) =>
          ArrayBuffer.isView(data) ? [bytesOf(data)] : [],
        ),
      )
    : [];
  return [...parts, JSON.stringify({ maxSamples, config }), hashOf(...samples)].join(' ');
}

async function quantized(
  model: Model,
  { quantize: how, signal }: QuantizeFirst,
): Promise<{ made: Model; toOnnx: () => Uint8Array<ArrayBuffer> }> {
  if (typeof how === 'string') {
    const made =
      how === 'q4'
        ? await quantizeWeights(model, { bits: 4, format: 'matmulnbits' })
        : await quantizeDynamic(model);
    return { made, toOnnx: () => made.toOnnx() };
  }
  const whole = await calibrate(model, { ...how, ...(signal ? { signal } : {}) });
  try {
    const bytes = whole.toOnnx();
    return { made: whole.integerModel.clone(), toOnnx: () => bytes };
  } finally {
    whole.dispose();
  }
}

async function fromStore(
  core: Core,
  cache: string,
  end: Uint8Array,
  how: SessionQuantization,
): Promise<Model | undefined> {
  let model: Model | undefined;
  try {
    const bytes = await readStored(WHERE, cache);
    if (!(bytes instanceof Uint8Array) || !endsWith(bytes, end)) return undefined;
    model = await modelOf(core, { bytes }, {});
    if (typeof how === 'string') return model;
    const whole = await readQuantized(model);
    model.dispose();
    model = whole.integerModel.clone();
    whole.dispose();
    return model;
  } catch {
    // What is missing or damaged is made again.
    model?.dispose();
    return undefined;
  }
}

/**
 * A quantized model, which the caller disposes of: from the store if it has one that was made from the same
 * file in the same way, else made now and stored.
 *
 * @param source How to load the model, which this function disposes of, and the bytes of its file.
 * @throws RequantError what quantization throws; SAVE_FAILED if nothing can be stored there.
 */
export async function quantizeFirst(
  core: Core,
  source: { bytes?: Uint8Array; load: () => Promise<Model> },
  options: QuantizeFirst,
): Promise<Model> {
  const { cache, quantize: how } = options;
  let model: Model | undefined;
  let end: Uint8Array | undefined;
  try {
    if (cache !== undefined) {
      const { bytes } = source;
      let files = bytes ? [bytes] : [];
      if (bytes === undefined || hasFilesBeside(core, bytes)) {
        model = await source.load();
        // One file would end at 2 GB.
        const written = model.toOnnxFiles('data');
        files = [written.bytes, ...Object.values(written.externalData)];
      }
      end = trailer(identity(files, how));
      const known = await fromStore(core, cache, end, how);
      if (known) return known;
      await checkStore(WHERE, cache);
    }
    model ??= await source.load();
    const { made, toOnnx } = await quantized(model, options);
    if (cache !== undefined && end) {
      try {
        const bytes = toOnnx();
        const stored = new Uint8Array(bytes.length + end.length);
        stored.set(bytes);
        stored.set(end, bytes.length);
        await writeStored(WHERE, cache, { file: () => stored, value: stored });
      } catch (error) {
        made.dispose();
        throw error;
      }
    }
    return made;
  } finally {
    model?.dispose();
  }
}
