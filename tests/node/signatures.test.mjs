// If other content comes in place of a model or a wasm module, the error names it, with a remedy.
// external_data.test.mjs tests external data.

import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { deflateRawSync, gzipSync } from 'node:zlib';
import { describe, test } from 'node:test';
import { InferenceSession, createWorker, env, loadModel } from '../../dist/index.js';
import { compiled } from '../../dist/engine/modules.js';
import { insteadOf, signatures } from '../../dist/base/signatures.js';
import { MODEL, ROOT, isError } from './support.mjs';

const text = (...parts) => new TextEncoder().encode(parts.join(''));
const bytes = (...parts) =>
  Uint8Array.from(
    parts.flatMap((part) =>
      typeof part === 'string' ? Array.from(part, (letter) => letter.charCodeAt(0)) : part,
    ),
  );
const wide = (letters, order) =>
  bytes(
    order === 'le' ? [0xff, 0xfe] : [0xfe, 0xff],
    Array.from(letters, (letter) => [letter.charCodeAt(0), 0]).flatMap((pair) =>
      order === 'le' ? pair : pair.reverse(),
    ),
  );

/** A zip's local header, and what a reader of its beginning sees after it. */
const zip = (name, content = 'content') => {
  const packed = deflateRawSync(content);
  const header = Buffer.alloc(30);
  header.write('PK\x03\x04', 'latin1');
  header.writeUInt16LE(20, 4);
  header.writeUInt16LE(8, 8);
  header.writeUInt32LE(packed.length, 18);
  header.writeUInt32LE(content.length, 22);
  header.writeUInt16LE(name.length, 26);
  return Buffer.concat([header, Buffer.from(name), packed]);
};

const safetensors = (header) => {
  const size = Buffer.alloc(8);
  size.writeBigUInt64LE(BigInt(header.length));
  return Buffer.concat([size, Buffer.from(header), Buffer.alloc(64, 1)]);
};

