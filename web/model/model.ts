/// <reference lib="esnext.disposable" preserve="true" />

// Model: a graph in the memory of the engine.

import { invalidArgument } from '../base/errors.js';
import { checkOneOf, checkOptions } from '../base/options.js';
import type { Core, CoreModel, CoreSession } from '../core.js';
import { Handle, call, makeDisposable, takeBlob } from '../engine/heap.js';
import { onnxOf } from '../engine/written_model.js';
import { loadTools, sessionThreads } from '../engine/load_core.js';
import { type ModelInfo, type ValueInfo, inputShapes } from './model_info.js';
import {
  type PlanningOptions,
  type RequantizeMode,
  checkRequantize,
  createCoreSession,
  planningOptionKinds,
} from './planning.js';
import { type OnnxFiles, type SaveOptions, onnxFilesOf, saveOnnx } from './onnx_files.js';
import { type TfliteFile, type TfliteOptions, checkTfliteOptions, writeTflite } from './tflite.js';

/** Options of {@link Model.optimize}. */
export interface OptimizeOptions {
  /** Run only these passes, in their order; {@link engineInfo} lists all names. */
  passes?: readonly string[];
  /** Passes to leave out. */
  disable?: readonly string[];
  /** Keep the graph as text and DOT after each pass that changed it. */
  dump?: boolean;
}

/** The effects of the passes. */
export interface OptimizeReport {
  /** How often all passes ran until nothing changed any more. */
  rounds: number;
  passes: {
    name: string;
    changed: boolean;
    milliseconds: number;
    nodesBefore: number;
    nodesAfter: number;
  }[];
  dumps?: { pass: string; text: string; dot: string }[];
}

/** How a product of codes with zero points is expressed in plain integer operators. */
export type Decomposition = 'subtract_first' | 'four_terms';

/** Options of {@link Model.legalize}. */
export interface LegalizeOptions {
  /**
   * `'subtract_first'` (default): `sum((qx - zx) * (qw - zw))`, with zero points as inputs of ConvInteger and
   * MatMulInteger. `'four_terms'`: `sum(qx * qw) - zw * sum(qx) - zx * sum(qw) + K * zx * zw`, with products
   * that have no zero points. Both give the same bits.
   */
  decomposition?: Decomposition;
  /** The rounding that is written down: `'fixed'` (default), `'nearest'` or `'gemmlowp'`. */
  requantize?: Exclude<RequantizeMode, 'float'>;
}

/** What {@link Model.legalize} made. */
export interface LegalizedModel {
  /** The model in plain integer operators; the caller disposes of it. */
  model: Model;
  /** The quantized operators that were rewritten. */
  legalized: { name: string; type: string }[];
  /** The quantized operators that stay as they are. */
  left: { name: string; type: string; reason: string }[];
}

/** Options of {@link Model.toPlan}. */
export interface PlanOptions extends PlanningOptions {
  /** Shapes of the inputs, by name: needed for those whose dimensions are not all known. */
  shapes?: Readonly<Record<string, readonly number[]>>;
  /** As in {@link SessionOptions}; the plan is for so many threads. */
  numThreads?: number | 'auto';
}

const planOptionKinds = {
  ...planningOptionKinds,
  shapes: 'object',
  numThreads: 'any',
} as const;

/** An operator whose weights stay float. */
export interface FloatOperator {
  /** The operator's name, for one in a body with the path to it: "if/then_branch/product". */
  name: string;
  type: string;
  reason: string;
}

/** How {@link quantizeWeights} made the weights of an operator. */
export interface WeightLayer {
  /** The operator's name, for one in a body with the path to it. */
  name: string;
  /** Whether samples decided. */
  calibrated: boolean;
  /** Says what was chosen, or why samples did not decide. */
  detail: string;
  /**
   * The squared error of the operator's output relative to its square, on the samples and up to 64 columns: of
   * rounding to nearest, and of what was chosen.
   */
  before?: number;
  after?: number;
}

/**
 * A parsed and verified graph in the engine's memory. {@link loadModel} makes it; `dispose()` gives the
 * memory back.
 */
export class Model {
  /** @internal */
  readonly handle: Handle<CoreModel>;
  /** @internal The mode of sessions that ask for none. */
  readonly requantize: RequantizeMode;
  /**
   * In models that {@link quantizeWeights} and {@link quantizeDynamic} make: the operators whose weights stay
   * float, bodies of If, Loop and Scan included. Empty in others.
   */
  readonly floatOperators: readonly FloatOperator[];
  /** The float operators in one line of text. */
  readonly warnings: readonly string[];
  /** In models that {@link quantizeWeights} makes with calibration or rotations: a row for every product. Empty in others. */
  readonly weightLayers: readonly WeightLayer[];
  #info: ModelInfo | undefined;

