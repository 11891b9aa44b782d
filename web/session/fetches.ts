// Reads the arguments of runs after the feeds: which outputs are wanted, where they go, and options.

import { RequantError, invalidArgument, show } from '../base/errors.js';
import { checkOptions, suggest } from '../base/options.js';
import { type Tensor, bytesOf } from '../base/tensor.js';
import { type TensorLike, tensorOf } from '../base/tensor_like.js';
import type { Core, CoreResult } from '../core.js';
import { copyOutInto } from '../engine/heap.js';
import { lostData, toEngineTensor, toTensor } from '../engine/tensors.js';

/** Options of {@link InferenceSession.run}. */
export interface RunOptions {
  /** Checked before the run; a run itself is not interrupted. */
  signal?: AbortSignal;
  // Options of onnxruntime-web, without meaning here.
  logSeverityLevel?: number;
  logVerbosityLevel?: number;
  terminate?: boolean;
  tag?: string;
  extra?: Readonly<Record<string, unknown>>;
}

const runOptionKinds = {
  signal: 'signal',
  logSeverityLevel: 'any',
  logVerbosityLevel: 'any',
  terminate: 'any',
  tag: 'any',
  extra: 'any',
} as const;

/** Names of outputs, or tensors to fill (null: a new one) by name. */
export type Fetches = readonly string[] | Readonly<Record<string, TensorLike | null>>;

/** @internal A tensor to fill: the one that was given, and one of this package over the same memory. */
export interface Target {
  readonly tensor: Tensor;
  readonly given: Tensor;
}

/** @internal The outputs wanted, by name; null: a new tensor. */
export type Targets = ReadonlyMap<string, Target | null>;

function targetOf(name: string, given: unknown): Target | null {
  if (given === null || given === undefined) return null;
  const tensor = tensorOf(given, `fetch "${name}"`, name);
  // Elements in a plain array would be copied, and the copy would be filled.
  if (tensor && (tensor.type === 'string' || ArrayBuffer.isView((given as Tensor).data)))
    return { tensor, given: given as Tensor };
  throw invalidArgument(
    `the fetch "${name}" must be a Tensor or null, not ${show(given)}`,
    name,
    "Make one with new Tensor('float32', data, dims).",
  );
}

/** @internal The outputs wanted; undefined: all. */
export function fetchTargets(fetches: unknown, known: readonly string[]): Targets | undefined {
  if (fetches === undefined || fetches === null) return undefined;
  if (typeof fetches !== 'object') {
    throw invalidArgument(`fetches must be an array of names, not ${show(fetches)}`, 'fetches');
  }
  const entries: [unknown, unknown][] = Array.isArray(fetches)
    ? fetches.map((name: unknown) => [name, null])
    : Object.entries(fetches);
  const targets = new Map<string, Target | null>();
  for (const [name, given] of entries) {
    if (typeof name !== 'string' || !known.includes(name)) {
      throw invalidArgument(
        `the model has no output ${show(name)}`,
        String(name),
        suggest(String(name), known),
      );
    }
    targets.set(name, targetOf(name, given));
  }
  return targets;
}

/** @internal The arguments behind the feeds of a run; `known` are the outputs. */
export function runArguments(
  second: unknown,
  third: unknown,
  known: readonly string[],
): { targets: Targets | undefined; options: RunOptions } {
  // As in onnxruntime-web, an object in second position is fetches when it has an output's name.
  const isOptions =
    typeof second === 'object' &&
    second !== null &&
    !Array.isArray(second) &&
    !Object.keys(second).some((key) => known.includes(key));
  const options = third ?? (isOptions ? second : {});
  checkOptions(options, runOptionKinds, 'options');
  return {
    targets: second === options ? undefined : fetchTargets(second, known),
    options: options as RunOptions,
  };
}

/** @internal Throws when a result does not fit the tensor that should take it. */
export function checkTarget(
  { name, type, dims }: { name: string; type: string; dims: readonly number[] },
  target: Tensor,
): void {
  if (target.type !== type) {
    throw new RequantError('TYPE_MISMATCH', `output "${name}" is ${type}, not ${target.type}`, {
      value: name,
    });
  }
  if (target.dims.length !== dims.length || target.dims.some((dim, axis) => dim !== dims[axis])) {
    throw new RequantError(
      'SHAPE_MISMATCH',
      `output "${name}" has shape [${dims.join(', ')}], not [${target.dims.join(', ')}]`,
      { value: name },
    );
  }
  if (target.data.length !== target.size) throw lostData(`fetch "${name}"`, name);
}

function fillTexts(target: Tensor, texts: Tensor): void {
  const to = target.data as string[];
  (texts.data as string[]).forEach((text, at) => (to[at] = text));
}

/** @internal Copies results that are outside of the core into their targets, and returns these in their place. */
export function fillTargets(
  outputs: Record<string, Tensor>,
  targets: Targets | undefined,
): Record<string, Tensor> {
  for (const [name, target] of targets ?? []) {
    if (!target) continue;
    const output = outputs[name]!;
    checkTarget({ name, type: output.type, dims: output.dims }, target.tensor);
    if (output.type === 'string') fillTexts(target.tensor, output);
    else bytesOf(target.tensor.data).set(bytesOf(output.data));
    outputs[name] = target.given;
  }
  return outputs;
}

/**
 * @internal Copies the results that are wanted out of the core, into their targets or new tensors. Results for
 * which `staysInEngine` holds get new tensors in the core.
 */
export function takeResults(
  core: Core,
  results: readonly CoreResult[],
  targets: Targets | undefined,
  staysInEngine: (name: string) => boolean = () => false,
): Record<string, Tensor> {
  const outputs: Record<string, Tensor> = {};
  for (const result of results) {
    if (targets && !targets.has(result.name)) continue;
    const target = targets?.get(result.name);
    if (target) {
      checkTarget(result, target.tensor);
      if (result.type === 'string') fillTexts(target.tensor, toTensor(core, result));
      else copyOutInto(core, result.pointer, bytesOf(target.tensor.data));
    }
    outputs[result.name] =
      target?.given ?? (staysInEngine(result.name) ? toEngineTensor : toTensor)(core, result);
  }
  return outputs;
}
