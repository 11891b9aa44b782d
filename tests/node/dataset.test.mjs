// The readers of data files: hand-written bytes, files by NumPy's own format description, and round trips.
// Needs dist, but not the engine.

import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import test from 'node:test';
import { fileURLToPath } from 'node:url';
import { deflateRawSync, gzipSync } from 'node:zlib';
import {
  arraySamples,
  centerCrop,
  fitImage,
  fromRgba,
  imageSamples,
  parseCifar10,
  parseIdx,
  parseJsonLabels,
  parseNpy,
  parseNpz,
  parsePixels,
  parseRaw,
  parseTensorProto,
  readIdxImages,
  resize,
  take,
  toByteTensor,
  toTensor,
  withLabels,
  writeNpy,
} from 'requant/dataset';
import { openDataset, readLabels, readTensor } from 'requant/dataset/node';
import { Tensor } from 'requant';

const ROOT = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '../..');
const DEMO = path.join(ROOT, 'demos/data');

async function all(dataset) {
  const samples = [];
  for await (const sample of dataset) samples.push(sample);
  return samples;
}

function inFolder(action) {
  return async () => {
    const folder = mkdtempSync(path.join(os.tmpdir(), 'requant-'));
    try {
      await action(folder);
    } finally {
      rmSync(folder, { recursive: true });
    }
  };
}

function npy(descr, order, shape, data) {
  let header = `{'descr': '${descr}', 'fortran_order': ${order}, 'shape': ${shape}, }`;
  header = header.padEnd(117) + '\n';
  return Buffer.concat([
    Buffer.from([0x93, ...Buffer.from('NUMPY'), 1, 0, header.length, 0]),
    Buffer.from(header, 'latin1'),
    Buffer.from(data),
  ]);
}

// A ZIP archive by APPNOTE 4.3: local headers with data, then the directory and its end.
function zip(files) {
  const parts = [];
  const directory = [];
  let at = 0;
  for (const { name, content, deflate } of files) {
    const data = deflate ? deflateRawSync(content) : content;
    const common = Buffer.alloc(26);
    common.writeUInt16LE(20, 0);
    common.writeUInt16LE(deflate ? 8 : 0, 4);
    common.writeUInt32LE(data.length, 14);
    common.writeUInt32LE(content.length, 18);
    common.writeUInt16LE(name.length, 22);
    const local = Buffer.concat([Buffer.from('PK\x03\x04'), common, Buffer.from(name), data]);
    const entry = Buffer.alloc(14);
    entry.writeUInt32LE(at, 10);
    directory.push(Buffer.from('PK\x01\x02\x14\x00'), common, entry, Buffer.from(name));
    parts.push(local);
    at += local.length;
  }
  const entries = Buffer.concat(directory);
  const end = Buffer.alloc(18);
  end.writeUInt16LE(files.length, 4);
  end.writeUInt16LE(files.length, 6);
  end.writeUInt32LE(entries.length, 8);
  end.writeUInt32LE(at, 12);
  return Buffer.concat([...parts, entries, Buffer.from('PK\x05\x06'), end]);
}

test('TensorProto: raw data, packed floats, single integers', () => {
  // dims 2, 2 (unpacked); data_type 1; name "x"; raw_data of 1, 2, 3, 4.
  const raw = Buffer.from(new Float32Array([1, 2, 3, 4]).buffer);
  const first = parseTensorProto(
    Buffer.concat([Buffer.from([8, 2, 8, 2, 16, 1, 0x42, 1, 0x78, 0x4a, 16]), raw]),
  );
  assert.equal(first.name, 'x');
  assert.equal(first.tensor.type, 'float32');
  assert.deepEqual(first.tensor.dims, [2, 2]);
  assert.deepEqual([...first.tensor.data], [1, 2, 3, 4]);
  const floats = Buffer.from(new Float32Array([0.5, -1]).buffer);
  const second = parseTensorProto(
    Buffer.concat([Buffer.from([0x0a, 1, 2, 16, 1, 0x22, 8]), floats]),
  );
  assert.deepEqual([...second.tensor.data], [0.5, -1]);
  // int64_data, unpacked; -1 takes ten bytes.
  const minusOne = [255, 255, 255, 255, 255, 255, 255, 255, 255, 1];
  const third = parseTensorProto(Buffer.from([8, 2, 16, 7, 0x38, 5, 0x38, ...minusOne]));
  assert.deepEqual([...third.tensor.data], [5n, -1n]);
  // A scalar uint8 in int32_data.
  const fourth = parseTensorProto(Buffer.from([16, 2, 0x2a, 2, 200, 1]));
  assert.deepEqual([...fourth.tensor.dims], []);
  assert.deepEqual([...fourth.tensor.data], [200]);
});

