// Writes models in forms other than ONNX: C for programs without this engine, JSON for scripts.

import { RequantError, invalidArgument, show } from '../base/errors.js';
import { MOST_INT, checkInteger, checkOptions } from '../base/options.js';
import { locate, readSource } from '../base/source.js';
import { cKernelsFile } from '../c_kernels_file.js';
import { env } from '../engine/env.js';
import { call } from '../engine/heap.js';
import { ownPaths } from '../engine/modules.js';
import { loadToolsFor } from '../model/load_model.js';
import { Model } from '../model/model.js';
import { inputShapes } from '../model/model_info.js';
import { type RequantizeMode, checkRequantize } from '../model/planning.js';
import { locateOwn } from '../own_files.js';
import type { QuantizedModel } from '../quantize/quantized_model.js';
import { describeModel } from './node_details.js';
import { graphOf } from './partition.js';
import type { CheckedPattern, Pattern } from './pattern.js';
import { checkPattern, matchPattern } from './patterns.js';

/** Options of {@link generateC}. */
export interface GenerateCOptions {
  /** A C identifier, after which the function, the macro and the header are named. Default "model". */
  name?: string;
  /** Shapes of the inputs, by name: needed for those whose dimensions are not all known. */
  shapes?: Readonly<Record<string, readonly number[]>>;
  /** As in {@link SessionOptions}. */
  requantize?: RequantizeMode;
  /** Functions of other libraries that compute operators, tried in this order. */
  calls?: readonly VendorCall[];
}

/** A function of another library that computes the operators of a pattern. */
export interface VendorCall {
  /**
   * The operators that a call computes, as {@link Backend.patterns} has them. They are those of the graph that
   * sessions run, with the integer operators of a quantized model (`'QLinearConv'`). A call ends with an
   * operator that has one result.
   */
  pattern: Pattern;
  /**
   * Name of the function: `void FUNCTION(void *result, const requant_tensor *tensors, int32_t tensor_count,
   * const requant_node *nodes, int32_t node_count)`. The header of the generated file says what it gets.
   */
  function: string;
  /** The header that declares it. Default: the generated header does. */
  header?: string;
}

/** A network as two files of C99. */
export interface GeneratedC {
  /**
   * `NAME.c`: constants, the kernels that are needed, and the function `NAME_run`, which takes a pointer for
   * each input, one for each output and the workspace.
   */
  source: string;
  /** `NAME.h`: the declaration, and `NAME_WORKSPACE_BYTES`. */
  header: string;
  /** Bytes that a run needs beside inputs and outputs. */
  workspaceBytes: number;
  /** Bytes of weights and tables, which are read only; weights of 4, 2 and 1 bits are packed. */
  constantBytes: number;
  /** The operators that functions of other libraries compute, by their names. */
  calls: { function: string; nodes: string[] }[];
}

/** Options of {@link generateJson}. */
export interface GenerateJsonOptions {
  /** Constants of more elements become base64 text of their bytes. Default 16. */
  maxNumbers?: number;
}

interface CheckedCall extends VendorCall {
  checkedPattern: CheckedPattern;
}

function checkCalls(calls: unknown): CheckedCall[] {
  if (!Array.isArray(calls)) {
    throw invalidArgument(`options.calls is ${show(calls)}`, 'options.calls', 'Give a list.');
  }
  return calls.map((given, i) => {
    const place = `options.calls[${i}]`;
    checkOptions(given, { pattern: 'any', function: 'string', header: 'string' }, place);
    const vendor = given as VendorCall;
    if (vendor.function === undefined) {
      throw invalidArgument(`${place} names no function`, `${place}.function`);
    }
    return { ...vendor, checkedPattern: checkPattern(vendor.pattern, `${place}.pattern`) };
  });
}

