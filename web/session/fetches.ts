// Reads the arguments of runs after the feeds: which outputs are wanted, where they go, and options.

import { RequantError, invalidArgument, show } from '../base/errors.js';
import { checkOptions, suggest } from '../base/options.js';
import { Tensor } from '../base/tensor.js';
import { lostData } from '../engine/heap.js';

/** Options of {@link InferenceSession.run}. */
export interface RunOptions {
  /** Checked before the run; a run itself is not interrupted. */
  signal?: AbortSignal;
  /** An option of onnxruntime-web, without meaning here. */
  logSeverityLevel?: number;
  tag?: string;
}

/** Names of outputs, or tensors to fill (null: a new one) by name. */
export type Fetches = readonly string[] | Readonly<Record<string, Tensor | null>>;

/** @internal The outputs wanted, with the tensors to fill; undefined: all. */
export function fetchTargets(
  fetches: unknown,
  known: readonly string[],
): Map<string, Tensor | null> | undefined {
  if (fetches === undefined || fetches === null) return undefined;
  if (typeof fetches !== 'object') {
    throw invalidArgument(`fetches must be an array of names, not ${show(fetches)}`, 'fetches');
  }
  const entries: [unknown, unknown][] = Array.isArray(fetches)
    ? fetches.map((name: unknown) => [name, null])
    : Object.entries(fetches);
  for (const [name, target] of entries) {
    if (typeof name !== 'string' || !known.includes(name)) {
      throw invalidArgument(
        `the model has no output ${show(name)}`,
        String(name),
        suggest(String(name), known),
      );
    }
    if (target === null || target === undefined || target instanceof Tensor) continue;
    throw invalidArgument(
      `the fetch "${name}" must be a Tensor or null, not ${show(target)}`,
      name,
      "Make one with new Tensor('float32', data, dims).",
    );
  }
  return new Map(
    entries.map(([name, target]) => [name as string, (target ?? null) as Tensor | null]),
  );
}

/** @internal The arguments behind the feeds of a run; `known` are the outputs. */
export function runArguments(
  second: unknown,
  third: unknown,
  known: readonly string[],
): { fetches: Map<string, Tensor | null> | undefined; options: RunOptions } {
  // As in onnxruntime-web, an object in second position is fetches when it has an output's name.
  const isOptions =
    typeof second === 'object' &&
    second !== null &&
    !Array.isArray(second) &&
    !Object.keys(second).some((key) => known.includes(key));
  const options = third ?? (isOptions ? second : {});
  checkOptions(options, { signal: 'signal', logSeverityLevel: 'any', tag: 'any' }, 'options');
  return {
    fetches: second === options ? undefined : fetchTargets(second, known),
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