test('TensorProto: damaged bytes are refused', () => {
  const cases = [[8, 2, 16, 1, 0x4a, 16, 1], [8], [16, 1, 0x4a, 3, 0, 0, 0], [16, 8], [0x0f]];
  for (const bytes of cases) {
    assert.throws(
      () => parseTensorProto(Buffer.from(bytes)),
      (error) => ['INVALID_ARGUMENT', 'UNSUPPORTED'].includes(error.code),
      String(bytes),
    );
  }
});

test('.npy: types, byte order, Fortran order, round trip', () => {
  const plain = parseNpy(
    npy('<f4', 'False', '(2, 3)', new Float32Array([0, 1, 2, 3, 4, 5]).buffer),
  );
  assert.deepEqual(plain.dims, [2, 3]);
  assert.deepEqual([...plain.data], [0, 1, 2, 3, 4, 5]);
  const fortran = parseNpy(
    npy('<f4', 'True', '(2, 3)', new Float32Array([0, 3, 1, 4, 2, 5]).buffer),
  );
  assert.deepEqual([...fortran.data], [0, 1, 2, 3, 4, 5]);
  const big = parseNpy(npy('>i2', 'False', '(2,)', [0, 1, 255, 255]));
  assert.deepEqual([...big.data], [1, -1]);
  assert.equal(parseNpy(npy('|b1', 'False', '()', [1])).type, 'bool');
  for (const tensor of [
    new Tensor('float32', [1.5, 2], [2]),
    new Tensor('int64', [1n, -2n, 3n, 4n], [2, 2]),
    new Tensor('uint8', [7], []),
  ]) {
    const bytes = writeNpy(tensor);
    assert.equal(bytes.indexOf(10) % 64, 63, 'the data begins at a multiple of 64');
    assert.deepEqual(parseNpy(bytes), tensor);
  }
  assert.throws(() => parseNpy(npy('<U4', 'False', '(1,)', [0, 0, 0, 0])), { code: 'UNSUPPORTED' });
  assert.throws(() => parseNpy(npy('<f4', 'False', '(9,)', [0])), { code: 'INVALID_ARGUMENT' });
  assert.throws(() => parseNpy(Buffer.from('hello world')), { code: 'INVALID_ARGUMENT' });
});

test('.npz: stored and deflated', async () => {
  const a = writeNpy(new Tensor('float32', [1, 2], [2]));
  const b = writeNpy(new Tensor('int32', new Int32Array(500).fill(3), [500]));
  const bytes = zip([
    { name: 'a.npy', content: a },
    { name: 'b.npy', content: b, deflate: true },
  ]);
  const arrays = await parseNpz(bytes);
  assert.deepEqual([...arrays.keys()], ['a', 'b']);
  assert.deepEqual([...arrays.get('a').data], [1, 2]);
  assert.ok(arrays.get('b').data.every((value) => value === 3));
  await assert.rejects(parseNpz(bytes.subarray(0, 100)), { code: 'INVALID_ARGUMENT' });
  const broken = Buffer.from(bytes);
  broken.fill(0xff, bytes.indexOf('b.npy') + 5, bytes.indexOf('b.npy') + 20);
  await assert.rejects(parseNpz(broken), { code: 'INVALID_ARGUMENT' });
});

