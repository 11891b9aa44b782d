// The optimizer in the package: memory that is known ahead of time, substitutions.

import assert from 'node:assert/strict';
import { existsSync, readdirSync } from 'node:fs';
import path from 'node:path';
import test from 'node:test';
import {
  InferenceSession,
  Tensor,
  loadModel,
  parseModel,
  substitute,
  substitutions,
} from 'requant';
import { SHARED, skipShared } from './shared_models.mjs';

/** The models beside the clone whose shapes are all known. */
function* files() {
  for (const folder of ['models', 'models/third_party']) {
    for (const name of readdirSync(path.join(SHARED, folder))) {
      const file = path.join(SHARED, folder, name, 'model.onnx');
      if (existsSync(file)) yield [name, file];
    }
  }
}

test(
  'memory in use, known before running: its peak is the arena',
  { skip: skipShared },
  async () => {
    let checked = 0;
    for (const [name, file] of files()) {
      let session;
      try {
        session = await InferenceSession.create(file);
      } catch (error) {
        // Other tests report unsupported operators.
        assert.equal(error.code, 'UNSUPPORTED', `${name}: ${error.message}`);
        continue;
      }
      const plan = session.plan();
      if (plan?.steps?.length > 0) {
        const peak = Math.max(...plan.steps.map(({ usedBytes }) => usedBytes));
        assert.equal(peak, plan.memory.arena, name);
        assert.equal(plan.memory.lowerBound, plan.memory.arena, name);
        checked++;
      }
      session.dispose();
    }
    assert.ok(checked >= 15, `${checked} networks`);
  },
);

test('AnnotateUsedMemory notes the same in the graph', async () => {
  const model = await parseModel(`graph "m" opset 13
    input %x: float32[64]
    %a = Relu(%x) "a"
    %b = Exp(%a) "b"
    %y = Add(%a, %b) "y"
    output %y`);
  model.optimize({ passes: ['AnnotateUsedMemory'] });
  const noted = [...model.toText().matchAll(/uses (\d+)/g)].map(([, bytes]) => Number(bytes));
  const session = await InferenceSession.create(model, { optimize: false });
  assert.equal(Math.max(...noted), session.plan().memory.arena);
  assert.equal(noted.length, 3);
  session.dispose();
  model.dispose();
});

test('substitute: what it takes, and that the model stays', async () => {
  const model = await parseModel(`graph "m" opset 20
    input %x: float32[2, 50]
    %g = Gelu(%x) "g"
    %y = Softmax(%g) "y"
    output %y`);
  const text = model.toText();
  const values = Float32Array.from({ length: 100 }, (_, i) => (i - 50) / 10);
  const dataset = [{ feeds: { x: new Tensor('float32', values, [2, 50]) } }];
  for (const [options, expected] of [
    [{ passes: [], dataset }, /empty/],
    [{ passes: ['FoldConstant'], dataset }, /no substitution/],
    [{ passes: ['FastMath'], dataset: [] }, /no samples/],
    [{ passes: ['FastMath'], dataset, runs: 0 }, /runs/],
    [{ passes: ['FastMath'], dataset, rums: 1 }, /rums/],
  ]) {
    await assert.rejects(substitute(model, options), expected);
  }
  await assert.rejects(substitute({}, { passes: ['FastMath'], dataset }), /needs a Model/);
  const progress = [];
  const bounds = { SubstituteGelu: 0.021, SubstituteGeluByTanh: 4.8e-4, FastMath: 1e-5 };
  for (const pass of substitutions) {
    const { model: other, report } = await substitute(model, {
      passes: [pass],
      dataset,
      runs: 2,
      onProgress: ({ phase }) => progress.push(phase),
    });
    assert.equal(model.toText(), text);
    assert.equal(report.top1.after, report.top1.before);
    const replaced = report.operators.map(({ name }) => name);
    assert.deepEqual(replaced, pass === 'FastMath' ? ['g', 'y'] : pass in bounds ? ['g'] : []);
    for (const { name, aloneMaxAbs, maxAbs } of report.operators) {
      assert.ok(aloneMaxAbs > 0 && aloneMaxAbs <= bounds[pass], `${pass} ${name} ${aloneMaxAbs}`);
      assert.ok(maxAbs <= 2 * bounds[pass]);
    }
    // The result is a model like any other.
    const session = await InferenceSession.create(other);
    const { y } = await session.run(dataset[0].feeds);
    assert.ok(Math.abs(y.data.slice(0, 50).reduce((a, b) => a + b) - 1) < 1e-4);
    session.dispose();
    other.dispose();
  }
  assert.deepEqual(new Set(progress), new Set(['compare', 'time']));
  model.dispose();
});

test('a model with fast functions is written and read again', async () => {
  const model = await parseModel(
    'graph "m" opset 13\ninput %x: float32[4]\n%y = Tanh(%x)\noutput %y',
  );
  model.optimize({ passes: ['FastMath'] });
  const again = await loadModel(model.toOnnx());
  assert.deepEqual(
    again.info.nodes.map(({ op, domain }) => [op, domain]),
    [['FastTanh', 'ai.requant']],
  );
  again.dispose();
  model.dispose();
});
