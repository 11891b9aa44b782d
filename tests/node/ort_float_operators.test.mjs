// Operators whose loops are in src/ops, and elementwise kernels in every form of broadcasting, against ONNX
// Runtime: odd sizes, NaN and infinities, every axis, empty tensors.

import assert from 'node:assert/strict';
import test from 'node:test';
import { InferenceSession, Tensor, parseModel } from '../../dist/index.js';
import { graph, randomSource, same } from './ort_operators.mjs';

const SPECIAL = [NaN, Infinity, -Infinity, 0, -0, 0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 1e-30, -1e-30];
/** [type, values] of special values and random ones of many magnitudes. */
function wild(...dims) {
  const random = randomSource(7);
  const count = dims.reduce((a, b) => a * b, 1);
  const values = Array.from({ length: count }, (_, i) =>
    i % 3 === 0
      ? SPECIAL[(i / 3) % SPECIAL.length]
      : (random() - 0.5) * 10 ** Math.floor(random() * 6 - 3),
  );
  return [`float32[${dims.join(', ')}]`, values];
}

for (const call of [
  'Ceil(%x)',
  'Celu(%x) {alpha = 0.7}',
  'Elu(%x)',
  'Elu(%x) {alpha = 2.5}',
  'Exp(%x)',
  'Floor(%x)',
  'Reciprocal(%x)',
  'Round(%x)',
  'Selu(%x)',
  'Selu(%x) {alpha = 1.25, gamma = 0.5}',
  'Softplus(%x)',
  'Softsign(%x)',
  'ThresholdedRelu(%x) {alpha = 0.4}',
]) {
  test(`${call} of special values`, async () => {
    for (const shape of [[3, 5, 7], [1], [0, 4]]) {
      // ONNX Runtime's Softsign also gives NaN for -infinity.
      await same(13, { x: wild(...shape) }, `%y = ${call}`);
    }
  });
}

test('Exp from denormal results to infinity', async () => {
  const values = [];
  for (let x = -86; x < 90; x += 0.37) values.push(x);
  await same(13, { x: [`float32[${values.length}]`, values] }, '%y = Exp(%x)', ['y'], {
    tolerance: 3e-7,
  });
});

const COMPARISONS = ['Equal', 'Greater', 'GreaterOrEqual', 'Less', 'LessOrEqual'];
for (const op of ['Max', 'Min', 'Add', 'Sub', 'Mul', 'Div', ...COMPARISONS]) {
  test(`${op} in every form of broadcasting`, async () => {
    for (const [a, b] of [
      [
        [2, 3, 5, 7],
        [2, 3, 5, 7],
      ],
      [[2, 3, 5, 7], [1]],
      [[1], [2, 3, 5, 7]],
      [[2, 3, 5, 7], [7]],
      [
        [2, 3, 5, 7],
        [5, 1],
      ],
      [
        [5, 1],
        [2, 3, 5, 7],
      ],
      [
        [2, 3, 5, 7],
        [3, 1, 1],
      ],
      [
        [2, 3, 5, 7],
        [3, 1, 7],
      ],
      [
        [2, 3, 5, 7],
        [2, 1, 5, 1],
      ],
      [
        [2, 1, 5, 1],
        [1, 3, 1, 7],
      ],
      [
        [9, 1],
        [1, 6],
      ],
      [
        [2, 1, 3],
        [4, 1],
      ],
      [
        [0, 3],
        [1, 3],
      ],
      [
        [2, 3, 1],
        [2, 3, 0],
      ],
    ]) {
      const kernels = await same(13, { a: wild(...a), b: wild(...b) }, `%y = ${op}(%a, %b)`);
      if (!a.includes(0) && !b.includes(0)) assert.doesNotMatch(kernels.join(), /reference/);
    }
  });
}

test('comparisons of values that are next to each other, whose results others read', async () => {
  const near = [1, 1.0000001192092896, -1, -1.0000001192092896, 0, 1e-45, -1e-45, -0];
  const inputs = { a: ['float32[8, 1]', near], b: ['float32[8]', near], x: wild(8, 8) };
  for (const op of COMPARISONS) {
    const kernels = await same(13, inputs, `%y = ${op}(%a, %b)`);
    assert.match(kernels.join(), /compare/);
    await same(13, inputs, [`%c = ${op}(%a, %b)`, '%n = Not(%c)', '%y = Where(%n, %x, %b)']);
  }
  // After a convolution, whose layout the operator takes over.
  await same(13, { x: 'float32[2, 5, 7, 6]', w: 'float32[3]' }, [
    `const %k: float32[3, 5, 1, 1] = {${Array.from({ length: 15 }, (_, i) => (i % 7) - 3).join(', ')}}`,
    '%p = Conv(%x, %k)',
    'const %t: float32[3, 1, 1] = {0.1, -0.2, 0.3}',
    '%y = Greater(%p, %t)',
  ]);
});