test('gzip where streams cannot be iterated over', async (t) => {
  const { prototype } = ReadableStream;
  const iterate = Object.getOwnPropertyDescriptor(prototype, Symbol.asyncIterator);
  t.after(() => Object.defineProperty(prototype, Symbol.asyncIterator, iterate));
  delete prototype[Symbol.asyncIterator];
  const images = readFileSync(path.join(DEMO, 'test-images-idx3-ubyte'));
  assert.equal((await readIdxImages(gzipSync(images))).length, 1000);
});

test('IDX: the demo data, gzip, damage', async () => {
  const images = readFileSync(path.join(DEMO, 'test-images-idx3-ubyte'));
  const labels = readFileSync(path.join(DEMO, 'test-labels-idx1-ubyte'));
  const set = await readIdxImages(gzipSync(images), labels);
  assert.deepEqual([set.length, set.height, set.width, set.channels], [1000, 28, 28, 1]);
  // The first ten labels of the Fashion-MNIST test set: ankle boot, pullover, trouser, ...
  assert.deepEqual([...set.labels].slice(0, 10), [9, 2, 1, 1, 6, 1, 4, 6, 5, 7]);
  const samples = await all(take(imageSamples(set, { input: 'image' }), 3));
  assert.equal(samples.length, 3);
  assert.deepEqual(samples[0].feeds.image.dims, [1, 1, 28, 28]);
  assert.equal(samples[0].label, 9);
  const pixels = images.subarray(16, 16 + 784);
  assert.deepEqual(
    [...samples[0].feeds.image.data],
    [...pixels].map((pixel) => Math.fround(pixel / 255)),
  );
  assert.throws(() => parseIdx(images.subarray(0, 1000)), { code: 'INVALID_ARGUMENT' });
  assert.throws(() => parseIdx(Buffer.from([1, 2, 3, 4, 5, 6, 7, 8])), {
    code: 'INVALID_ARGUMENT',
  });
});

test('CIFAR-10: planes and labels', () => {
  const bytes = new Uint8Array(2 * 3073);
  bytes[0] = 3;
  bytes[3073] = 9;
  bytes[3073 + 1 + 1024] = 77; // first green pixel of the second picture
  const set = parseCifar10(bytes);
  assert.deepEqual([...set.labels], [3, 9]);
  const tensor = toTensor(
    { ...set, data: set.data.subarray(3072) },
    { scale: 1, mean: [0, 7, 0], std: [1, 2, 1] },
  );
  assert.equal(tensor.data[1024], 35);
  assert.throws(() => parseCifar10(bytes.subarray(1)), { code: 'INVALID_ARGUMENT' });
  bytes[0] = 10;
  assert.throws(() => parseCifar10(bytes), { code: 'INVALID_ARGUMENT' });
});

test('pixels: both layouts in and out', () => {
  const nhwc = parsePixels(Uint8Array.from([1, 2, 3, 4, 5, 6]), {
    width: 2,
    height: 1,
    channels: 3,
  });
  assert.deepEqual([...toTensor(nhwc, { scale: 1 }).data], [1, 4, 2, 5, 3, 6]);
  assert.deepEqual([...toTensor(nhwc, { scale: 1, layout: 'nhwc' }).data], [1, 2, 3, 4, 5, 6]);
  assert.deepEqual(toTensor(nhwc, { layout: 'nhwc' }).dims, [1, 1, 2, 3]);
  assert.deepEqual([...toByteTensor(nhwc).data], [1, 4, 2, 5, 3, 6]);
  assert.throws(() => toTensor(nhwc, { mean: [1, 2] }), { code: 'INVALID_ARGUMENT' });
  assert.throws(() => toTensor(nhwc, { std: 0 }), { code: 'INVALID_ARGUMENT' });
});

