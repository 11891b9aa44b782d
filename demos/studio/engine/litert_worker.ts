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
import threadUrl from '@litertjs/core/wasm/litert_wasm_threaded_internal.js?url';
import threadedUrl from '@litertjs/core/wasm/litert_wasm_threaded_internal.wasm?url';
import { type OtherFeed, answerRequests } from './other_run.js';

/** The types of numbers that LiteRT.js takes from programs. */
const arrays = { float32: Float32Array, int32: Int32Array, uint8: Uint8Array } as const;

/** The errors that LiteRT wrote; the exceptions that it throws say less. */
const errors: string[] = [];

/** The function that starts LiteRT's module, and the addresses of its files. */
async function moduleFor(threads: number) {
  if (threads > 1) {
    const { default: factory } =
      await import('@litertjs/core/wasm/litert_wasm_threaded_internal.js');
    return { factory, wasm: threadedUrl, thread: threadUrl };
  }
  if (await supportsFeature('relaxedSimd')) {
    const { default: factory } = await import('@litertjs/core/wasm/litert_wasm_internal.js');
    return { factory, wasm: wasmUrl };
  }
  const { default: factory } = await import('@litertjs/core/wasm/litert_wasm_compat_internal.js');
  return { factory, wasm: compatUrl };
}

/**
 * Loads LiteRT's module. LiteRT.js would run its script by importScripts(), which a Worker of modules cannot do, so
 * the script is imported here, and its factory is where LiteRT.js looks for it.
 */
async function start(threads: number): Promise<void> {
  const { factory, wasm, thread } = await moduleFor(threads);
  Object.assign(globalThis, {
    ModuleFactory: factory,
    Module: {
      locateFile: () => wasm,
      // The script of the Workers that it starts.
      ...(thread ? { mainScriptUrlOrBlob: thread } : {}),
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

async function compile(model: Uint8Array, numThreads: number): Promise<CompiledModel> {
  try {
    return await loadAndCompile(model, { accelerator: 'wasm', cpuOptions: { numThreads } });
  } catch (error) {
    const own = error instanceof Error ? error.message : 'LiteRT.js cannot run this file';
    throw new Error([own, ...errors].join(' '), { cause: error });
  }
}

answerRequests(async ({ model, feeds, threads }) => {
  await start(threads);
  const compiled = await compile(model, threads);
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
