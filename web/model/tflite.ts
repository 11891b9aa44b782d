// Files for LiteRT.

import { invalidArgument } from '../base/errors.js';
import { checkOneOf, checkOptions, suggest } from '../base/options.js';
import type { Core, CoreModel } from '../core.js';
import { call, takeBlob } from '../engine/heap.js';
import { type ValueInfo, inputShapes } from './model_info.js';

/** Options of {@link Model.toTflite} and {@link QuantizedModel.toTflite}. */
export interface TfliteOptions {
  /**
   * The order of dimensions of inputs and outputs that are images: `'channels-last'` (default), as users of
   * LiteRT have them, or `'onnx'`, with a TRANSPOSE at each.
   */
  layout?: 'channels-last' | 'onnx';
  /**
   * The numbers that a quantized model takes and gives: `'float32'` (default), or `'codes'`, int8 with the scale and the
   * zero point that the report names.
   */
  ends?: 'float32' | 'codes';
  /** Writes float weights as float16. Default false. */
  halfWeights?: boolean;
  /** Shapes of the inputs in ONNX's order, by name. An open batch is 1 without one. */
  shapes?: Readonly<Record<string, readonly number[]>>;
}

/** An input or an output of a .tflite file. */
export interface TfliteEnd {
  name: string;
  /** The type of its elements, such as `'float32'` or `'int8'`. */
  type: string;
  /** Its shape in the file. */
  dims: number[];
  /** `'NHWC'` or `'NCHW'` for four dimensions, else `''`. */
  layout: string;
  /** The ONNX dimension that each dimension of the file is: `[0, 2, 3, 1]` for NHWC. */
  axes: number[];
  /** Of codes: real = scale * (code - zeroPoint). */
  scale?: number;
  zeroPoint?: number;
}

/** How a .tflite file differs from the model that it was written from. */
export interface TfliteReport {
  inputs: TfliteEnd[];
  outputs: TfliteEnd[];
  /** How many operators of each name the file has. */
  operators: Record<string, number>;
  /** Values that a TRANSPOSE brings into another order. */
  transposes: string[];
  /** Operators with a PAD, since their padding is neither SAME nor VALID. */
  pads: string[];
  /** Values that a QUANTIZE brings to another grid, because LiteRT's operator has one of its own. */
  requantized: string[];
  /** Operators of quantized values that LiteRT computes on floats. */
  floats: string[];
  /** Other differences, such as changed codes, as sentences. */
  notes: string[];
}

/** A model for LiteRT. */
export interface TfliteFile {
  /** The .tflite file. */
  bytes: Uint8Array<ArrayBuffer>;
  report: TfliteReport;
}

const optionKinds = {
  layout: 'string',
  ends: 'string',
  halfWeights: 'boolean',
  shapes: 'object',
} as const;

/** @internal Throws INVALID_ARGUMENT for an unknown option or value. */
export function checkTfliteOptions(options: TfliteOptions): void {
  checkOptions(options, optionKinds, 'options');
  checkOneOf(options.layout ?? 'onnx', ['channels-last', 'onnx'], 'options.layout');
  checkOneOf(options.ends ?? 'codes', ['float32', 'codes'], 'options.ends');
}

/** @internal The file of a graph; the tools are loaded. */
export function writeTflite(
  core: Core,
  object: CoreModel,
  inputs: readonly ValueInfo[],
  options: TfliteOptions,
): TfliteFile {
  const { layout = 'channels-last', ends = 'float32', halfWeights = false, shapes = {} } = options;
  const names = inputs.map(({ name }) => name);
  for (const name of Object.keys(shapes)) {
    if (names.includes(name)) continue;
    throw invalidArgument(`the model has no input "${name}"`, name, suggest(name, names));
  }
  const given = inputs.filter(({ name }) => shapes[name] !== undefined);
  const dims = inputShapes(given, shapes);
  const { file, report } = call(core, () =>
    core.writeTflite(
      object,
      given.map(({ name }) => name),
      dims,
      { onnxLayout: layout === 'onnx', codes: ends === 'codes', halfWeights },
    ),
  );
  return { bytes: takeBlob(core, file), report: JSON.parse(report) as TfliteReport };
}