test('resizing and cropping', () => {
  const grey = (width, height, data) => ({ width, height, channels: 1, layout: 'nhwc', data });
  // Halving averages over a triangle of twice the step: weights 1, 3, 3, 1 of 8 inside.
  const row = grey(8, 1, Uint8Array.from([0, 0, 0, 80, 0, 0, 0, 0]));
  assert.deepEqual([...resize(row, 4, 1).data], [0, 30, 10, 0]);
  const flat = resize(grey(5, 7, new Uint8Array(35).fill(99)), 3, 11);
  assert.ok(flat.data.every((value) => value === 99));
  const crop = centerCrop(
    grey(
      4,
      3,
      Uint8Array.from({ length: 12 }, (_, i) => i),
    ),
    2,
    1,
  );
  assert.deepEqual([...crop.data], [5, 6]);
  const fitted = fitImage(grey(40, 20, new Uint8Array(800)), 8, 8, 10);
  assert.deepEqual([fitted.width, fitted.height], [8, 8]);
  assert.throws(() => centerCrop(row, 9, 1), { code: 'INVALID_ARGUMENT' });
  assert.deepEqual([...fromRgba([10, 20, 30, 255], 1, 1, 1).data], [18]);
  assert.deepEqual([...fromRgba([10, 20, 30, 255], 1, 1).data], [10, 20, 30]);
});

test('arrays: which axis counts samples', async () => {
  const data = new Tensor('float64', [1, 2, 3, 4, 5, 6], [3, 2]);
  const input = { name: 'x', type: 'float32', dims: [1, 2] };
  const samples = await all(arraySamples(new Map([['any', data]]), [input]));
  assert.deepEqual(
    samples.map(({ feeds }) => [...feeds.x.dims, ...feeds.x.data]),
    [
      [1, 2, 1, 2],
      [1, 2, 3, 4],
      [1, 2, 5, 6],
    ],
  );
  assert.equal(samples[0].feeds.x.type, 'float32');
  const open = { name: 'x', type: 'float32', dims: ['N', 2] };
  assert.equal(arraySamples(new Map([['x', data]]), [open]).length, 3);
  const stacked = { name: 'x', type: 'float32', dims: [2] };
  const flat = await all(arraySamples(new Map([['x', data]]), [stacked]));
  assert.deepEqual(flat[1].feeds.x.dims, [2]);
  const labels = new Tensor('int64', [7n, 8n, 9n], [3]);
  const labelled = await all(
    arraySamples(
      new Map([
        ['x', data],
        ['labels', labels],
      ]),
      [input],
    ),
  );
  assert.deepEqual(
    labelled.map(({ label }) => label),
    [7, 8, 9],
  );
  const wrong = { name: 'x', type: 'float32', dims: [1, 5] };
  assert.throws(() => arraySamples(new Map([['x', data]]), [wrong]), { code: 'SHAPE_MISMATCH' });
  assert.throws(
    () => arraySamples(new Map([['y', data]]), [input, { ...input, name: 'z' }]),
    /input "x"/,
  );
  assert.deepEqual(parseRaw(Uint8Array.of(1, 0, 2, 0), 'int16', [1]).dims, [2, 1]);
  assert.throws(() => parseRaw(Uint8Array.of(1), 'int16', [1]), { code: 'INVALID_ARGUMENT' });
});

test('labels', async () => {
  assert.deepEqual(parseJsonLabels('[1, 2]'), [1, 2]);
  assert.deepEqual(parseJsonLabels('{"images": [{"label": 4, "name": "x"}]}'), [4]);
  assert.throws(() => parseJsonLabels('{"a": 1}'), { code: 'INVALID_ARGUMENT' });
  const data = arraySamples(new Map([['x', new Tensor('float32', [1, 2], [2, 1])]]), [
    { name: 'x', type: 'float32', dims: [1, 1] },
  ]);
  const samples = await all(withLabels(data, [5, 6]));
  assert.deepEqual(
    samples.map(({ label }) => label),
    [5, 6],
  );
  assert.throws(() => withLabels(data, [5]), { code: 'INVALID_ARGUMENT' });
});