test('And, Or, Xor and Not in every form of broadcasting', async () => {
  for (const [a, b] of [
    ['2, 3, 37', '2, 3, 37'],
    ['2, 3, 37', '1'],
    ['1', '2, 3, 37'],
    ['2, 1, 37', '3, 1'],
    ['5, 1', '1, 19'],
    ['0, 3', '3'],
  ]) {
    const inputs = { a: `bool[${a}]`, b: `bool[${b}]` };
    for (const op of ['And', 'Or', 'Xor']) await same(13, inputs, `%y = ${op}(%a, %b)`);
    await same(13, inputs, ['%n = Not(%b)', '%y = And(%a, %n)']);
  }
});

for (const op of ['Sum', 'Mean', 'Max', 'Min']) {
  test(`${op} of several`, async () => {
    const inputs = { a: wild(3, 5), b: wild(5), c: wild(3, 1), d: wild(2, 1, 1), e: wild(1) };
    for (const count of [2, 3, 5]) {
      const operands = [...'abcde'].slice(0, count).map((name) => `%${name}`);
      const kernels = await same(13, inputs, `%y = ${op}(${operands.join(', ')})`);
      assert.doesNotMatch(kernels.join(), /reference/);
    }
  });
}

test('Sin and Cos of special, large and small values', async () => {
  for (const op of ['Sin', 'Cos']) {
    await same(13, { x: wild(3, 5, 7) }, `%y = ${op}(%x)`);
    const random = randomSource(11);
    const values = Array.from({ length: 999 }, (_, i) => (random() - 0.5) * 10 ** (i % 12));
    await same(13, { x: ['float32[999]', values] }, `%y = ${op}(%x)`);
  }
});

test('Max and Min of one and of three', async () => {
  const inputs = { a: wild(3, 5), b: wild(5), c: wild(3, 1) };
  for (const op of ['Max', 'Min']) {
    await same(13, inputs, `%y = ${op}(%b)`);
    await same(13, inputs, `%y = ${op}(%a, %b, %c)`);
  }
});

test('integers of Max, Min, Add keep their references', async () => {
  const inputs = { a: ['int64[2, 1, 2]', [1, -2, 3, -4]], b: ['int64[3, 1]', [0, 5, -3]] };
  for (const op of ['Max', 'Min', 'Add']) await same(13, inputs, `%y = ${op}(%a, %b)`);
});

test('PRelu with slopes of every shape, and a Relu after it', async () => {
  for (const slope of [
    [1],
    [3, 1, 1],
    [1, 3, 1, 1],
    [5, 1],
    [7],
    [3, 5, 7],
    [2, 3, 5, 7],
    [2, 1, 1, 7],
  ]) {
    const inputs = { x: wild(2, 3, 5, 7), s: `float32[${slope.join(', ')}]` };
    const kernels = await same(16, inputs, '%y = PRelu(%x, %s)');
    assert.doesNotMatch(kernels.join(), /reference/);
    await same(16, inputs, ['%p = PRelu(%x, %s)', '%y = Relu(%p)']);
  }
});

test('Pow of constant exponents, of one for each element, and of integers', async () => {
  for (const exponent of [2, 3, 0.5, -0.5, -1, 0, 1, 1.5, 4, -2, -3, 1.7]) {
    await same(13, { x: wild(3, 7) }, [`const %e: float32[] = {${exponent}}`, '%y = Pow(%x, %e)']);
  }
  const large = Array.from({ length: 999 }, (_, i) => 1.07 ** (i - 500));
  for (const exponent of [0.5, -0.5, -1, 1.5, 0.3, -2]) {
    const body = [`const %e: float32[] = {${exponent}}`, '%y = Pow(%x, %e)'];
    await same(13, { x: ['float32[999]', large] }, body);
  }
  await same(13, { x: wild(5, 7), e: wild(5, 7) }, '%y = Pow(%x, %e)');
  await same(13, { x: wild(5, 1), e: wild(7) }, '%y = Pow(%x, %e)');
  // An exponent that makes the output larger.
  await same(13, { x: 'float32[3]' }, ['const %e: float32[1, 1] = {2}', '%y = Pow(%x, %e)']);
  await same(13, { x: 'float32[2, 1]', e: 'float32[3]' }, ['%a = Abs(%x)', '%y = Pow(%a, %e)']);
  const base = { x: ['int32[4]', [-3, 0, 2, 9]] };
  await same(13, base, ['const %e: int32[] = {3}', '%y = Pow(%x, %e)']);
  await same(13, base, ['const %e: float32[] = {2.5}', '%a = Abs(%x)', '%y = Pow(%a, %e)']);
  await same(13, { x: 'float32[0, 2]' }, ['const %e: float32[] = {2}', '%y = Pow(%x, %e)']);
});

