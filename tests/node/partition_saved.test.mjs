// Divided models as bytes: saved, loaded, and refused where they are damaged.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import {
  InferenceSession,
  loadModel,
  loadPartition,
  partition,
  quantize,
} from '../../dist/index.js';
import { MODEL, calibration, testImages } from './support.mjs';

let model, quantized;
before(async () => {
  model = await loadModel(MODEL);
  quantized = await quantize(model, { calibration: calibration(8) });
});
after(() => {
  quantized.dispose();
  model.dispose();
});

async function outputsOf(session, samples) {
  const outputs = [];
  for (const feeds of samples) outputs.push([...(await session.run(feeds)).logits.data]);
  session.release();
  return outputs;
}

/** A backend whose own form of a part is its plan; counts what it is asked for. */
function planBackend() {
  const counts = { compiled: 0, serialized: 0, deserialized: 0 };
  const runnerOf = (session) => ({
    session,
    run: (feeds) => session.run(feeds),
    dispose: () => session.dispose(),
  });
  const backend = {
    name: 'plans',
    patterns: [['Conv', { op: ['Relu', 'Clip'], optional: true }]],
    compile: async (part) => {
      ++counts.compiled;
      return runnerOf(await InferenceSession.create(part.model));
    },
    serialize: ({ session }) => {
      ++counts.serialized;
      return session.toPlan();
    },
    deserialize: async (blob) => {
      ++counts.deserialized;
      return runnerOf(await InferenceSession.create(blob));
    },
  };
  return { backend, counts };
}

test('save and load, with the own forms of backends', async (t) => {
  const { backend, counts } = planBackend();
  const plain = { name: 'plain', operators: ['MaxPool', 'Gemm'], compile: backend.compile };
  const parts = await partition(model, {
    backends: [backend, plain],
    shapes: { image: [1, 1, 28, 28] },
  });
  t.after(() => parts.dispose());
  const own = parts.parts.filter((part) => part.backend === 'plans').length;
  assert.ok(own >= 2);
  const bytes = await parts.save();
  assert.deepEqual(counts, { compiled: own, serialized: own, deserialized: 0 });
  const samples = testImages(2);
  const expected = await outputsOf(await parts.createSession(), samples);

  const other = planBackend();
  const loaded = await loadPartition(bytes, {
    backends: [other.backend, { ...plain, compile: other.backend.compile }],
  });
  t.after(() => loaded.dispose());
  const shape = ({ parts: list }) =>
    list.map(({ name, backend: by, macs, model: { info }, composites }) => ({
      name,
      by,
      macs,
      nodes: info.nodes,
      inputs: info.inputs,
      composites,
    }));
  assert.deepEqual(shape(loaded), shape(parts));
  assert.deepEqual(await outputsOf(await loaded.createSession(), samples), expected);
  const others = parts.parts.filter((part) => part.backend === 'plain').length;
  assert.deepEqual(other.counts, { compiled: others, serialized: 0, deserialized: own });
  // What is loaded is saved as it is.
  assert.deepEqual(await loaded.save(), bytes);
  assert.equal(other.counts.serialized, 0);
  // A backend that cannot use its form compiles, as do those without deserialize and runners.
  for (const changed of [{ deserialize: () => null }, { deserialize: undefined }]) {
    const third = planBackend();
    const again = await loadPartition(bytes, {
      backends: [{ ...third.backend, ...changed }, { name: 'plain' }],
    });
    const session = await again.createSession({ plain: third.backend.compile });
    assert.deepEqual(await outputsOf(session, samples), expected);
    assert.equal(third.counts.compiled, own + others);
    again.dispose();
  }
});

test('save and load of an integer network, to the bit', async (t) => {
  const parts = await partition(quantized, {
    backends: [{ name: 'other', operators: ['QLinearConv'] }],
  });
  t.after(() => parts.dispose());
  const loaded = await loadPartition(await parts.save(), { backends: [{ name: 'other' }] });
  t.after(() => loaded.dispose());
  const run = async (part) => {
    const { requantize } = part.model;
    const session = await InferenceSession.create(part.model, { requantize });
    return (feeds) => session.run(feeds);
  };
  const samples = testImages(3);
  const expected = await outputsOf(await InferenceSession.create(quantized), samples);
  assert.deepEqual(await outputsOf(await loaded.createSession({ other: run }), samples), expected);
});

test('saved partitions that cannot be loaded', async (t) => {
  const parts = await partition(model, { backends: [{ name: 'npu', operators: ['Conv'] }] });
  t.after(() => parts.dispose());
  const bytes = await parts.save();
  const backends = [{ name: 'npu' }];
  const refused = (given, code, pattern, options = { backends }) =>
    assert.rejects(loadPartition(given, options), (error) => {
      assert.equal(error.name, 'RequantError');
      assert.equal(error.code, code, error.message);
      assert.match(error.message, pattern);
      assert.ok(error.hint || code === 'INVALID_ARGUMENT');
      return true;
    });
  const changed = (at, value) => {
    const copy = bytes.slice();
    copy[at] = value;
    return copy;
  };
  for (const size of [1, 7, 8, 12, 27, 28, 100, bytes.length >> 1, bytes.length - 1]) {
    await refused(bytes.subarray(0, size), 'INVALID_PLAN', /is cut off: \d+ of/);
  }
  await refused(new Uint8Array(0), 'INVALID_PLAN', /is none/);
  await refused(new Uint8Array(1000), 'INVALID_PLAN', /is none/);
  await refused(model.toOnnx(), 'INVALID_PLAN', /is none/);
  await refused(changed(8, 2), 'INVALID_PLAN', /has version 2, not 1/);
  for (const at of [13, 16, 24, 30, 200, bytes.length - 1]) {
    await refused(changed(at, bytes[at] ^ 0x41), 'INVALID_PLAN', /is damaged|is cut off/);
  }
  const longer = new Uint8Array(bytes.length + 1);
  longer.set(bytes);
  await refused(longer, 'INVALID_PLAN', /is damaged/);
  await refused('bytes', 'INVALID_ARGUMENT', /Uint8Array/);
  await refused(bytes, 'INVALID_ARGUMENT', /backend "npu", which is not there/, { backends: [] });
  await refused(bytes, 'INVALID_ARGUMENT', /backends is/, {});
  await refused(bytes, 'INVALID_ARGUMENT', /two backends/, {
    backends: [...backends, ...backends],
  });
  // The whole is one file: bytes at any place of a larger buffer will do.
  const inside = new Uint8Array(bytes.length + 6).subarray(3, -3);
  inside.set(bytes);
  (await loadPartition(inside, { backends })).dispose();
  const noBytes = await partition(model, {
    backends: [{ name: 'x', operators: ['Gemm'], compile: () => () => ({}), serialize: () => 'x' }],
  });
  t.after(() => noBytes.dispose());
  await assert.rejects(noBytes.save(), /the form of part\d+ by backend "x" must be a Uint8Array/);
});