  declare readonly [Symbol.dispose]: () => void;
  declare readonly [Symbol.asyncDispose]: () => Promise<void>;

  /** @internal */
  constructor(
    core: Core,
    object: CoreModel,
    requantize: RequantizeMode = 'float',
    floatOperators: readonly FloatOperator[] = [],
    warnings: readonly string[] = [],
    weightLayers: readonly WeightLayer[] = [],
  ) {
    this.handle = new Handle(core, object, 'model');
    this.requantize = requantize;
    this.floatOperators = floatOperators;
    this.warnings = warnings;
    this.weightLayers = weightLayers;
  }

  /** Inputs, outputs, operators and sizes. */
  get info(): ModelInfo {
    this.#info ??= this.handle.json<ModelInfo>((model) => model.info());
    return this.#info;
  }

  /** A short summary of the graph for people. */
  summary(): string {
    const { name, opsets, inputs, outputs, nodes, parameters, constantBytes, quantized } =
      this.info;
    const value = (meta: ValueInfo) =>
      `${meta.name}: ${meta.type}[${meta.dims.map((dim) => dim ?? '?').join(', ')}]`;
    const counts = new Map<string, number>();
    for (const node of nodes) counts.set(node.op, (counts.get(node.op) ?? 0) + 1);
    const operators = [...counts]
      .sort((a, b) => b[1] - a[1] || a[0].localeCompare(b[0]))
      .map(([op, count]) => `${count} ${op}`);
    const versions = Object.entries(opsets).map(([domain, at]) => `${domain || 'ai.onnx'} ${at}`);
    return [
      `graph "${name}" (${quantized ? 'quantized' : 'float'}; opset ${versions.join(', ')})`,
      ...inputs.map((meta) => `input  ${value(meta)}`),
      ...outputs.map((meta) => `output ${value(meta)}`),
      `${nodes.length} operators: ${operators.join(', ')}`,
      `${parameters.toLocaleString('en')} constant elements, ${(constantBytes / 1000).toFixed(1)} kB`,
    ].join('\n');
  }

  /**
   * The graph as text, one operator a line. Constants with more elements than `maxConstantElements` (default
   * 16) are only described; 0 writes all of them, and {@link parseModel} reads such text.
   */
  toText(options: { maxConstantElements?: number } = {}): string {
    checkOptions(options, { maxConstantElements: 'integer' }, 'options');
    const { maxConstantElements = 16 } = options;
    if (maxConstantElements < 0) {
      throw invalidArgument('maxConstantElements must not be negative', 'maxConstantElements');
    }
    return this.handle.call((model) => model.text(maxConstantElements));
  }

  /** The graph in Graphviz's language. */
  toDot(): string {
    return this.handle.call((model) => model.dot());
  }

  /**
   * The bytes of an ONNX file.
   *
   * @throws RequantError DISPOSED, OUT_OF_MEMORY, UNSUPPORTED for a model of 2 GB and more, where ONNX files end.
   */
  toOnnx(): Uint8Array<ArrayBuffer> {
    return onnxOf(this.handle.core, this.handle.object);
  }

  /**
   * The model in two files: one with the graph, and one with the weights of 1 kB and more, which has no limit.
   *
   * @param dataName The name of the second file, which the first one refers to; it must lie in the same folder.
   * @throws RequantError DISPOSED, OUT_OF_MEMORY, INVALID_ARGUMENT for a name that is a path.
   * @example
   * const { bytes, externalData } = model.toOnnxFiles('model.onnx_data');
   * const same = await loadModel(bytes, { externalData });
   */
  toOnnxFiles(dataName: string): OnnxFiles {
    return onnxFilesOf(this.handle, dataName);
  }

  /**
   * The model as a .tflite file for LiteRT, and a report of what differs: a float model, or one with
   * QuantizeLinear and DequantizeLinear pairs. Convolutions and pools have their channels last there.
   *
   * @throws RequantError UNSUPPORTED for what such a file cannot hold, naming operator, value and remedy;
   * INVALID_ARGUMENT for an unknown option, DISPOSED.
   * @example
   * const { bytes, report } = await model.toTflite();
   * console.log(report.inputs[0].dims, report.transposes);
   */
  async toTflite(options: TfliteOptions = {}): Promise<TfliteFile> {
    checkTfliteOptions(options);
    const { core } = this.handle;
    await loadTools(core);
    return writeTflite(core, this.handle.object, this.info.inputs, options);
  }

