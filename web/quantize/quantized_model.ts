/// <reference lib="esnext.disposable" preserve="true" />

import { invalidArgument } from '../base/errors.js';
import { checkOneOf, checkOptions } from '../base/options.js';
import { saveBytes } from '../base/save.js';
import type { SearchReport } from '../base/search_report.js';
import type { Core, CoreModel, CoreQuantized, Failure } from '../core.js';
import { Handle, call, makeDisposable } from '../engine/heap.js';
import { onnxOf } from '../engine/written_model.js';
import { Model } from '../model/model.js';
import type { RequantizeMode } from '../model/planning.js';
import {
  type TfliteFile,
  type TfliteOptions,
  checkTfliteOptions,
  writeTflite,
} from '../model/tflite.js';
import type { ModelInfo } from '../model/model_info.js';
import { editsOf } from './edits.js';
import type { QuantizationRecord } from './record.js';

/**
 * `'qdq'`: float operators between QuantizeLinear and DequantizeLinear; `'qoperator'`: integer operators;
 * `'qonnx'`: float operators behind Quant nodes of QONNX, which have exactly 1 to 8 bits.
 */
export type OnnxFormat = 'qdq' | 'qoperator' | 'qonnx';

/** Options of {@link QuantizedModel.toOnnx}. */
export interface ExportOptions {
  /** Default 'qdq'. */
  format?: OnnxFormat;
  /** For 'qdq': writes 4-bit values as int4 and uint4, which needs opset 21. Default false. */
  int4?: boolean;
  /**
   * For 'qdq': does what `int4` does and writes 2-bit values as int2 and uint2, which needs opset 25. Default
   * false.
   */
  int2?: boolean;
}

/** A model quantized by {@link quantize}; `dispose()` gives its memory back. */
export class QuantizedModel {
  /** @internal */
  readonly handle: Handle<CoreQuantized>;
  /** With `floor` or `budget`: what {@link quantize} tried. */
  search?: SearchReport;
  #integer: Model | undefined;
  #config: QuantizationRecord | undefined;

  declare readonly [Symbol.dispose]: () => void;
  declare readonly [Symbol.asyncDispose]: () => Promise<void>;

  /** @internal */
  constructor(core: Core, object: CoreQuantized) {
    this.handle = new Handle(core, object, 'quantized model');
  }

  /** How every operator slot was quantized; {@link requantize} takes changes of it. */
  get config(): QuantizationRecord {
    this.#config ??= this.handle.json<QuantizationRecord>((quantized) => quantized.record());
    return this.#config;
  }

  /**
   * Makes a quantized model with other values of slots, without calibrating again: change members of
   * `config.operators[i].inputs[j]` or `outputs[j]` (`scale`, `offset` or `zeroPoint`, `quantMin`, `quantMax`,
   * `bits`, `rounding`, `policy`, `range`, `state`), then call this. A deleted `scale` follows from the `range`,
   * or from the weights. Biases, pad values and slots that are joined to a changed one follow. This model stays
   * as it is, and `config` keeps what was written to it. `docs/quantization.md` has the rules.
   *
   * @param record The changed record: {@link config}, or a copy.
   * @throws RequantError INVALID_ARGUMENT for a record of another model and for members that cannot be changed;
   * INVALID_QUANTIZATION for values that a slot cannot have. Both name the slot, and what would be possible.
   * @example
   * quantized.config.operators[0].inputs[0].quantMax = 127;
   * const narrower = await quantized.requantize();
   */
  async requantize(record: QuantizationRecord = this.config): Promise<QuantizedModel> {
    const own = this.handle.json<QuantizationRecord>((quantized) => quantized.record());
    const edits = editsOf(record, own);
    return new QuantizedModel(
      this.handle.core,
      this.handle.call((quantized) => quantized.edited(edits)),
    );
  }

  /** The integer graph that sessions run; disposed of together with this object. */
  get integerModel(): Model {
    // Throws DISPOSED after dispose().
    const { object } = this.handle;
    this.#integer ??= this.#model(() => object.integer(), 'fixed');
    return this.#integer;
  }

  /** The optimized float graph it was made from; the caller disposes of it. */
  floatModel(): Model {
    return this.#model((quantized) => quantized.floatModel(), 'float');
  }

  #model(
    method: (quantized: CoreQuantized) => CoreModel | Failure,
    requantize: RequantizeMode,
  ): Model {
    return new Model(this.handle.core, this.handle.call(method), requantize);
  }

  /**
   * The bytes of an ONNX file for other engines. Default format: 'qdq'.
   *
   * @throws RequantError UNSUPPORTED for operators that the format cannot express, simulated ones included;
   * INVALID_ARGUMENT for an unknown option or format.
   */
  toOnnx(options: ExportOptions = {}): Uint8Array<ArrayBuffer> {
    checkOptions(options, { format: 'string', int4: 'boolean', int2: 'boolean' }, 'options');
    const { format = 'qdq', int4 = false, int2 = false } = options;
    const narrowest = int2 ? 2 : int4 ? 4 : 8;
    checkOneOf(format, ['qdq', 'qoperator', 'qonnx'], 'options.format');
    if (format !== 'qdq' && narrowest < 8) {
      const key = int2 ? 'int2' : 'int4';
      throw invalidArgument(`${key} is of the format 'qdq', not '${format}'`, `options.${key}`);
    }
    const { core } = this.handle;
    const model = this.handle.call((quantized) =>
      format === 'qdq'
        ? quantized.qdq(narrowest)
        : format === 'qonnx'
          ? quantized.qonnx()
          : quantized.qoperator(),
    );
    try {
      return onnxOf(core, model);
    } finally {
      model.delete();
    }
  }

  /**
   * The model as a .tflite file for LiteRT, and a report of what differs. Activations are int8 with one scale for
   * each tensor, weights int8 with a scale for each output channel, biases int32; what LiteRT does not compute on
   * such codes is computed on floats. Answers differ from those of sessions by at most a step of each layer, since
   * LiteRT rounds sums in another way. `docs/tflite.md` has the details.
   *
   * @throws RequantError UNSUPPORTED for what such a file cannot hold (activations of fewer bits, operators that
   * LiteRT lacks), naming operator, value and remedy; INVALID_ARGUMENT for an unknown option.
   * @example
   * const { bytes, report } = quantized.toTflite();
   * if (report.floats.length > 0) console.warn('on floats:', report.floats);
   */
  toTflite(options: TfliteOptions = {}): TfliteFile {
    checkTfliteOptions(options);
    const { core } = this.handle;
    const model = this.handle.call((quantized) => quantized.qdq(8));
    try {
      const { inputs } = JSON.parse(call(core, () => model.info())) as ModelInfo;
      return writeTflite(core, model, inputs, options);
    } finally {
      model.delete();
    }
  }

  /**
   * Writes the ONNX file: to a path in Node, as a download of that name in a page.
   *
   * @throws RequantError what {@link toOnnx} throws; SAVE_FAILED, and UNSUPPORTED in a Worker of a page.
   */
  save(name: string, options: ExportOptions = {}): Promise<void> {
    return saveBytes(name, this.toOnnx(options));
  }

  /** Gives the memory back; sessions made from it go on working. */
  dispose(): void {
    this.#integer?.dispose();
    this.handle.dispose();
  }
}

makeDisposable(QuantizedModel, function (this: QuantizedModel) {
  this.dispose();
});
