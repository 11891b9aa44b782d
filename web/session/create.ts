// Makes the executors of sessions on this thread, from files, models and saved plans.

import { throwIfAborted } from '../base/abort.js';
import { debug, warn, warnOnce } from '../base/log.js';
import { withoutUndefined } from '../base/options.js';
import type { Source } from '../base/source.js';
import type { Core } from '../core.js';
import { Handle } from '../engine/heap.js';
import { loadLowBits, loadOperators, sessionThreads, threadsOf } from '../engine/load_core.js';
import { modelOf, openSource } from '../model/load_model.js';
import type { LoadOptions } from '../model/load_options.js';
import { Model } from '../model/model.js';
import { isPlan, needsOperators } from '../model/plan_file.js';
import { createCoreSession } from '../model/planning.js';
import { QuantizedModel } from '../quantize/quantized_model.js';
import { LocalExecutor } from './local.js';
import { type QuantizeFirst, quantizeFirst } from './quantize_first.js';
import { loadPlan } from './saved_plan.js';
import type { SessionOptions } from './session_options.js';

// An engine loaded for this session with one thread only has already warned why.
function createdThreads(core: Core, loaded: boolean, numThreads: unknown): Promise<number> {
  if (loaded && threadsOf(core) === 1) return Promise.resolve(1);
  return sessionThreads(core, numThreads);
}

async function ofPlan(
  core: Core,
  bytes: Uint8Array,
  options: SessionOptions,
): Promise<LocalExecutor> {
  const threads = await createdThreads(core, true, options.numThreads);
  if (needsOperators(bytes)) await loadOperators(core);
  const handle = new Handle(core, loadPlan(core, bytes, options, threads), 'session');
  try {
    await loadOperators(
      core,
      handle.call((object) => object.functions()),
    );
    if (handle.call((object) => object.lowBits())) await loadLowBits(core, false);
  } catch (error) {
    handle.dispose();
    throw error;
  }
  return new LocalExecutor(handle, [], [], options.preferredOutputLocation);
}

/** Warns of sizes for dimensions that the model does not have, and gives those that it has. */
function knownDimensions(
  model: Model,
  { freeDimensionOverrides: given, logSeverityLevel }: SessionOptions,
): Record<string, number> | undefined {
  if (!given) return undefined;
  const symbols = new Set(model.info.inputs.flatMap(({ dims }) => dims));
  for (const name of Object.keys(given)) {
    if (symbols.has(name)) continue;
    warnOnce(`no input has the dimension "${name}" of freeDimensionOverrides`, logSeverityLevel);
  }
  return { ...given };
}

async function ofModel(
  model: Model,
  options: SessionOptions,
  ours: boolean,
  loaded: boolean,
): Promise<LocalExecutor> {
  const { taps = [], numThreads, enableProfiling, graphOptimizationLevel: level } = options;
  const { profile = enableProfiling, optimize = level === 'disabled' ? false : undefined } =
    options;
  const threads = await createdThreads(model.handle.core, loaded, numThreads);
  const { core, object } = model.handle;
  const outputs = taps.length > 0 ? model.info.outputs.map(({ name }) => name) : [];
  const dimensions = knownDimensions(model, options);
  const planning = withoutUndefined({
    ...options,
    optimize,
    requantize: options.requantize ?? model.requantize,
  }) as SessionOptions;
  const start = performance.now();
  const session = await createCoreSession(core, object, planning, {
    consume: ours,
    threads,
    taps: [...taps],
    ...(profile === undefined ? {} : { profile }),
    ...(dimensions === undefined ? {} : { dimensions }),
  });
  debug(() => `made a session in ${(performance.now() - start).toFixed(1)} ms`);
  const handle = new Handle(core, session, 'session');
  return new LocalExecutor(handle, taps, outputs, options.preferredOutputLocation);
}

/** Writes the optimized graph to a file, as onnxruntime-web does with this option. */
async function saveOptimized(model: Model, name: string): Promise<void> {
  const copy = model.clone();
  try {
    copy.optimize();
    await copy.save(name);
  } finally {
    copy.dispose();
  }
}

/** @internal What InferenceSession.create makes, for options that are checked. */
export async function createLocal(
  source: Source | Model | QuantizedModel,
  options: SessionOptions,
): Promise<LocalExecutor> {
  const { onProgress, signal, externalData, numThreads, preload, quantize, cache } = options;
  const { dynamicRange = quantize === undefined ? undefined : 'float' } = options;
  throwIfAborted(signal);
  const wanted: QuantizeFirst | undefined = quantize && { quantize, cache, onProgress, signal };
  let model: Model | undefined;
  let ours = false;
  let loaded = false;
  try {
    if (source instanceof Model) {
      model = source;
    } else if (source instanceof QuantizedModel) {
      model = source.integerModel;
    } else {
      const loadOptions = withoutUndefined({
        onProgress,
        signal,
        externalData,
        numThreads,
        preload: wanted ? [...(preload ?? []), 'tools'] : preload,
        dynamicRange,
      }) as LoadOptions;
      const opened = await openSource(source, loadOptions, wanted !== undefined);
      if (isPlan(opened.loaded.bytes))
        return await ofPlan(opened.core, opened.loaded.bytes, options);
      loaded = true;
      if (wanted) {
        const { core } = opened;
        const load = () => modelOf(core, opened.loaded, loadOptions);
        model = await quantizeFirst(core, { bytes: opened.loaded.bytes, load }, wanted);
      } else {
        model = await modelOf(opened.core, opened.loaded, loadOptions);
      }
      ours = true;
    }
    if (wanted && !ours) {
      const given = model;
      model = await quantizeFirst(
        given.handle.core,
        { load: () => Promise.resolve(given.clone()) },
        wanted,
      );
      ours = true;
    }
    for (const warning of model.warnings) warn(warning, options.logSeverityLevel);
    if (options.optimizedModelFilePath !== undefined) {
      await saveOptimized(model, options.optimizedModelFilePath);
    }
    return await ofModel(model, options, ours, loaded);
  } finally {
    if (ours) model?.dispose();
  }
}
