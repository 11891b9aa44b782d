// The engine in its Worker. It loads with the first model, so that the page itself stays small.

import type {
  RequantWorker,
  Tensor,
  WorkerModel,
  WorkerQuantizedModel,
  WorkerSession,
} from 'requant';
import type { Preparation } from '../bring/preparation.js';
import type { Samples } from '../bring/samples.js';
import type { Recipe } from '../choose/recipes.js';
import type { Width } from '../state/store.js';

let starting: Promise<RequantWorker> | undefined;

/** The Worker with the engine. */
export function engine(): Promise<RequantWorker> {
  starting ??= import('requant').then(({ createWorker }) => createWorker());
  starting.catch(() => {
    starting = undefined;
  });
  return starting;
}

/** A quantization of the whole model, from which single layers are changed. */
export interface Base {
  model: WorkerQuantizedModel;
  recipe: Recipe;
  widths: Readonly<Record<string, Width>>;
  samples: Samples;
  preparation: Preparation | undefined;
}

/** The answers of the float network, which do not depend on the quantization. */
export interface FloatOutputs {
  samples: Samples;
  preparation: Preparation | undefined;
  bySample: Map<number, Record<string, Tensor>>;
  bytes: number;
}

/** The objects in the Worker for the present model. */
export interface Held {
  float?: WorkerModel;
  floatSession?: WorkerSession;
  floatOutputs?: FloatOutputs;
  base?: Base;
  quantized?: WorkerQuantizedModel | WorkerModel;
  session?: WorkerSession;
}

export const held: Held = {};

const free = (object: { dispose(): Promise<void> } | undefined) =>
  object?.dispose().catch(() => {});

/** Gives back the memory of the quantized model and its session, except what later changes start from. */
export async function freeResult(): Promise<void> {
  const { session, quantized, base } = held;
  delete held.session;
  delete held.quantized;
  await Promise.all([free(session), quantized === base?.model ? undefined : free(quantized)]);
}

/** Gives back the memory of all quantized models. */
export async function freeQuantized(): Promise<void> {
  const { base } = held;
  await freeResult();
  delete held.base;
  await free(base?.model);
}

/** Gives back the memory of everything. */
export async function freeAll(): Promise<void> {
  const { float, floatSession } = held;
  delete held.float;
  delete held.floatSession;
  delete held.floatOutputs;
  await freeQuantized();
  await free(floatSession);
  await free(float);
}
