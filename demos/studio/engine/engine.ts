// The engine in its Worker. It loads with the first model, so that the page itself stays small.

import type { RequantWorker, WorkerModel, WorkerQuantizedModel, WorkerSession } from 'requant';

let starting: Promise<RequantWorker> | undefined;

/** The Worker with the engine. */
export function engine(): Promise<RequantWorker> {
  starting ??= import('requant').then(({ createWorker }) => createWorker());
  starting.catch(() => {
    starting = undefined;
  });
  return starting;
}

/** The objects in the Worker for the present model. */
export interface Held {
  float?: WorkerModel;
  quantized?: WorkerQuantizedModel | WorkerModel;
  sessions?: { float: WorkerSession; quantized: WorkerSession };
}

export const held: Held = {};

const free = (object: { dispose(): Promise<void> } | undefined) =>
  object?.dispose().catch(() => {});

/** Gives back the memory of the quantized model and its sessions. */
export async function freeQuantized(): Promise<void> {
  const { sessions, quantized } = held;
  delete held.sessions;
  delete held.quantized;
  await Promise.all([free(sessions?.float), free(sessions?.quantized), free(quantized)]);
}

/** Gives back the memory of everything. */
export async function freeAll(): Promise<void> {
  const { float } = held;
  delete held.float;
  await freeQuantized();
  await free(float);
}
