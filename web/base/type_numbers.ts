import type { TensorType } from './tensor.js';

// The numbers of element types in files (TensorProto.DataType), which the engine uses as well.
export const typeNumbers: Readonly<Record<TensorType, number>> = {
  float32: 1,
  uint8: 2,
  int8: 3,
  uint16: 4,
  int16: 5,
  int32: 6,
  int64: 7,
  string: 8,
  bool: 9,
  float16: 10,
  float64: 11,
  uint32: 12,
  uint64: 13,
  bfloat16: 16,
  float8e4m3fn: 17,
  float8e4m3fnuz: 18,
  float8e5m2: 19,
  float8e5m2fnuz: 20,
};

/** The type of that number, if there is one. */
export function typeOfNumber(number: number): TensorType | undefined {
  return (Object.keys(typeNumbers) as TensorType[]).find((type) => typeNumbers[type] === number);
}
