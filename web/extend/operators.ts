// registerOperator(): operators of the user's own, by functions in JavaScript.

import { invalidArgument, show } from '../base/errors.js';
import { checkInteger, checkOneOf, checkOptions } from '../base/options.js';
import type { Tensor } from '../base/tensor.js';
import { call } from '../engine/heap.js';
import { addToCores, removeFromCores } from '../engine/load_core.js';
import {
  type OperandType,
  type OperatorAttributes,
  fromCore,
  guarded,
  refusePromise,
  toCore,
} from './core_values.js';

/** An operator of the user's own. */
export interface OperatorDefinition {
  /** The operator's name in models. */
  name: string;
  /** The domain in models; not ONNX's. */
  domain: string;
  /** How many inputs it has; default 1. With a range, the last ones may be left out. */
  inputs?: number | readonly [least: number, most: number];
  /** How many outputs it has; default 1. */
  outputs?: number;
  /**
   * How the quantizer treats it: `'float'` (default) keeps it in float; `'unary'`, for functions of each element
   * alone, makes a table of 256 entries; `'passive'`, for operators that move or select elements, lets it work
   * on the codes.
   */
  quantize?: 'float' | 'unary' | 'passive';
  /**
   * The types of the outputs for those of the inputs (undefined: left out), as far as they are known. Default:
   * the type of the first input, for every output.
   */
  infer?: (
    inputs: readonly [OperandType, ...(OperandType | undefined)[]],
    attributes: OperatorAttributes,
  ) => OperandType | readonly OperandType[];
  /** Computes the outputs. The same inputs must give the same outputs, since constants are folded. */
  run: (
    inputs: readonly [Tensor, ...(Tensor | undefined)[]],
    attributes: OperatorAttributes,
  ) => Tensor | readonly Tensor[];
}

const keyOf = (name: string, domain: string) => `operator ${domain}::${name}`;

function countsOf(inputs: unknown): readonly [number, number] {
  const range = Array.isArray(inputs) ? (inputs as unknown[]) : [inputs, inputs];
  const [least, most] = range;
  checkInteger(least, 0, 100, 'definition.inputs');
  checkInteger(most, Number(least), 100, 'definition.inputs');
  if (range.length !== 2 || least === undefined || most === undefined) {
    throw invalidArgument(
      `definition.inputs is ${show(inputs)}`,
      'definition.inputs',
      'It must be a number, or the least and the greatest number.',
    );
  }
  return [least as number, most as number];
}

/**
 * Adds an operator to the engine, which models can then have: sessions, the interpreter and the quantizer call
 * its function. Register it before models with it are loaded. Sessions call it on the thread that runs them,
 * between their own steps. Models in Workers do not have the operator, and neither has C.
 *
 * @throws RequantError INVALID_ARGUMENT for a definition that is wrong or an operator that exists.
 * @example
 * await registerOperator({
 *   name: 'Square',
 *   domain: 'my.domain',
 *   quantize: 'unary',
 *   run: ([x]) => new Tensor('float32', [...x.data].map((value) => Number(value) ** 2), x.dims),
 * });
 */
export async function registerOperator(definition: OperatorDefinition): Promise<void> {
  checkOptions(
    definition,
    {
      name: 'string',
      domain: 'string',
      inputs: 'any',
      outputs: 'integer',
      quantize: 'string',
      infer: 'any',
      run: 'any',
    },
    'definition',
  );
  const { name, domain, inputs = 1, outputs = 1, quantize = 'float', infer, run } = definition;
  for (const [key, value] of Object.entries({ name, domain })) {
    if (typeof value === 'string' && /^[A-Za-z][\w.-]*$/.test(value)) continue;
    throw invalidArgument(
      `definition.${key} is ${show(value)}`,
      `definition.${key}`,
      'It must be a word of letters, digits, dots and _.',
    );
  }
  if (['ai.onnx', 'ai.requant', 'com.microsoft'].includes(domain)) {
    throw invalidArgument(
      `the domain ${domain} belongs to operators of the engine`,
      'definition.domain',
      'Give a domain of your own.',
    );
  }
  const [minInputs, maxInputs] = countsOf(inputs);
  checkInteger(outputs, 1, 100, 'definition.outputs');
  checkOneOf(quantize, ['float', 'unary', 'passive'], 'definition.quantize');
  if (typeof run !== 'function') {
    throw invalidArgument(`definition.run is ${show(run)}`, 'definition.run');
  }
  if (infer !== undefined && typeof infer !== 'function') {
    throw invalidArgument(`definition.infer is ${show(infer)}`, 'definition.infer');
  }
  if (infer === undefined && minInputs === 0) {
    throw invalidArgument('an operator without inputs needs infer', 'definition.infer');
  }
  await addToCores(keyOf(name, domain), (core) => {
    call(core, () =>
      core.addOperator({
        name,
        domain,
        minInputs,
        maxInputs,
        maxOutputs: outputs,
        quantize,
        infer: (types, attributes) =>
          guarded(() => {
            const made = infer
              ? infer(types as [OperandType, ...OperandType[]], attributes)
              : Array.from({ length: outputs }, () => types[0]!);
            refusePromise(made, `infer of ${name}`);
            return (Array.isArray(made) ? made : [made]) as OperandType[];
          }),
        run: (tensors, attributes) =>
          guarded(() => {
            const given = tensors.map((tensor) => tensor && fromCore(core, tensor));
            const made = run(given as [Tensor, ...Tensor[]], attributes);
            refusePromise(made, `run of ${name}`);
            const list = (Array.isArray(made) ? made : [made]) as unknown[];
            return list.map((tensor) => toCore(core, tensor, `the result of ${name}`));
          }),
      }),
    );
  });
}

/**
 * Takes an operator of {@link registerOperator} out of the engine. Models that have it cannot run any more.
 *
 * @throws RequantError INVALID_ARGUMENT for an operator that was not registered.
 */
export function removeOperator(name: string, domain: string): void {
  if (!removeFromCores(keyOf(name, domain), (core) => core.removeOperator(name, domain))) {
    throw invalidArgument(`there is no operator ${domain}::${name} of your own`, name);
  }
}