// For each row of the table: files that it must recognize, and a word of the remedy.
const rows = {
  'an empty file': { files: [new Uint8Array(0)], remedy: /address/ },
  'a web page (HTML)': {
    files: [
      text('<!DOCTYPE html>\n<html lang="en"><head></head></html>'),
      text('<!doctype HTML PUBLIC "-//W3C//DTD HTML 4.01//EN">'),
      text('\ufeff\n\t <HTML><body>Not found</body></HTML>'),
      text('<!-- built at noon -->\n<!-- twice -->\n<html>'),
      text('<?xml version="1.0"?>\n<!DOCTYPE html PUBLIC "-//W3C//DTD XHTML 1.0 Strict//EN">'),
      text('<head><title>404</title></head>'),
      wide('<html><body>', 'le'),
      wide('  <!doctype html>', 'be'),
    ],
    remedy: /public\//,
  },
  'a pointer of Git LFS': {
    files: [
      text('version https://git-lfs.github.com/spec/v1\noid sha256:4d7a214614ab2935\nsize 12345\n'),
      text('version https://hawser.github.com/spec/v1\noid sha256:4d7a\nsize 1\n'),
    ],
    remedy: /git lfs pull/,
  },
  'a network of OpenVINO (XML)': {
    files: [text('<?xml version="1.0" ?>\n<net name="torch_jit" version="11">')],
    remedy: /ONNX/,
  },
  'an XML document': {
    files: [
      text('<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>NoSuchKey</Code></Error>'),
      text('<Error><Code>AccessDenied</Code></Error>'),
    ],
    remedy: /storage/,
    shows: /NoSuchKey|AccessDenied/,
  },
  'a model of TensorFlow.js (JSON)': {
    files: [
      text('{"format": "graph-model", "generatedBy": "2.10.0", "modelTopology": {"node": []}}'),
      text('{"modelTopology":{"keras_version":"2.4.0"},"weightsManifest":[]}'),
    ],
    remedy: /tf2onnx/,
  },
  JSON: {
    files: [text('{"error":"Repository not found"}'), text(' [\n{"a": 1}]'), text('{\n}    ')],
    remedy: /address/,
    shows: /\{|\[/,
  },
  'a TFLite model': {
    files: [bytes([0x1c, 0, 0, 0], 'TFL3', [0x14, 0, 0x20, 0])],
    remedy: /./,
    fits: 'model',
  },
  'a model in the format of ONNX Runtime (.ort)': {
    files: [bytes([0x10, 0, 0, 0], 'ORTM', [0, 0, 0, 0])],
    remedy: /\.onnx/,
  },
  gzip: { files: [gzipSync(readFileSync(MODEL))], remedy: /DecompressionStream/ },
  Zstandard: { files: [bytes([0x28, 0xb5, 0x2f, 0xfd, 4, 0])], remedy: /[Uu]npack/ },
  xz: { files: [bytes([0xfd], '7zXZ', [0, 0, 4])], remedy: /[Uu]npack/ },
  bzip2: { files: [bytes('BZh91AY&SY', [1, 2])], remedy: /[Uu]npack/ },
  '7z': { files: [bytes('7z', [0xbc, 0xaf, 0x27, 0x1c, 0, 4])], remedy: /[Uu]npack/ },
  'a tar archive': {
    files: [bytes('model.onnx', new Array(247).fill(0), 'ustar\x0000', new Array(249).fill(0))],
    remedy: /[Uu]npack/,
  },
  'a PyTorch file (the zip of torch.save or torch.jit.save)': {
    files: [
      zip('resnet18/data.pkl', '\x80\x02}'),
      Buffer.concat([zip('archive/.format_version'), zip('archive/data.pkl')]),
      zip('net/byteorder', 'little'),
    ],
    remedy: /torch\.onnx\.export/,
  },
  'a Keras model (.keras)': {
    files: [zip('metadata.json'), zip('config.json')],
    remedy: /tf2onnx/,
  },
  'a NumPy archive (.npz)': { files: [zip('arr_0.npy')], remedy: /requant\/dataset/ },
  'a zip archive': { files: [zip('model.onnx')], remedy: /[Uu]npack/ },
  'an empty zip archive': { files: [bytes('PK\x05\x06', new Array(18).fill(0))], remedy: /./ },
  'a Python pickle (as torch.save of PyTorch wrote it before 1.6)': {
    files: [
      bytes([
        0x80, 2, 0x8a, 0x0a, 0x6c, 0xfc, 0x9c, 0x46, 0xf9, 0x20, 0x6a, 0xa8, 0x50, 0x19, 0x2e,
      ]),
      bytes([0x80, 4, 0x95, 0x1a, 0, 0, 0, 0, 0, 0, 0, 0x7d]),
      bytes([0x80, 2], 'ctorch._utils\n'),
    ],
    remedy: /torch\.onnx\.export/,
  },
  'a safetensors file': {
    files: [
      safetensors('{"weight":{"dtype":"F32","shape":[4,4],"data_offsets":[0,64]}}'),
      safetensors('{"__metadata__":{"format":"pt"}}'),
      safetensors('{}'),
    ],
    remedy: /weights, but no network/,
  },
  'a GGUF file': { files: [bytes('GGUF', [3, 0, 0, 0, 1, 0, 0, 0])], remedy: /no network/ },
  'a file of GGML': {
    files: [bytes('tjgg', [1, 0, 0, 0]), bytes('lmgg', [1, 0])],
    remedy: /no network/,
  },
  'an HDF5 file (as Keras writes .h5)': {
    files: [bytes([0x89], 'HDF\r\n\x1a\n', [0, 0, 0])],
    remedy: /tf2onnx/,
  },
  'a NumPy array (.npy)': {
    files: [bytes([0x93], 'NUMPY', [1, 0, 0x76, 0])],
    remedy: /requant\/dataset/,
  },
  'an engine of TensorRT': { files: [bytes('ftrt', [1, 0, 0, 0])], remedy: /ONNX/ },
  'a picture': {
    files: [
      bytes([0x89], 'PNG\r\n\x1a\n'),
      bytes([0xff, 0xd8, 0xff, 0xe0]),
      bytes('GIF89a'),
      bytes('RIFF', [1, 2, 3, 4], 'WEBPVP8 '),
    ],
    remedy: /requant\/dataset/,
  },
  'a WebAssembly module': {
    files: [readFileSync(path.join(ROOT, 'dist/requant-tools.wasm'))],
    remedy: /address/,
    fits: 'module',
  },
  'a saved plan of a session': {
    // The bytes alone would be recognized before a model is read.
    files: [bytes([0x93], 'RQPLAN\n', [1, 0])],
    remedy: /InferenceSession\.create/,
  },
  'a graph of TensorFlow (.pb)': {
    files: [
      bytes([0x0a, 0x2c, 0x0a, 1], 'x', [0x12, 0x0b], 'Placeholder', [0x2a, 0x0b]),
      bytes([0x08, 1, 0x12, 0xd0, 0x8f, 1, 0x0a, 0xcf, 0x8f, 1]),
    ],
    remedy: /tf2onnx/,
  },
  'a Core ML model': {
    files: [bytes([0x08, 4, 0x12, 0xb1, 1, 0x0a, 0x20, 0x0a, 5], 'image')],
    remedy: /ONNX/,
  },
  'an ONNX model': { files: [readFileSync(MODEL)], remedy: /./, fits: 'model' },
  'a model as text (protobuf)': {
    files: [
      text('ir_version: 8\nproducer_name: "x"\ngraph {\n}\n'),
      text('# exported\nnode {\n  name: "x"\n}\n'),
    ],
    remedy: /onnx\.save/,
  },
  'a file of zeros': { files: [new Uint8Array(2000)], remedy: /again/ },
  text: {
    files: [text('404: Not Found'), text('Zugriff verweigert für alle…'), text('x'.repeat(5000))],
    remedy: /address/,
    shows: /Not Found|verweigert|xxx/,
  },
};

const literal = (name) => name.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');

test('every row of the table has files here, and no other', () => {
  assert.deepEqual(Object.keys(rows).sort(), signatures.map(({ name }) => name).sort());
});

describe('instead of a model and of a wasm module came', () => {
  for (const [name, { files, remedy, shows, fits }] of Object.entries(rows)) {
    test(name, async () => {
      for (const file of files) {
        if (fits !== 'model') {
          const error = await loadModel(file).catch((reason) => reason);
          isError('INVALID_MODEL', { hint: remedy })(error);
          assert.match(error.message, new RegExp(`is ${literal(name)}|saved plan`));
          if (shows) assert.match(error.message, shows);
        }
        if (fits !== 'module') {
          const settings = { simd: 'simd128', wasmBinary: file };
          const error = await compiled('requant-simd128.wasm', settings).catch((reason) => reason);
          isError('LOAD_FAILED', { message: /env\.wasm\.wasmBinary/, hint: /./ })(error);
          assert.match(error.message, new RegExp(`is ${literal(name)}`));
          if (shows) assert.match(error.message, shows);
        }
      }
    });
  }
});

test('models and modules are not taken for anything else', () => {
  for (const name of ['requant-simd128', 'requant-tools', 'kernels-relaxed-threads']) {
    const file = readFileSync(path.join(ROOT, `dist/${name}.wasm`));
    assert.equal(insteadOf('module', file), undefined);
  }
  assert.equal(insteadOf('model', readFileSync(MODEL)), undefined);
  // Numbers are no text, whatever they begin with.
  const numbers = new Float32Array([1, 2, 3, 4.5, -1e-3]);
  assert.equal(
    insteadOf('data', new Uint8Array(numbers.buffer), 'w', { certain: true }),
    undefined,
  );
  const gzipped = gzipSync(new Uint8Array(100));
  assert.equal(insteadOf('data', gzipped, 'weights.bin', { certain: true }), undefined);
});

test('bytes of no known kind are shown', async () => {
  for (const file of [bytes([8, 8, 0xff, 0xff]), bytes([8, 8])]) {
    await assert.rejects(
      loadModel(file),
      isError('INVALID_MODEL', { message: /no ONNX model/, hint: /begin with 08 08/ }),
    );
  }
});

test('a damaged model is a damaged model', async () => {
  const model = readFileSync(MODEL);
  await assert.rejects(
    loadModel(model.subarray(0, 20_000)),
    isError('INVALID_MODEL', { hint: /damaged|cut off/ }),
  );
});

test('servers that answer with something else', async (t) => {
  const page = '<!doctype html><title>App</title>';
  const served = {
    '/app/model.onnx': ['text/html', page],
    '/html/': ['text/html', page],
    '/wrong-type/': ['application/wasm', page],
    '/gzip/': ['application/wasm', gzipSync('x')],
    '/lfs/': ['application/octet-stream', 'version https://git-lfs.github.com/spec/v1\n'],
  };
  const server = createServer(({ url }, response) => {
    const found = Object.entries(served).find(([prefix]) => url.startsWith(prefix));
    if (!found) response.writeHead(404).end('not here');
    else response.writeHead(200, { 'content-type': found[1][0] }).end(found[1][1]);
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => server.close());
  const base = `http://127.0.0.1:${server.address().port}`;
  for (const open of [loadModel, InferenceSession.create]) {
    await assert.rejects(
      open(`${base}/app/model.onnx`),
      isError('INVALID_MODEL', { message: /model\.onnx is a web page \(HTML\)/, hint: /address/ }),
    );
  }
  for (const [place, what] of [
    ['html', /web page/],
    ['wrong-type', /web page/],
    ['gzip', /gzip/],
    ['lfs', /Git LFS/],
    ['none', /404/],
  ]) {
    const settings = { simd: 'simd128', wasmPaths: `${base}/${place}/` };
    await assert.rejects(
      compiled('requant-tools.wasm', settings),
      isError('LOAD_FAILED', { message: what, hint: /./ }),
    );
  }
  // A Worker gives the same error.
  env.wasm.wasmPaths = `${base}/html/`;
  t.after(() => delete env.wasm.wasmPaths);
  const worker = await createWorker();
  await assert.rejects(
    worker.loadModel(MODEL),
    isError('LOAD_FAILED', { message: /web page/, hint: /address/ }),
  );
  await worker.terminate();
});