test('Conv, MaxPool and AveragePool over three spatial dimensions', async () => {
  const random = randomSource(5);
  const below = (n) => Math.floor(random() * n);
  for (let i = 0; i < 40; i++) {
    const groups = below(3) === 0 ? 1 + below(4) : 1;
    const depth = below(3) === 0 ? 1 : 1 + below(9);
    const outputs = groups * (below(3) === 0 ? 1 : 1 + below(9));
    const kernel = [0, 1, 2].map(() => 1 + below(3));
    const size = kernel.map((taps) => taps + 1 + below(6));
    const pads = [...kernel, ...kernel].map((taps) => below(taps));
    const strides = kernel.map(() => 1 + below(2));
    const window =
      `kernel_shape = [${kernel.join(', ')}], strides = [${strides.join(', ')}], ` +
      `pads = [${pads.join(', ')}]`;
    const x = `float32[${[1 + below(2), groups * depth, ...size].join(', ')}]`;
    const count = outputs * depth * kernel.reduce((a, b) => a * b);
    const weights = Array.from({ length: count }, () => random() - 0.5).join(', ');
    const body = [
      `const %w: float32[${[outputs, depth, ...kernel].join(', ')}] = {${weights}}`,
      `%c = Conv(%x, %w) {${window}, group = ${groups}}`,
      '%y = Relu(%c)',
    ];
    const kernels = await same(13, { x }, body, ['y'], 1e-5);
    assert.doesNotMatch(kernels.join(), /reference/);
    await same(13, { x }, `%y = MaxPool(%x) {${window}}`);
    const all = below(2);
    await same(13, { x }, `%y = AveragePool(%x) {${window}, count_include_pad = ${all}}`);
    await same(13, { x }, '%y = GlobalAveragePool(%x)');
  }
});

test('Where of every width and form', async () => {
  const c = 'bool[3, 1, 5]';
  for (const [a, b] of [
    [
      [3, 4, 5],
      [3, 4, 5],
    ],
    [[1], [4, 1]],
    [[4, 5], [1]],
    [[1], [1]],
    [[0, 1], [1]],
  ]) {
    await same(13, { c, a: wild(...a), b: wild(...b) }, '%y = Where(%c, %a, %b)');
    await same(
      13,
      { c: 'bool[3, 4, 1]', a: wild(...a), b: wild(...b) },
      a.includes(0)
        ? ['%d = Transpose(%c) {perm = [0, 2, 1]}', '%y = Identity(%d)']
        : '%y = Where(%c, %a, %b)',
    );
  }
  await same(
    13,
    { c, a: ['int64[4, 1]', [1, 2, 3, 4]], b: ['int64[1]', [-7]] },
    '%y = Where(%c, %a, %b)',
  );
});

for (const shape of [
  [2, 6, 5, 7],
  [1, 6, 1, 3],
  [2, 6, 3],
  [1, 6, 2, 3, 5],
  [0, 6, 2, 2],
]) {
  test(`InstanceNormalization and GroupNormalization of [${shape}]`, async () => {
    const x = `float32[${shape.join(', ')}]`;
    for (const opset of [13, 18]) {
      await same(
        opset,
        { x, s: 'float32[6]', b: 'float32[6]' },
        '%y = InstanceNormalization(%x, %s, %b)',
        ['y'],
        2e-5,
      );
    }
    if (shape.includes(0)) return;
    for (const groups of [1, 2, 3, 6]) {
      const call = `%y = GroupNormalization(%x, %s, %b) {num_groups = ${groups}, epsilon = 0.01}`;
      await same(21, { x, s: 'float32[6]', b: 'float32[6]' }, call, ['y'], { tolerance: 2e-5 });
    }
  });
}