test(
  'files and folders: every kind is recognized',
  inFolder(async (folder) => {
    const at = (...names) => path.join(folder, ...names);
    const input = { name: 'x', type: 'float32', dims: [1, 2] };
    const numbers = new Tensor('float32', [1, 2, 3, 4], [2, 2]);
    writeFileSync(at('a.npy'), writeNpy(numbers));
    assert.equal((await openDataset(at('a.npy'), [input])).length, 2);
    writeFileSync(at('a.npz'), zip([{ name: 'x.npy', content: writeNpy(numbers), deflate: true }]));
    assert.equal((await openDataset(at('a.npz'), [input])).length, 2);
    writeFileSync(at('a.bin'), Buffer.from(numbers.data.buffer));
    assert.equal((await openDataset(at('a.bin'), [input], { format: 'raw' })).length, 2);
    await assert.rejects(openDataset(at('a.bin'), [input]), /not clear/);
    await assert.rejects(openDataset(at('none'), [input]), { code: 'LOAD_FAILED' });

    mkdirSync(at('onnx', 'test_data_set_0'), { recursive: true });
    const proto = [8, 1, 8, 2, 16, 1, 0x4a, 8, 0, 0, 128, 63, 0, 0, 0, 64];
    writeFileSync(at('onnx', 'test_data_set_0', 'input_0.pb'), Buffer.from(proto));
    const [{ feeds }] = await all(await openDataset(at('onnx'), [input]));
    assert.deepEqual([...feeds.x.data], [1, 2]);

    const picture = { name: 'image', type: 'float32', dims: ['N', 1, 28, 28] };
    const images = path.join(DEMO, 'test-images-idx3-ubyte');
    const labels = path.join(DEMO, 'test-labels-idx1-ubyte');
    const idx = await openDataset(images, [picture], { labels });
    assert.equal(idx.length, 1000);
    assert.equal((await all(take(idx, 1)))[0].label, 9);
    const rgb = { name: 'image', type: 'float32', dims: [1, 3, 32, 32] };
    writeFileSync(at('c.bin'), new Uint8Array(3073));
    assert.equal((await all(await openDataset(at('c.bin'), [rgb])))[0].label, 0);
    writeFileSync(at('p.bin'), new Uint8Array(2 * 3072));
    assert.equal((await openDataset(at('p.bin'), [rgb], { format: 'nhwc' })).length, 2);

    writeFileSync(at('labels.txt'), '3\n1\n');
    assert.deepEqual(await readLabels(at('labels.txt')), [3, 1]);
    writeFileSync(at('bad.txt'), '3\nx\n');
    await assert.rejects(readLabels(at('bad.txt')), { code: 'INVALID_ARGUMENT' });
    assert.deepEqual((await readTensor(at('a.npy'), input)).dims, [2, 2]);
    const open = { ...input, dims: ['N', 2] };
    assert.deepEqual((await readTensor(at('a.bin'), open)).dims, [2, 2]);
  }),
);

test(
  'pictures: folders are classes; a missing decoder is named, an installed one is used',
  inFolder(async (folder) => {
    const input = { name: 'image', type: 'float32', dims: [1, 3, 2, 2] };
    mkdirSync(path.join(folder, 'pictures/cat'), { recursive: true });
    mkdirSync(path.join(folder, 'pictures/dog'), { recursive: true });
    writeFileSync(path.join(folder, 'pictures/dog/1.png'), Buffer.from([0x89, 0x50]));
    const data = await openDataset(path.join(folder, 'pictures'), [input], { scale: 1 });
    assert.equal(data.length, 1);
    await assert.rejects(all(data), /npm install pngjs/);
    const stub = path.join(folder, 'node_modules/pngjs');
    mkdirSync(stub, { recursive: true });
    writeFileSync(path.join(stub, 'package.json'), '{"name": "pngjs", "main": "index.js"}');
    const pixels = 'Uint8Array.from({ length: 64 }, (_, i) => i % 4 === 3 ? 255 : 40)';
    writeFileSync(
      path.join(stub, 'index.js'),
      `exports.PNG = { sync: { read: () => ({ width: 4, height: 4, data: ${pixels} }) } };`,
    );
    const before = process.cwd();
    process.chdir(folder);
    try {
      const [sample] = await all(data);
      assert.equal(sample.label, 1);
      assert.deepEqual(sample.feeds.image.dims, [1, 3, 2, 2]);
      assert.ok(sample.feeds.image.data.every((value) => value === 40));
    } finally {
      process.chdir(before);
    }
  }),
);
