/**
 * requant/transformers: importing it, before `@huggingface/transformers`, makes that package run its models here.
 *
 * @packageDocumentation
 */

import ort from '../onnxruntime.js';

// Where transformers.js looks for an ONNX runtime before it takes one of its own.
(globalThis as { [slot: symbol]: unknown })[Symbol.for('onnxruntime')] = ort;

export const { InferenceSession, Tensor, env } = ort;
