// Other engines and vendors' functions beside this engine: the demos run, and what generateC() refuses.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import path from 'node:path';
import { test } from 'node:test';
import { InferenceSession, Tensor, generateC, parseModel } from '../../dist/index.js';
import { runC, skipC } from './compile_c.mjs';
import { ROOT } from './support.mjs';

function demo(name) {
  const flags = process.execArgv.filter((flag) => flag.startsWith('--experimental-wasm'));
  const file = path.join(ROOT, 'demos/engines', name);
  const { status, stdout, stderr } = spawnSync(process.execPath, [...flags, file], {
    encoding: 'utf8',
  });
  assert.equal(status, 0, stderr);
  return stdout;
}

test('the demo that runs convolutions in onnxruntime-web', () => {
  const out = demo('onnxruntime.mjs');
  assert.match(out, /^part\d+: onnxruntime-web, \d+ multiply-adds .*Conv/m);
  assert.match(out, /^part\d+: requant,/m);
  assert.match(out, /^50 of 50 answers/m);
});

test('the demo that calls a function of a vendor', { skip: skipC }, () => {
  const out = demo('vendor_c.mjs');
  assert.match(out, /^vendor_conv computes /m);
  assert.match(out, /^50 of 50 images give the same bits/m);
});

/** The session's output and that of generated C with calls, whose functions are `library`. */
async function bothWays(text, feeds, calls, library) {
  const model = await parseModel(text);
  const session = await InferenceSession.create(model);
  const results = await session.run(feeds);
  const expected = session.outputNames.map((name) => results[name]);
  session.release();
  const code = await generateC(model, { name: 'net', calls });
  model.dispose();
  const source = `${code.source}\n${library}\n`;
  const [outputs] = runC({ source, header: code.header }, 'net', [feeds], expected);
  return { code, outputs, expected };
}

const numbers = (count) => Float32Array.from({ length: count }, (_, i) => Math.sin(i * 1.7) * 3);

