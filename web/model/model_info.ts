// The parts of a model, as JSON.

import { invalidArgument, show } from '../base/errors.js';
import { suggest } from '../base/options.js';
import type { TensorType } from '../base/tensor.js';

/** Name, element type and shape of a graph's input or output. */
export interface ValueInfo {
  name: string;
  type: TensorType;
  /** A number, the name of a symbolic dimension, or null for an unknown one. */
  dims: (number | string | null)[];
}

/** One operator of a graph. */
export interface NodeInfo {
  name: string;
  /** Operator type, such as "Conv". */
  op: string;
  /** Empty for ONNX's own operators. */
  domain: string;
  /** Names of values; empty where an optional input is left out. */
  inputs: string[];
  outputs: string[];
}

/** The contents of a model. */
export interface ModelInfo {
  name: string;
  /** Version by operator domain. */
  opsets: Record<string, number>;
  inputs: ValueInfo[];
  outputs: ValueInfo[];
  nodes: NodeInfo[];
  /** Number of elements of all constants. */
  parameters: number;
  /** Bytes of all constants. */
  constantBytes: number;
  /** Whether it has quantized operators. */
  quantized: boolean;
}

/** @internal A shape for every input: that of `shapes`, or else the model's own. */
export function inputShapes(
  inputs: readonly ValueInfo[],
  shapes: Readonly<Record<string, readonly number[]>>,
): number[][] {
  const names = inputs.map(({ name }) => name);
  const wrong = Object.keys(shapes).find((name) => !names.includes(name));
  if (wrong !== undefined) {
    throw invalidArgument(`the model has no input "${wrong}"`, wrong, suggest(wrong, names));
  }
  return inputs.map(({ name, dims: known }) => {
    const shape = shapes[name] ?? known;
    if (Array.isArray(shape) && shape.every((dim) => Number.isSafeInteger(dim) && dim >= 0)) {
      return shape as number[];
    }
    const text = Array.isArray(shape)
      ? `[${shape.map((dim) => dim ?? '?').join(', ')}]`
      : show(shape);
    throw invalidArgument(
      `the shape of input "${name}" is ${text}`,
      `options.shapes.${name}`,
      'Give a number for every dimension.',
    );
  });
}
