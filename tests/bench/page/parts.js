import * as ort from 'onnxruntime-web/wasm';
import * as requant from 'requant';
import { makeParts } from '../parts.js';

requant.env.wasm.simd = new URLSearchParams(location.search).get('simd');
ort.env.wasm.numThreads = 1;
ort.env.logLevel = 'error';

globalThis.bench = makeParts({ requant, ort }, async (file) => {
  const response = await fetch(`/models/${file}`);
  if (!response.ok) throw new Error(`${file}: ${response.status}`);
  return new Uint8Array(await response.arrayBuffer());
});
