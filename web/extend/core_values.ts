// What crosses between the core and functions of users: tensors, types, errors.

import { RequantError, invalidArgument, show } from '../base/errors.js';
import { Tensor } from '../base/tensor.js';
import type { Core } from '../core.js';
import type { CoreGivenTensor, CoreTensor, UserFailure } from '../core_own.js';
import { copyTensor, toTensor } from '../engine/tensors.js';

/** Type and shape of a value. A dimension is a number, a name or null (not known). */
export interface OperandType {
  type: string;
  /** Null: not even the rank is known. */
  dims: readonly (number | string | null)[] | null;
}

/** Attributes of an operator. Those that are tensors or graphs are left out. */
export type OperatorAttributes = Readonly<
  Record<string, number | string | readonly number[] | readonly string[]>
>;

/** A copy of a tensor of the core. */
export function fromCore(core: Core, given: CoreTensor): Tensor {
  return toTensor(core, { name: '', ...given });
}

/** Copies a tensor into the core's memory; the core frees it. */
export function toCore(core: Core, tensor: unknown, what: string): CoreGivenTensor {
  if (!(tensor instanceof Tensor)) {
    throw invalidArgument(`${what} must be a Tensor, not ${show(tensor)}`, what);
  }
  return { type: tensor.type, dims: [...tensor.dims], pointer: copyTensor(core, tensor) };
}

/** Calls a function of the user and turns what it throws into what the core understands. */
export function guarded<T>(action: () => T): T | UserFailure {
  try {
    return action();
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    const hint = error instanceof RequantError ? error.hint : undefined;
    return { error: { message, hint } };
  }
}

/** The error for a function that returned a promise. */
export function refusePromise(result: unknown, what: string): void {
  if (typeof (result as { then?: unknown } | null | undefined)?.then !== 'function') return;
  throw invalidArgument(`${what} must not return a promise`, what, 'The core cannot wait for it.');
}
