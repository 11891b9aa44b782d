// Quantizes the model by a recipe, and compares the result with it.

import { batch } from '@preact/signals';
import type { CompareReport, SearchProgress, WorkerModel, WorkerQuantizedModel } from 'requant';
import { type Samples, divide } from '../bring/samples.js';
import { type Recipe, configOf, recipeOf } from '../choose/recipes.js';
import {
  type Result,
  announcement,
  go,
  model,
  preparation,
  recipe,
  result,
  samples,
  widths,
} from '../state/store.js';
import { type Phase, type Report, runJob } from '../watch/job.js';
import { StudioError } from '../watch/problems.js';
import { answersOf } from './answers.js';
import { engine, freeQuantized, held } from './engine.js';
import { hasFewBits } from './few_bits.js';
import { emptyFeeds, measure, openSessions } from './speed.js';

/** Answers that are shown. */
const MOST_ANSWERS = 48;

/** Samples on which every layer is compared. */
const LAYER_SAMPLES = 4;

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

function phasesOf({ weights, epochs }: Recipe, hasSamples: boolean): Phase[] {
  return [
    { name: weights ? 'Quantizing weights' : 'Watching the network on your samples', weight: 3 },
    { name: 'Choosing scales', weight: weights ? 0 : 4 },
    { name: 'Training', weight: epochs ? 14 : 0 },
    { name: 'Comparing both networks', weight: hasSamples ? 4 : 0 },
    { name: 'Looking into every layer', weight: hasSamples && !weights ? 2 : 0 },
    { name: 'Measuring speed', weight: 2 },
  ];
}

/** Walks over samples by their indices. */
function walk<T>(indices: readonly number[], get: (index: number) => Promise<T>) {
  return {
    length: indices.length,
    async *[Symbol.asyncIterator]() {
      for (const index of indices) yield await get(index);
    },
  };
}

interface Task {
  recipe: Recipe;
  float: WorkerModel;
  given: Samples | undefined;
  signal: AbortSignal;
  report: Report;
}

function withLabel(given: Samples) {
  const settings = preparation.value;
  return async (index: number) => {
    const label = given.labels?.[index] ?? -1;
    const feeds = await given.feeds(index, settings);
    return label >= 0 ? { feeds, label } : { feeds };
  };
}

async function quantized(task: Task, indices: readonly number[]): Promise<WorkerQuantizedModel> {
  const { recipe: chosen, float, signal, report } = task;
  const given = task.given!;
  const worker = await engine();
  const settings = preparation.value;
  const onProgress = ({ phase, method, done, total = 1 }: SearchProgress) => {
    if (phase === 'calibrate') report(0, done, total);
    else report(1, done, total, method && (methodNames[method] ?? method.replaceAll('_', ' ')));
  };
  const made = await worker.quantize(float, {
    calibration: walk(indices, (index) => given.feeds(index, settings)),
    config: configOf(chosen, widths.value),
    signal,
    onProgress,
  });
  if (!chosen.epochs) return made;
  const trained = await worker.train(made, {
    dataset: walk(indices, withLabel(given)),
    epochs: chosen.epochs,
    batchSize: Math.min(32, indices.length),
    signal,
    onProgress: ({ epoch, epochs, done, total = 1 }) => {
      const detail = `round ${epoch + 1} of ${epochs}`;
      report(2, epoch * total + done, epochs * total, detail);
    },
  });
  await made.dispose();
  return trained;
}

