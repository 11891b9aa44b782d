// Makes the quantized network: everything, or only what depends on the layers that the user changed.

import type { QuantizeConfig, SearchProgress, WorkerModel, WorkerQuantizedModel } from 'requant';
import type { Samples } from '../bring/samples.js';
import { type Recipe, configOf } from '../choose/recipes.js';
import { type Result, model, preparation, widths } from '../state/store.js';
import type { Report } from '../watch/job.js';
import { keepingDecisions, withOtherBits } from './change.js';
import { engine, freeQuantized, freeResult, held } from './engine.js';

const methodNames: Readonly<Record<string, string>> = {
  round: 'Rounding',
  round_weights: 'Rounding weights with error feedback',
  bias_correction: 'Correcting biases',
  float_sums: 'Trying sums in float',
  float_start: 'Trying the beginning in float',
  float_end: 'Trying the end in float',
  float_answers: 'Trying more in float',
  equalize: 'Making channels alike',
  adaround: 'Learning how to round',
  empirical_bias: 'Measuring mean errors',
};

/** Walks over samples by their indices. */
export function walk<T>(indices: readonly number[], get: (index: number) => Promise<T>) {
  return {
    length: indices.length,
    async *[Symbol.asyncIterator]() {
      for (const index of indices) yield await get(index);
    },
  };
}

/** One quantization, and what it may use. */
export interface Task {
  recipe: Recipe;
  float: WorkerModel;
  given: Samples | undefined;
  /** Whether to quantize everything, though only single layers changed. */
  whole: boolean;
  signal: AbortSignal;
  report: Report;
}

/** Samples with their right classes, where they are known. One share alone has no classes to the engine. */
function withLabel(given: Samples) {
  const settings = preparation.value;
  const [output] = model.value!.info.outputs;
  const single = output?.dims.every((dim) => dim === 1) ?? false;
  return async (index: number) => {
    const label = given.labels?.[index] ?? -1;
    const feeds = await given.feeds(index, settings);
    return label >= 0 && !single ? { feeds, label } : { feeds };
  };
}

async function quantized(
  task: Task,
  indices: readonly number[],
  config: QuantizeConfig,
): Promise<WorkerQuantizedModel> {
  const { float, signal, report } = task;
  const given = task.given!;
  const worker = await engine();
  const settings = preparation.value;
  const onProgress = ({ phase, method, done, total = 1 }: SearchProgress) => {
    if (phase === 'calibrate') report(0, done, total);
    else report(1, done, total, method && (methodNames[method] ?? method.replaceAll('_', ' ')));
  };
  return worker.quantize(float, {
    calibration: walk(indices, (index) => given.feeds(index, settings)),
    config,
    signal,
    onProgress,
  });
}

async function trained(
  task: Task,
  made: WorkerQuantizedModel,
  indices: readonly number[],
): Promise<WorkerQuantizedModel> {
  const { recipe: chosen, given, signal, report } = task;
  const worker = await engine();
  const result = await worker.train(made, {
    dataset: walk(indices, withLabel(given!)),
    epochs: chosen.epochs!,
    batchSize: Math.min(32, indices.length),
    signal,
    onProgress: ({ epoch, epochs, done, total = 1 }) => {
      const detail = `round ${epoch + 1} of ${epochs}`;
      report(2, epoch * total + done, epochs * total, detail);
    },
  });
  await made.dispose();
  return result;
}

/** A quantized network, and how much of it was made. */
export interface Made {
  candidate: WorkerModel | WorkerQuantizedModel;
  made: Result['made'];
}

/** Makes the network again from the last quantization of everything, if that had the same recipe and samples. */
async function changed(task: Task, indices: readonly number[]): Promise<Made | undefined> {
  const { base } = held;
  const same =
    base?.recipe === task.recipe &&
    base.samples === task.given &&
    base.preparation === preparation.value;
  if (!same || task.whole) return undefined;
  await freeResult();
  const own = await withOtherBits(base, task.recipe, widths.value);
  if (own) return { candidate: own, made: own === base.model ? 'all' : 'layers' };
  const config = await keepingDecisions(base, task.recipe, widths.value);
  if (!config) return undefined;
  return { candidate: await quantized(task, indices, config), made: 'decisions kept' };
}

/** Makes the network that the recipe and the bits of single layers say. */
export async function makeOne(task: Task, indices: readonly number[]): Promise<Made> {
  const { recipe: chosen, float, given } = task;
  if (chosen.weights) {
    await freeQuantized();
    const worker = await engine();
    return { candidate: await worker.quantizeWeights(float, chosen.weights), made: 'all' };
  }
  const quick = await changed(task, indices);
  if (quick) return quick;
  await freeQuantized();
  const made = await quantized(task, indices, configOf(chosen, widths.value));
  if (chosen.epochs) return { candidate: await trained(task, made, indices), made: 'all' };
  held.base = {
    model: made,
    recipe: chosen,
    widths: widths.value,
    samples: given!,
    preparation: preparation.value,
  };
  return { candidate: made, made: 'all' };
}
