// Runs .tflite files in LiteRT.js. The file loads only when the user asks for it.

import {
  type CompiledModel,
  Tensor,
  loadAndCompile,
  loadLiteRt,
  supportsFeature,
} from '@litertjs/core';
import compatUrl from '@litertjs/core/wasm/litert_wasm_compat_internal.wasm?url';
import wasmUrl from '@litertjs/core/wasm/litert_wasm_internal.wasm?url';
import { type OtherFeed, answerRequests } from './other_run.js';

/** The types of numbers that LiteRT.js takes from programs. */
const arrays = { float32: Float32Array, int32: Int32Array, uint8: Uint8Array } as const;

/** The errors that LiteRT wrote; the exceptions that it throws say less. */
const errors: string[] = [];

/**
 * Loads LiteRT's module. LiteRT.js would run its script by importScripts(), which a Worker of modules cannot do, so
 * the script is imported here, and its factory is where LiteRT.js looks for it.
 */
async function start(): Promise<void> {
  const relaxed = await supportsFeature('relaxedSimd');
  const { default: ModuleFactory } = relaxed
    ? await import('@litertjs/core/wasm/litert_wasm_internal.js')
    : await import('@litertjs/core/wasm/litert_wasm_compat_internal.js');
  Object.assign(globalThis, {
    ModuleFactory,
    Module: {
      locateFile: () => (relaxed ? wasmUrl : compatUrl),
      printErr: (line: string) => void (/^(ERROR|FATAL)/.test(line) && errors.push(line)),
    },
    importScripts: () => {},
  });
  await loadLiteRt('imported.js');
}

function tensorOf({ type, data, dims }: OtherFeed): Tensor {
  const Numbers = arrays[type as keyof typeof arrays];
  if (!Numbers) throw new Error(`LiteRT.js takes no inputs of the type ${type}`);
  const values = Numbers.from(Array.from(data as ArrayLike<number | bigint>, Number));
  return new Tensor(values, [...dims]);
}

async function compile(model: Uint8Array): Promise<CompiledModel> {
  try {
    return await loadAndCompile(model, { accelerator: 'wasm', cpuOptions: { numThreads: 1 } });
  } catch (error) {
    const own = error instanceof Error ? error.message : 'LiteRT.js cannot run this file';
    throw new Error([own, ...errors].join(' '), { cause: error });
  }
}

answerRequests(async ({ model, feeds }) => {
  await start();
  const compiled = await compile(model);
  const inputs = Object.values(feeds).map(tensorOf);
  return {
    async run() {
      for (const output of await compiled.run(inputs)) output.delete();
    },
    release() {
      for (const input of inputs) input.delete();
      compiled.delete();
    },
  };
});
