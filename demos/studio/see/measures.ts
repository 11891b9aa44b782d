// Finds the size of an operator, and after quantization its bits, error and time.

import type { LayerDifference, NodeDetails, OperatorRecord, TensorType } from 'requant';
import { type Width, result } from '../state/store.js';

/** Bytes of an element; types that are not here have one. */
const bytesOf: Partial<Record<TensorType, number>> = {
  float32: 4,
  int32: 4,
  uint32: 4,
  float64: 8,
  int64: 8,
  uint64: 8,
  float16: 2,
  bfloat16: 2,
  int16: 2,
  uint16: 2,
};

/** Bytes of an operator's constants as the file has them. */
export function constantBytes({ inputValues }: NodeDetails): number {
  return inputValues.reduce((sum, value) => {
    if (!value?.constant || !value.dims) return sum;
    const size = value.dims.reduce<number>((product, dim) => product * Number(dim), 1);
    return sum + size * (bytesOf[value.type as TensorType] ?? 1);
  }, 0);
}

/** Whether an operator has weights, whose bits can be chosen. */
export function isLayer({ op, inputValues }: NodeDetails): boolean {
  const layers = ['Conv', 'ConvTranspose', 'Gemm', 'MatMul'];
  return layers.includes(op) && inputValues.slice(1, 2).some((value) => value?.constant);
}

export interface Measures {
  record: OperatorRecord | undefined;
  layer: LayerDifference | undefined;
  ms: number | undefined;
  floatMs: number | undefined;
  kernel: string | undefined;
  bits: Width | undefined;
}

export interface AllMeasures {
  get(name: string): Measures;
  /** Whether there is a result at all. */
  quantized: boolean;
}

function bitsOf(record: OperatorRecord | undefined): Width | undefined {
  if (!record) return undefined;
  if (!record.quantized) return 32;
  const slots = record.inputs.filter((slot) => slot?.bits);
  const slot = slots.find((one) => one!.state === 'BAKED') ?? slots[0];
  const bits = slot?.bits;
  return bits === undefined ? undefined : bits <= 2 ? 2 : bits <= 4 ? 4 : bits <= 8 ? 8 : 32;
}

/** Measures of the present result by the names of operators. */
export function measuresOf(): AllMeasures {
  const now = result.value;
  const records = new Map(now?.record?.operators.map((one) => [one.name, one]));
  const layers = new Map(now?.report?.layers.map((one) => [one.name, one]));
  return {
    quantized: now !== undefined,
    get(name) {
      const record = records.get(name);
      const times = now?.speed;
      return {
        record,
        layer: layers.get(name) ?? layers.get(record?.computedBy ?? ''),
        ms: times?.quantized.nodes[name]?.ms,
        floatMs: times?.float.nodes[name]?.ms,
        kernel: (times?.quantized.nodes[name] ?? times?.float.nodes[name])?.kernel,
        bits: bitsOf(record),
      };
    },
  };
}
