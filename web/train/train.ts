// Training: quantization-aware, and of float models.

import { throwIfAborted } from '../base/abort.js';
import { invalidArgument, show } from '../base/errors.js';
import { call } from '../engine/heap.js';
import { loadToolsFor } from '../model/load_model.js';
import { Model } from '../model/model.js';
import { QuantizedModel } from '../quantize/quantized_model.js';
import { type TrainOptions, checkTrainOptions } from './train_options.js';
import { Training } from './training.js';

/**
 * Quantization-aware training: a quantized model continues to learn with its grids in place, from labels,
 * from the float network it was made of, or both, in the same engine. Rounding passes gradients straight
 * through; weights, biases and scales learn. It is for few bits, where what quantize() recovers is not
 * enough, and takes some thousand samples and some minutes. It works in slices, so that events, progress and
 * `signal` get their turn; {@link RequantWorker.train} does the same on another thread.
 *
 * @param quantized The result of {@link quantize} or {@link readQuantized}; it stays as it is. Gradients go
 * through the operators of convolutional networks; warnings name layers that no gradient reaches.
 * @returns A model with the same operators and bits; `config.recovery` tells how the training went.
 * @throws RequantError INVALID_ARGUMENT for a bad option, no samples, NaN or infinity in one, when the loss
 * becomes NaN (a learning rate that is too large), and for a `resume` of another model; UNSUPPORTED for a model
 * without layers that can learn; OUT_OF_MEMORY for a batch whose values do not fit; ABORTED.
 * @example
 * const quantized = await quantize(model, { calibration, config: { weights: { bits: 2 } } });
 * const trained = await train(quantized, { dataset: samplesWithLabels, epochs: 20 });
 * await trained.save('model.w2.onnx');
 */
export async function train(
  quantized: QuantizedModel,
  options: TrainOptions,
): Promise<QuantizedModel>;
/**
 * Trains a float model, which learns from labels. Nothing is quantized: `quantize()` comes afterwards.
 *
 * @returns A new float model, in the optimized form of the given one.
 */
export async function train(model: Model, options: TrainOptions): Promise<Model>;
export async function train(
  given: QuantizedModel | Model,
  options: TrainOptions,
): Promise<QuantizedModel | Model> {
  if (!(given instanceof QuantizedModel) && !(given instanceof Model)) {
    throw invalidArgument(
      `train needs a model, not ${show(given)}`,
      'quantized',
      'Use quantize(), readQuantized() or loadModel().',
    );
  }
  checkTrainOptions(options);
  throwIfAborted(options.signal);
  if (given instanceof Model) return trainFloat(given, options);
  const training = new Training(given, options);
  try {
    return await training.run();
  } finally {
    training.dispose();
  }
}

async function trainFloat(model: Model, options: TrainOptions): Promise<Model> {
  await loadToolsFor(model);
  const { core, object } = model.handle;
  const start = new QuantizedModel(
    core,
    call(core, () => core.floatQuantized(object)),
  );
  try {
    // Without a quantization the network's own answers teach it nothing.
    const trained = await train(start, { labelShare: 1, loss: 'scores', ...options });
    try {
      return trained.floatModel();
    } finally {
      trained.dispose();
    }
  } finally {
    start.dispose();
  }
}