async function compared(
  { float, given, signal, report }: Task,
  candidate: WorkerModel | WorkerQuantizedModel,
  indices: readonly number[],
) {
  const differing: number[] = [];
  const same: number[] = [];
  const worker = await engine();
  const whole = await worker.compare(float, candidate, {
    dataset: walk(indices, withLabel(given!)),
    signal,
    onProgress: ({ done, sample }) => {
      const index = indices[done - 1]!;
      (sample.floatTop1 === sample.candidateTop1 ? same : differing).push(index);
      report(3, done, indices.length);
    },
  });
  const order = [...differing, ...same].slice(0, MOST_ANSWERS);
  if (!('config' in candidate)) return { comparison: whole, order };
  // Inner values of a network cost far more than its outputs, and few samples tell which layers are worst.
  const few = indices.slice(0, LAYER_SAMPLES);
  const { layers } = await worker.compare(float, candidate, {
    dataset: walk(few, withLabel(given!)),
    layerwise: true,
    aloneSamples: 1,
    signal,
    onProgress: ({ done }) => report(4, done, few.length),
  });
  return { comparison: { ...whole, layers }, order };
}

/** Bytes of the file that the user gets, in which few bits are packed. */
async function fileSize(
  candidate: WorkerModel | WorkerQuantizedModel,
  comparison: CompareReport | undefined,
): Promise<number> {
  if ('config' in candidate && hasFewBits(candidate.config)) {
    return (await candidate.toOnnx({ format: 'qdq', int4: true })).length;
  }
  return comparison?.size.candidateBytes ?? (await candidate.toOnnx()).length;
}

async function work(task: Task): Promise<Result> {
  const { recipe: chosen, float, given, signal, report } = task;
  const began = performance.now();
  const worker = await engine();
  const { info, bytes } = model.value!;
  const parts = given && divide(given);
  await freeQuantized();
  const candidate = chosen.weights
    ? await worker.quantizeWeights(float, chosen.weights)
    : await quantized(task, parts!.calibration);
  const seconds = (performance.now() - began) / 1000;
  try {
    const { comparison, order } = parts
      ? await compared(task, candidate, parts.test)
      : { comparison: undefined, order: [] };
    const sessions = await openSessions(float, candidate);
    held.sessions = sessions;
    const settings = preparation.value;
    const answers = given
      ? await answersOf(sessions, order, given, settings, (done) =>
          report(5, done, 2 * order.length, ''),
        )
      : [];
    const feeds = given ? await given.feeds(0, settings) : await emptyFeeds(info);
    const speed = await measure(sessions, feeds, signal, (done, total) =>
      report(5, total + done, 2 * total, `${done} of ${total}`),
    ).catch((error: unknown) => {
      // A network without samples may refuse inputs of zeros.
      if (given || signal.aborted) throw error;
      return undefined;
    });
    held.quantized = candidate;
    const record = 'config' in candidate ? candidate.config : undefined;
    return {
      recipe: chosen.id,
      config: chosen.weights ? undefined : configOf(chosen, widths.value),
      widths: widths.value,
      record,
      warnings: record ? record.warnings : (candidate as WorkerModel).warnings,
      bytes: await fileSize(candidate, comparison),
      floatBytes: comparison?.size.floatBytes ?? bytes.size,
      report: comparison,
      answers,
      calibrated: chosen.weights ? 0 : parts!.calibration.length,
      separate: parts?.separate ?? false,
      speed,
      seconds,
    };
  } catch (error) {
    await candidate.dispose();
    throw error;
  }
}

/** Takes the chosen recipe, and shows the comparison. */
export async function quantizeNow(): Promise<void> {
  const chosen = recipeOf(recipe.value);
  const given = samples.value;
  const phases = phasesOf(chosen, given !== undefined);
  const done = await runJob(`Quantizing: ${chosen.name}`, phases, async (signal, report) => {
    const { float } = held;
    if (!float) throw new StudioError('There is no model yet.', 'Bring one first');
    if (chosen.needsSamples && !given) {
      throw new StudioError(
        'This recipe needs samples.',
        'It has to see which numbers flow through the network',
        'Bring some pictures or arrays, or take a recipe for weights alone',
      );
    }
    return work({ recipe: chosen, float, given, signal, report });
  });
  if (!done) {
    // The former result's networks are gone.
    if (!held.quantized) result.value = undefined;
    return;
  }
  batch(() => {
    result.value = done;
    announcement.value = `Done: ${chosen.name}.`;
  });
  go('believe');
}