test('LRN over windows of every size, and exponents', async () => {
  for (const size of [1, 3, 5, 9]) {
    for (const beta of [0.75, 0.5, 1.25]) {
      await same(
        13,
        { x: 'float32[2, 7, 3, 5]' },
        `%y = LRN(%x) {size = ${size}, beta = ${beta}, alpha = 0.3, bias = 1.5}`,
      );
    }
  }
});

test('Pad with every mode', async () => {
  const pads = 'const %p: int64[8] = {0, 1, 2, 3, 1, 0, 1, 2}';
  for (const mode of ['reflect', 'edge', 'wrap', 'constant']) {
    await same(19, { x: wild(2, 3, 4, 5) }, [pads, `%y = Pad(%x, %p) {mode = "${mode}"}`]);
    const crop = 'const %p: int64[4] = {0, -1, 2, 2}';
    if (mode === 'constant' || mode === 'edge') {
      await same(19, { x: wild(3, 5) }, [crop, `%y = Pad(%x, %p) {mode = "${mode}"}`]);
    }
  }
  await same(19, { x: ['int64[2, 3]', [1, 2, 3, 4, 5, 6]] }, [
    'const %p: int64[4] = {0, 2, 0, 2}',
    '%y = Pad(%x, %p) {mode = "reflect"}',
  ]);
});

test('GridSample in every mode, with and without channels', async () => {
  const modes = ['linear', 'nearest', 'cubic'];
  for (const mode of modes) {
    for (const padding of ['zeros', 'border', 'reflection']) {
      for (const align of [0, 1]) {
        const call = `%y = GridSample(%x, %s) {mode = "${mode}", padding_mode = "${padding}", align_corners = ${align}}`;
        const body = ['const %k: float32[] = {1.6}', '%s = Mul(%g, %k)', call];
        // More points than are sampled at a time.
        await same(20, { x: 'float32[2, 3, 5, 7]', g: 'float32[2, 19, 17, 2]' }, body, ['y'], {
          tolerance: 1e-4,
        });
        if (mode === 'cubic') continue;
        await same(20, { x: 'float32[1, 2, 3, 4, 5]', g: 'float32[1, 2, 3, 4, 3]' }, body, ['y'], {
          tolerance: 1e-4,
        });
      }
    }
  }
});

for (const [largest, sorted] of [
  [1, 1],
  [0, 1],
]) {
  test(`TopK ${largest ? 'of the largest' : 'of the least'}`, async () => {
    const attributes = `largest = ${largest}, sorted = ${sorted}`;
    for (const [shape, axis, k] of [
      [[3, 50], -1, 7],
      [[3, 50], 1, 50],
      [[3, 50], 0, 2],
      [[4, 9, 5], 1, 4],
      [[4, 9, 5], -2, 1],
      [[4, 9], -1, 0],
    ]) {
      const body = [
        `const %k: int64[1] = {${k}}`,
        `%y, %i = TopK(%x, %k) {axis = ${axis}, ${attributes}}`,
      ];
      await same(13, { x: `float32[${shape.join(', ')}]` }, body, ['y', 'i']);
      const count = shape.reduce((a, b) => a * b, 1);
      // Many equal values, of which the first counts.
      const ties = Array.from({ length: count }, (_, i) => ((i * 7) % 5) - 2);
      for (const type of ['float32', 'int32', 'int64']) {
        await same(13, { x: [`${type}[${shape.join(', ')}]`, ties] }, body, ['y', 'i']);
      }
    }
    const signs = ['float32[6]', [0, -0, -Infinity, Infinity, -0, 0]];
    await same(
      13,
      { x: signs },
      ['const %k: int64[1] = {5}', `%y, %i = TopK(%x, %k) {${attributes}}`],
      ['y', 'i'],
    );
  });
}

test('CumSum along every axis and in both directions', async () => {
  for (const shape of [
    [3, 5, 70],
    [4, 1],
    [0, 3],
    [3, 0, 2],
  ]) {
    for (let axis = -shape.length; axis < shape.length; axis++) {
      for (const exclusive of [0, 1]) {
        for (const reverse of [0, 1]) {
          const body = [
            `const %a: int32[] = {${axis}}`,
            `%y = CumSum(%x, %a) {exclusive = ${exclusive}, reverse = ${reverse}}`,
          ];
          await same(14, { x: `float32[${shape.join(', ')}]` }, body, ['y'], { tolerance: 2e-5 });
          const whole = Array.from(
            { length: shape.reduce((a, b) => a * b, 1) },
            (_, i) => ((i * 13) % 11) - 5,
          );
          await same(14, { x: [`int64[${shape.join(', ')}]`, whole] }, body);
        }
      }
    }
  }
});