test(
  'a chain becomes one call, and its inner results need no memory',
  { skip: skipC },
  async () => {
    const text = `graph "g" opset 13
input %x: float32[1, 2, 3]
const %w: float32[3, 4] = {1, -2, 3, -4, 5, -6, 7, -8, 9, 1, 2, 3}
const %b: float32[4] = {1, 2, 3, -4}
%a = Abs(%x) "ahead"
%m = MatMul(%a, %w) "product"
%s = Add(%m, %b) "sum"
%r = Relu(%s) "bound"
%z = Abs(%r) "behind"
output %z`;
    // Abs has no form in C, so that calls have to compute it as well.
    const library = `
void my_abs(void *result, const requant_tensor *tensors, int32_t tensor_count,
            const requant_node *nodes, int32_t node_count) {
  const requant_tensor *x = &tensors[nodes[0].inputs[0]];
  (void)tensor_count; (void)node_count;
  for (int32_t i = 0; i < x->dims[1] * x->dims[2]; ++i)
    ((float *)result)[i] = fabsf(((const float *)x->data)[i]);
}
void my_dense(void *result, const requant_tensor *tensors, int32_t tensor_count,
              const requant_node *nodes, int32_t node_count) {
  const requant_tensor *x = &tensors[nodes[0].inputs[0]], *w = &tensors[nodes[0].inputs[1]];
  const requant_tensor *b = &tensors[nodes[1].inputs[1]];
  const int bounded = node_count == 3 && strcmp(nodes[2].op, "Relu") == 0;
  const int sound = tensors[0].rank == 3 && tensors[0].type == 1 && tensors[0].data == result &&
                    tensor_count == 6 && !tensors[nodes[0].outputs[0]].data && w->constant &&
                    !x->constant && strcmp(nodes[1].name, "sum") == 0 && nodes[0].input_count == 2;
  for (int32_t i = 0; i < x->dims[1]; ++i)
    for (int32_t j = 0; j < w->dims[1]; ++j) {
      float sum = 0;
      for (int32_t k = 0; k < w->dims[0]; ++k)
        sum += ((const float *)x->data)[i * w->dims[0] + k] * ((const float *)w->data)[k * w->dims[1] + j];
      sum += ((const float *)b->data)[j];
      ((float *)result)[i * w->dims[1] + j] = !sound ? -1000 : bounded && sum < 0 ? 0 : sum;
    }
}`;
    const feeds = { x: new Tensor('float32', numbers(6), [1, 2, 3]) };
    const calls = [
      {
        pattern: ['MatMul', 'Add', { op: ['Relu', 'Clip'], optional: true }],
        function: 'my_dense',
      },
      { pattern: ['Abs'], function: 'my_abs' },
    ];
    const { code, outputs, expected } = await bothWays(text, feeds, calls, library);
    for (const [i, value] of outputs[0].entries()) {
      assert.ok(Math.abs(value - expected[0].data[i]) < 1e-5 * Math.max(1, Math.abs(value)));
    }
    assert.deepEqual(code.calls, [
      { function: 'my_dense', nodes: ['product', 'sum', 'bound'] },
      { function: 'my_abs', nodes: ['ahead'] },
      { function: 'my_abs', nodes: ['behind'] },
    ]);
    // Memory for "a" and "r" only: 24 and 32 bytes at multiples of 16.
    assert.ok(code.workspaceBytes <= 64, String(code.workspaceBytes));
    assert.match(code.header, /void my_dense\(void \*result, const requant_tensor \*tensors/);
  },
);

test('attributes, integers and texts reach the function', { skip: skipC }, async () => {
  const text = `graph "g" opset 13
input %x: float32[1, 2, 4]
%y = LpNormalization(%x) {axis = 1, p = 1} "norm \\"q\\""
%z = Relu(%y)
output %z`;
  const library = `
void norm(void *result, const requant_tensor *tensors, int32_t tensor_count,
          const requant_node *nodes, int32_t node_count) {
  const float *x = tensors[nodes->inputs[0]].data;
  int64_t axis = -1, p = -1;
  (void)tensor_count; (void)node_count;
  for (int32_t i = 0; i < nodes->attribute_count; ++i) {
    const requant_attribute *a = &nodes->attributes[i];
    if (strcmp(a->name, "axis") == 0 && a->count == 1 && !a->floats && !a->text) axis = a->ints[0];
    if (strcmp(a->name, "p") == 0) p = a->ints[0];
  }
  for (int i = 0; i < 4; ++i) {
    const float sum = fabsf(x[i]) + fabsf(x[i + 4]);
    ((float *)result)[i] = axis == 1 && p == 1 ? x[i] / sum : -1;
    ((float *)result)[i + 4] = axis == 1 && p == 1 ? x[i + 4] / sum : -1;
  }
}`;
  const feeds = { x: new Tensor('float32', numbers(8), [1, 2, 4]) };
  const calls = [{ pattern: ['LpNormalization'], function: 'norm' }];
  const { outputs, expected } = await bothWays(text, feeds, calls, library);
  for (const [i, value] of outputs[0].entries()) {
    assert.ok(Math.abs(value - expected[0].data[i]) < 1e-6);
  }
});

test('a header of the vendor', async () => {
  const model = await parseModel(
    'graph "g" opset 13\ninput %x: float32[4]\n%y = Abs(%x)\noutput %y',
  );
  const calls = [{ pattern: ['Abs'], function: 'my_abs', header: 'vendor lib.h' }];
  const { source, header } = await generateC(model, { name: 'net', calls });
  model.dispose();
  assert.match(source, /#include "net\.h"\n#include "vendor lib\.h"\n/);
  assert.doesNotMatch(header, /my_abs/);
  assert.match(header, /typedef struct requant_tensor/);
});

test('calls that cannot be', async (t) => {
  const model = await parseModel(
    'graph "g" opset 13\ninput %x: float32[4]\n%y = Abs(%x) "bell"\n%z = Relu(%y)\noutput %z\noutput %y',
  );
  t.after(() => model.dispose());
  const refused = (calls, pattern, code = 'INVALID_ARGUMENT') =>
    assert.rejects(generateC(model, { calls }), (error) => {
      assert.equal(error.code, code, error.message);
      assert.match(error.message, pattern);
      return true;
    });
  await refused('Abs', /calls is/);
  await refused([{ pattern: ['Abs'] }], /names no function/);
  await refused([{ pattern: ['Abs'], function: 'a b' }], /"a b" is no name in C/);
  await refused([{ pattern: ['Abs'], function: 'f', header: 'a"b' }], /no header in C/);
  await refused([{ pattern: [], function: 'f' }], /calls\[0\]\.pattern is no list/);
  await refused([{ pattern: ['Abs'], function: 'f', hedaer: 'x' }], /hedaer/);
  // "y" is an output, so that a chain cannot hide it, and Abs alone has no C.
  await refused(
    [{ pattern: ['Abs', 'Relu'], function: 'f' }],
    /Abs has no form in C/,
    'UNSUPPORTED',
  );
  const { calls } = await generateC(model, { calls: [{ pattern: ['Abs'], function: 'f' }] });
  assert.deepEqual(calls, [{ function: 'f', nodes: ['bell'] }]);
});
