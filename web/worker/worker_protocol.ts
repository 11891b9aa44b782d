// The messages between a page (or Node's main thread) and the worker that computes.

import { RequantError, type RequantErrorCode } from '../base/errors.js';
import type { SearchReport } from '../base/search_report.js';
import { Tensor, type TensorDataMap, type TensorType, tensorFromBytes } from '../base/tensor.js';
import { placeOf } from '../base/tensor_place.js';
import { type Feeds, ownFeeds, viewOf } from '../engine/tensors.js';
import type { WasmFile } from '../own_files.js';

export interface PackedTensor {
  type: TensorType;
  /** The elements, or the number of the tensor in the worker's engine. */
  data: TensorDataMap[TensorType] | number;
  dims: readonly number[];
}

export type PackedFeeds = Record<string, PackedTensor>;

/** How one side of the connection knows tensors in the worker's engine. */
export interface PlacedTensors {
  /** The number of a tensor in an engine; undefined if its elements must be copied. */
  numberOf(tensor: Tensor): number | undefined;
  /** The tensor of a number. */
  tensorOf(number: number, packed: PackedTensor): Tensor;
}

export interface PackedError {
  code: RequantErrorCode;
  message: string;
  node?: string;
  value?: string;
  hint?: string;
  search?: SearchReport;
}

/** Messages to the worker. */
export type Request =
  | { kind: 'call'; id: number; method: string; args: unknown[] }
  | { kind: 'abort'; id: number }
  // Answers a pull with an item of the call's iterable.
  | { kind: 'item'; id: number; done: boolean; value?: unknown }
  | { kind: 'failed'; id: number; error: PackedError }
  // Answers a question.
  | { kind: 'answer'; id: number; question: number; value?: unknown; error?: PackedError }
  // Answers the request for a module; without one the worker loads it itself.
  | { kind: 'module'; file: WasmFile; module?: WebAssembly.Module; error?: PackedError };

/** Messages from the worker. */
export type Response =
  | { kind: 'ready' }
  | { kind: 'result'; id: number; value: unknown }
  | { kind: 'error'; id: number; error: PackedError }
  | { kind: 'progress'; id: number; value: unknown }
  | { kind: 'pull'; id: number }
  // Asks the caller to call a function of its own.
  | { kind: 'ask'; id: number; question: number; name: string; args: unknown[] }
  | { kind: 'module'; file: WasmFile };

export function packFeeds(feeds: Feeds, placed?: PlacedTensors): PackedFeeds {
  return Object.fromEntries(
    Object.entries(ownFeeds(feeds)).map(([name, tensor]) => {
      const { type, dims } = tensor;
      return [name, { type, data: placed?.numberOf(tensor) ?? dataOf(tensor), dims }];
    }),
  );
}

/** The elements of a tensor, copied if they are in an engine of this thread. */
function dataOf(tensor: Tensor): TensorDataMap[TensorType] {
  if (!placeOf(tensor)) return tensor.data;
  return tensorFromBytes(tensor.type, new Uint8Array(viewOf(tensor)), tensor.dims).data;
}

export function unpackFeeds(feeds: PackedFeeds, placed?: PlacedTensors): Record<string, Tensor> {
  return Object.fromEntries(
    Object.entries(feeds).map(([name, packed]) => {
      const { type, data, dims } = packed;
      const tensor =
        typeof data === 'number'
          ? placed!.tensorOf(data, packed)
          : new Tensor(type, data as never, dims);
      return [name, tensor];
    }),
  );
}

export function packError(error: unknown): PackedError {
  if (error instanceof RequantError) {
    const { code, message, node, value, hint, search } = error;
    return {
      code,
      message,
      ...(node ? { node } : {}),
      ...(value ? { value } : {}),
      ...(hint ? { hint } : {}),
      ...(search ? { search } : {}),
    };
  }
  return { code: 'INTERNAL', message: error instanceof Error ? error.message : String(error) };
}

export function unpackError({ code, message, ...details }: PackedError): RequantError {
  return new RequantError(code, message, details);
}

/** Buffers of tensors or bytes that their thread does not use any more, which are moved instead of copied. */
export function buffersOf(value: unknown): ArrayBuffer[] {
  if (ArrayBuffer.isView(value)) return [value.buffer as ArrayBuffer];
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return [];
  return Object.values(value).flatMap(buffersOf);
}