test('GatherElements along every axis', async () => {
  for (const [shape, indices] of [
    [
      [4, 5, 6],
      [2, 3, 6],
    ],
    [
      [4, 5, 6],
      [4, 5, 1],
    ],
    [[7], [9]],
    [
      [4, 5],
      [0, 5],
    ],
  ]) {
    for (let axis = -shape.length; axis < shape.length; axis++) {
      const at = axis < 0 ? axis + shape.length : axis;
      const fits = indices.every((size, i) => i === at || size <= shape[i]);
      if (!fits) continue;
      const count = indices.reduce((a, b) => a * b, 1);
      const values = Array.from(
        { length: count },
        (_, i) => ((i * 31) % (2 * shape[at])) - shape[at],
      );
      for (const type of ['int64', 'int32']) {
        const inputs = {
          x: `float32[${shape.join(', ')}]`,
          i: [`${type}[${indices.join(', ')}]`, values],
        };
        await same(13, inputs, `%y = GatherElements(%x, %i) {axis = ${axis}}`);
      }
    }
  }
});

test('ArgMax and ArgMin along every axis, with ties', async () => {
  for (const shape of [[3, 4, 70], [5], [2, 1, 3]]) {
    const count = shape.reduce((a, b) => a * b, 1);
    const ties = Array.from({ length: count }, (_, i) => (i * 7) % 5);
    for (let axis = -shape.length; axis < shape.length; axis++) {
      for (const op of ['ArgMax', 'ArgMin']) {
        for (const last of [0, 1]) {
          const call = `%y = ${op}(%x) {axis = ${axis}, keepdims = ${last}, select_last_index = ${last}}`;
          await same(13, { x: `float32[${shape.join(', ')}]` }, call);
          await same(13, { x: [`int32[${shape.join(', ')}]`, ties] }, call);
        }
      }
    }
  }
});

test('DepthToSpace and SpaceToDepth', async () => {
  for (const mode of ['DCR', 'CRD']) {
    for (const [shape, block] of [
      [[2, 8, 3, 5], 2],
      [[1, 9, 2, 1], 3],
      [[1, 3, 2, 2], 1],
    ]) {
      await same(
        13,
        { x: `float32[${shape.join(', ')}]` },
        `%y = DepthToSpace(%x) {blocksize = ${block}, mode = "${mode}"}`,
      );
    }
  }
  await same(13, { x: 'float32[2, 3, 4, 6]' }, '%y = SpaceToDepth(%x) {blocksize = 2}');
  await same(13, { x: 'float32[1, 2, 9, 3]' }, '%y = SpaceToDepth(%x) {blocksize = 3}');
});

test('reductions without a kernel', async () => {
  for (const op of [
    'ReduceL2',
    'ReduceProd',
    'ReduceLogSum',
    'ReduceLogSumExp',
    'ReduceMax',
    'ReduceMin',
  ]) {
    const body = ['%a = Abs(%x)', `%y = ${op}(%a) {axes = [1, -1], keepdims = 0}`];
    await same(11, { x: 'float32[3, 4, 5, 2]' }, body);
    if (op === 'ReduceL2' || op === 'ReduceLogSum') continue;
    if (op === 'ReduceLogSumExp') continue;
    await same(11, { x: ['int32[2, 3]', [1, -2, 3, -4, 5, 6]] }, `%y = ${op}(%x) {axes = [1]}`);
  }
});

test('Clip of old opsets', () =>
  same(6, { x: wild(3, 5) }, '%y = Clip(%x) {min = -0.5, max = 1.25}'));

// ONNX Runtime divides by zero here.
test('TopK of no rows', async () => {
  const body = ['const %k: int64[1] = {3}', '%y, %i = TopK(%x, %k)'];
  const model = await parseModel(graph(13, { x: 'float32[0, 9]' }, body, ['y', 'i']));
  const session = await InferenceSession.create(model);
  const x = new Tensor('float32', new Float32Array(0), [0, 9]);
  const { y, i } = await session.run({ x });
  assert.deepEqual(
    [y.dims, i.dims].map((dims) => [...dims]),
    [
      [0, 3],
      [0, 3],
    ],
  );
  await session.release();
  model.dispose();
});