  /**
   * Writes the ONNX file: to a path in Node, as a download of that name in a page. With `externalData`, the name of a
   * second file, writes that one with the weights beside it, piece by piece ({@link toOnnxFiles}).
   *
   * @throws RequantError what {@link toOnnx} throws; SAVE_FAILED, and UNSUPPORTED in a Worker of a page.
   */
  save(name: string, options: SaveOptions = {}): Promise<void> {
    return saveOnnx(this.handle, name, options);
  }

  /**
   * The plan of a session of this model, as {@link InferenceSession.toPlan} gives it: kernels chosen, weights
   * packed, memory laid out. {@link InferenceSession.create} takes the bytes.
   *
   * @throws RequantError UNSUPPORTED for a model of open shape without `shapes`.
   */
  async toPlan(options: PlanOptions = {}): Promise<Uint8Array<ArrayBuffer>> {
    checkOptions(options, planOptionKinds, 'options');
    checkRequantize(options.requantize, 'options.requantize');
    const { numThreads, shapes = {}, requantize = this.requantize } = options;
    const { core, object } = this.handle;
    const threads = await sessionThreads(core, numThreads);
    const planning = { ...options, requantize };
    const session = new Handle(
      core,
      await createCoreSession(core, object, planning, { threads }),
      'plan',
    );
    try {
      if (Object.keys(shapes).length > 0) this.#planFor(session, shapes);
      return takeBlob(
        core,
        session.call((made) => made.save()),
      );
    } finally {
      session.dispose();
    }
  }

  #planFor(
    session: Handle<CoreSession>,
    shapes: Readonly<Record<string, readonly number[]>>,
  ): void {
    const { inputs } = this.info;
    const names = inputs.map(({ name }) => name);
    const dims = inputShapes(inputs, shapes);
    const types = inputs.map(({ type }) => type);
    session.call((made) => made.prepareFor(names, types, dims));
  }

  /**
   * Simplifies the graph in place, so that fewer operators compute the same outputs.
   *
   * @throws RequantError INVALID_ARGUMENT for an unknown option or pass, DISPOSED.
   */
  optimize(options: OptimizeOptions = {}): OptimizeReport {
    checkOptions(options, { passes: 'strings', disable: 'strings', dump: 'boolean' }, 'options');
    const { passes, disable, dump } = options;
    this.#info = undefined;
    return this.handle.json<OptimizeReport>((model) =>
      model.optimize({
        ...(passes ? { only: passes } : {}),
        ...(disable ? { disable } : {}),
        ...(dump === undefined ? {} : { dump }),
      }),
    );
  }

  /**
   * The quantized model with its arithmetic in the open: ConvInteger, MatMulInteger and sums of int32, the
   * int32 bias, ai.requant::FixedPointMultiply by multipliers and shifts, a clamp and a cast. Its outputs are
   * bit for bit those of a session of this model with the same `requantize`; sessions run it, `toText()` shows
   * it and `toOnnx()` stores it.
   *
   * @throws RequantError INVALID_ARGUMENT for an unknown option and for a model that is not quantized,
   * UNSUPPORTED for operators that have no form of opset 13, DISPOSED.
   */
  async legalize(options: LegalizeOptions = {}): Promise<LegalizedModel> {
    checkOptions(options, { decomposition: 'string', requantize: 'string' }, 'options');
    const { decomposition = 'subtract_first', requantize = 'fixed' } = options;
    checkOneOf(decomposition, ['subtract_first', 'four_terms'], 'options.decomposition');
    checkRequantize(requantize, 'options.requantize');
    const { core } = this.handle;
    await loadTools(core);
    const { model, report } = call(core, () =>
      core.legalize(this.handle.object, { decomposition, requantize }),
    );
    const nodes = JSON.parse(report) as Omit<LegalizedModel, 'model'>;
    return { model: new Model(core, model, requantize), ...nodes };
  }

  /**
   * A separate model; constants share their memory.
   *
   * @throws RequantError DISPOSED.
   */
  clone(): Model {
    return new Model(
      this.handle.core,
      this.handle.call((model) => model.copy()),
      this.requantize,
    );
  }

  /** Gives the memory back; the model cannot be used any more. */
  dispose(): void {
    this.handle.dispose();
  }
}

makeDisposable(Model, function (this: Model) {
  this.dispose();
});