/** The operators of each call; an operator belongs to the first call that has it. */
function placeCalls(calls: readonly CheckedCall[], prepared: Model) {
  if (calls.length === 0) return { calls: [], named: [] };
  const graph = describeModel(prepared);
  const taken = new Set<number>();
  const placed: { function: string; header: string; nodes: readonly number[] }[] = [];
  for (const { function: name, header = '', checkedPattern } of calls) {
    for (const nodes of matchPattern(graph, checkedPattern)) {
      if (nodes.some((place) => taken.has(place))) continue;
      for (const place of nodes) taken.add(place);
      placed.push({ function: name, header, nodes });
    }
  }
  const named = placed.map(({ function: name, nodes }) => ({
    function: name,
    nodes: nodes.map((place) => graph.nodes[place]!.name),
  }));
  return { calls: placed, named };
}

/**
 * Reads names and texts of the kernels in C, alternating. They are a file beside the wasm modules and found
 * as those are: where a bundler makes one script of each Worker, it can have no dynamic import.
 */
async function readKernels(): Promise<string[]> {
  const paths = ownPaths(env.wasm);
  const file = 'c_kernels.txt';
  const place =
    typeof paths === 'string' || paths instanceof URL
      ? await locate(`${paths}${file}`)
      : await locateOwn(file, cKernelsFile);
  const { bytes } = await readSource(place);
  let kernels: unknown;
  try {
    kernels = JSON.parse(new TextDecoder().decode(bytes));
  } catch {
    // The response may be a page that says what is missing.
  }
  const entries = typeof kernels === 'object' && kernels !== null ? Object.entries(kernels) : [];
  if (entries.length > 0 && entries.every(([, text]) => typeof text === 'string')) {
    return entries.flat() as string[];
  }
  throw new RequantError(
    'LOAD_FAILED',
    `what is at ${'url' in place ? place.url : place.path} is not ${file}`,
    {
      value: file,
      hint: `Serve the package's ${file} beside its wasm files.`,
    },
  );
}

/**
 * The network as C99 that needs nothing but the standard library, for a microcontroller or any other program.
 * Its results are those of {@link InferenceSession}: integers bit for bit, floats (such as of Softmax) up to
 * rounding. Memory is laid out ahead of time, so nothing is allocated.
 *
 * @throws RequantError INVALID_ARGUMENT for an unknown option or a shape that is open, UNSUPPORTED naming an
 * operator that has no form in C.
 * @example
 * const { source, header } = await generateC(quantized, { name: 'digits' });
 * // digits_run(image, scores, workspace);
 */
export async function generateC(
  model: Model | QuantizedModel,
  options: GenerateCOptions = {},
): Promise<GeneratedC> {
  const kinds = { name: 'string', shapes: 'object', requantize: 'string', calls: 'any' } as const;
  checkOptions(options, kinds, 'options');
  checkRequantize(options.requantize, 'options.requantize');
  const graph = graphOf(model, 'generateC');
  const { name = 'model', shapes = {}, requantize = graph.requantize } = options;
  const wanted = checkCalls(options.calls ?? []);
  await loadToolsFor(graph);
  const { inputs } = graph.info;
  const dims = inputShapes(inputs, shapes);
  const { core } = graph.handle;
  const names = inputs.map((input) => input.name);
  const texts = await readKernels();
  const object = call(core, () => core.prepareForC(graph.handle.object, names, dims));
  const prepared = new Model(core, object, requantize);
  try {
    const { calls, named } = placeCalls(wanted, prepared);
    const given = { name, requantize, calls };
    return { ...call(core, () => core.generateC(object, given, texts)), calls: named };
  } finally {
    prepared.dispose();
  }
}

/**
 * The graph as JSON: `{ name, opsets, inputs, outputs, nodes: [{ name, op, domain, inputs, outputs,
 * attributes }], values: { NAME: { type, dims } }, constants: { NAME: { type, dims, data } } }`. For a
 * quantized model it is the integer graph.
 *
 * @throws RequantError UNSUPPORTED for control flow.
 */
export async function generateJson(
  model: Model | QuantizedModel,
  options: GenerateJsonOptions = {},
): Promise<string> {
  checkOptions(options, { maxNumbers: 'integer' }, 'options');
  const { maxNumbers = 16 } = options;
  checkInteger(maxNumbers, 0, MOST_INT, 'options.maxNumbers');
  const graph = graphOf(model, 'generateJson');
  await loadToolsFor(graph);
  const { core, object } = graph.handle;
  return call(core, () => core.generateJson(object, maxNumbers));
}
