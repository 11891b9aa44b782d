import { invalidArgument, show } from '../base/errors.js';
import { call } from '../engine/heap.js';
import { loadToolsFor } from '../model/load_model.js';
import { Model } from '../model/model.js';
import { QuantizedModel } from './quantized_model.js';

/**
 * Reads how a quantized file quantizes, whoever made it: Q/DQ, QOperator, or QONNX of 1 to 8 bits. The
 * result's `config` is the record, from which {@link configOf} makes a config, and `toOnnx` writes any other
 * form. A file of ours gives the configs it was made with. The caller disposes of the result.
 *
 * @throws RequantError UNSUPPORTED for a float model, and for integer operators whose scale the file does not
 * tell.
 * @example
 * const imported = await readQuantized(await loadModel('theirs.int8.onnx'));
 * const config = configOf(imported.config); // for another network of the same operators
 */
export async function readQuantized(model: Model): Promise<QuantizedModel> {
  if (!(model instanceof Model)) {
    throw invalidArgument(
      `readQuantized needs a Model, not ${show(model)}`,
      'model',
      'Use loadModel().',
    );
  }
  await loadToolsFor(model);
  const { core, object } = model.handle;
  return new QuantizedModel(
    core,
    call(core, () => core.readQuantized(object)),
  );
}
