// Restrictions of pages, in a Node that the package takes for a page.

import assert from 'node:assert/strict';
import test from 'node:test';

process.type = 'renderer'; // no Node, as far as the package can see
const { createWorker, loadModel } = await import('../../dist/index.js');

test('a page that may not compile WebAssembly is told why, every time', async (t) => {
  const { Module } = WebAssembly;
  t.after(() => (WebAssembly.Module = Module));
  WebAssembly.Module = class {
    constructor() {
      throw new WebAssembly.CompileError('violates the Content Security Policy');
    }
  };
  t.mock.method(WebAssembly, 'compile', () =>
    Promise.reject(new WebAssembly.CompileError('violates the Content Security Policy')),
  );
  t.mock.method(WebAssembly, 'validate', () => true);
  for (let time = 0; time < 2; time++) {
    await assert.rejects(loadModel(Uint8Array.of(1, 2, 3)), {
      code: 'LOAD_FAILED',
      hint: /'wasm-unsafe-eval'/,
      message: /violates/,
    });
  }
});

test('a worker that cannot be started', async (t) => {
  t.after(() => delete globalThis.Worker);
  globalThis.Worker = class {
    constructor() {
      throw new DOMException('cannot be accessed from origin', 'SecurityError');
    }
  };
  await assert.rejects(createWorker(), {
    code: 'LOAD_FAILED',
    message: /cannot be accessed/,
    hint: /workerPaths.*another origin/,
  });
  globalThis.Worker = class {
    constructor() {
      setTimeout(() => this.onerror({}), 1);
    }

    terminate() {}
  };
  await assert.rejects(createWorker(), { code: 'LOAD_FAILED', message: /could not be loaded/ });
});
