// ONNX Runtime as the other engine of verify().

import { RequantError, invalidArgument, show } from '../base/errors.js';
import type { EngineRun, EngineTensor } from './verification.js';

/** The part of the packages onnxruntime-web and onnxruntime-node that {@link onnxRuntime} uses. */
export interface OnnxRuntime {
  InferenceSession: {
    create(bytes: Uint8Array, options?: object): Promise<OnnxRuntimeSession>;
  };
  Tensor: new (type: never, data: never, dims: readonly number[]) => unknown;
}

/** A session of ONNX Runtime. */
export interface OnnxRuntimeSession {
  run(feeds: never): Promise<Readonly<Record<string, unknown>>>;
}

/**
 * Makes an {@link EngineRun} that runs a file in ONNX Runtime.
 *
 * @param ort The module: `import * as ort from 'onnxruntime-web'`.
 * @param bytes The file, such as {@link QuantizedModel.toOnnx} makes.
 * @param options Options of its InferenceSession.create().
 * @throws RequantError INVALID_ARGUMENT for a value that is no such module; UNSUPPORTED for a file that it
 * refuses.
 */
export async function onnxRuntime(
  ort: OnnxRuntime,
  bytes: Uint8Array,
  options: object = {},
): Promise<EngineRun> {
  if (typeof ort?.InferenceSession?.create !== 'function' || typeof ort.Tensor !== 'function') {
    throw invalidArgument(
      `${show(ort)} is no module of ONNX Runtime`,
      'ort',
      "Give what import * as ort from 'onnxruntime-web' names.",
    );
  }
  let session: OnnxRuntimeSession;
  try {
    session = await ort.InferenceSession.create(bytes, options);
  } catch (cause) {
    const message = cause instanceof Error ? cause.message : String(cause);
    throw new RequantError('UNSUPPORTED', `ONNX Runtime refuses the file: ${message}`, { cause });
  }
  return async (feeds) => {
    const theirs = Object.fromEntries(
      Object.entries(feeds).map(([name, { type, data, dims }]) => [
        name,
        new ort.Tensor(type as never, data as never, dims),
      ]),
    );
    return (await session.run(theirs as never)) as Readonly<Record<string, EngineTensor>>;
  };
}
