// Tensors and configurations, which need no engine.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { Tensor } from '../../dist/index.js';
import { parseConfig, resolveOperators } from '../../dist/quantize/parse_config.js';
import { isError } from './support.mjs';

describe('Tensor', () => {
  test('takes typed arrays as they are and plain arrays by value', () => {
    const data = Float32Array.of(1, 2, 3, 4, 5, 6);
    const tensor = new Tensor('float32', data, [2, 3]);
    assert.equal(tensor.data, data);
    assert.deepEqual([tensor.type, tensor.size, [...tensor.dims]], ['float32', 6, [2, 3]]);
    assert.deepEqual(new Tensor('int64', [1, -2n], [2]).data, BigInt64Array.of(1n, -2n));
    assert.deepEqual(new Tensor('bool', [true, false]).data, Uint8Array.of(1, 0));
    assert.deepEqual([...new Tensor('float32', [7], []).dims], []);
    assert.deepEqual([...new Tensor('int8', []).dims], [0]);
    assert.equal(new Tensor('uint8', new Uint8ClampedArray(2)).data.constructor, Uint8Array);
  });

  test('infers the type from the data', () => {
    assert.equal(new Tensor(new Int16Array(4), [2, 2]).type, 'int16');
    assert.equal(new Tensor([1.5, 2]).type, 'float32');
    assert.equal(new Tensor([true]).type, 'bool');
    assert.equal(new Tensor([1n]).type, 'int64');
  });

  test('holds every type', () => {
    const arrays = {
      float32: Float32Array,
      uint8: Uint8Array,
      int8: Int8Array,
      uint16: Uint16Array,
      int16: Int16Array,
      int32: Int32Array,
      int64: BigInt64Array,
      bool: Uint8Array,
      float64: Float64Array,
      uint32: Uint32Array,
      uint64: BigUint64Array,
      float16: globalThis.Float16Array ?? Uint16Array,
      bfloat16: Uint16Array,
    };
    for (const [type, array] of Object.entries(arrays)) {
      assert.ok(new Tensor(type, new array(3)).data instanceof array, type);
      assert.ok(new Tensor(type, [1, 0, 1]).data instanceof array, type);
    }
  });

  test('refuses what does not fit', () => {
    const shape = isError('SHAPE_MISMATCH');
    const type = isError('TYPE_MISMATCH');
    const argument = isError('INVALID_ARGUMENT');
    assert.throws(() => new Tensor('float32', new Float32Array(5), [2, 3]), shape);
    assert.throws(() => new Tensor('float32', new Float64Array(6), [2, 3]), type);
    assert.throws(() => new Tensor('float32', '123456', [2, 3]), type);
    assert.throws(() => new Tensor({}), type);
    assert.throws(() => new Tensor('float31', [1]), argument);
    assert.throws(() => new Tensor('float32', [1], [-1]), argument);
    assert.throws(() => new Tensor('float32', [1], [1.5]), argument);
    assert.throws(() => new Tensor('float32', [1], 1), argument);
    assert.throws(() => new Tensor('float32', [], [2 ** 30, 2 ** 30]), argument);
    assert.throws(() => new Tensor('uint8', [256]), argument);
    assert.throws(() => new Tensor('int8', [0.5]), argument);
    assert.throws(() => new Tensor('int64', [2 ** 60]), argument);
    assert.throws(() => new Tensor('float32', ['1']), argument);
  });

  test('reshapes without copying', () => {
    const tensor = new Tensor('int32', [1, 2, 3, 4, 5, 6], [6]);
    assert.deepEqual([...tensor.reshape([2, -1]).dims], [2, 3]);
    assert.equal(tensor.reshape([3, 2]).data, tensor.data);
    assert.throws(() => tensor.reshape([4, -1]), isError('SHAPE_MISMATCH'));
    assert.throws(() => tensor.reshape([4]), isError('SHAPE_MISMATCH'));
  });
});

describe('config', () => {
  test('becomes the options of the core', () => {
    const parsed = parseConfig({
      activations: { observer: 'percentile', percentile: 99.9 },
      weights: { bits: 7 },
      operatorTypes: { Softmax: null },
      operators: { 'conv1|fc': { weights: { bits: 4 } }, '.*': null },
      recover: [],
    });
    assert.deepEqual(parsed.options, {
      global: {
        quantize: true,
        activations: { observer: 'percentile', percentile: 99.9 },
        weights: { bits: 7 },
      },
      types: { Softmax: { quantize: false } },
      operators: {},
      recover: [],
      floatOutputs: true,
      quickChoices: false,
      recoverNamed: true,
    });
    const nodes = [
      { name: 'conv1', type: 'Conv' },
      { name: 'conv10', type: 'Conv' },
      { name: 'fc', type: 'Gemm' },
    ];
    const { operators } = resolveOperators(parsed, nodes);
    assert.deepEqual(operators, {
      conv1: { type: 'Conv', quantize: false, weights: { bits: 4 } },
      conv10: { type: 'Conv', quantize: false },
      fc: { type: 'Gemm', quantize: false, weights: { bits: 4 } },
    });
  });

  test('outputs stay in float unless a target or the caller wants integers', () => {
    const floats = (config) => parseConfig(config).options.floatOutputs;
    assert.equal(floats({}), true);
    assert.equal(floats({ target: 'onnxruntime' }), true);
    assert.equal(floats({ floatOutputs: false }), false);
    for (const target of ['tflite', 'power-of-2', 'megengine-int4']) {
      assert.equal(floats({ target }), false);
      assert.equal(floats({ target, floatOutputs: true }), true);
    }
  });

  test('what may stay in float is chosen by default for 8 bits with float outputs', () => {
    const chosen = (config) => parseConfig(config).options;
    const integers = ['smooth_quant', 'round_weights', 'bias_correction'];
    assert.deepEqual(chosen({}).recover, [...integers, 'float_sums', 'float_answers']);
    assert.equal(chosen({}).quickChoices, true);
    assert.deepEqual(chosen({ target: 'reduce-range' }).recover, [
      ...integers,
      'float_sums',
      'float_answers',
    ]);
    for (const config of [{ floatOutputs: false }, { target: 'tflite' }]) {
      assert.deepEqual(chosen(config).recover, integers);
    }
    for (const config of [{ weights: { bits: 4 } }, { activations: { bits: 4 } }]) {
      assert.deepEqual(chosen(config).recover, [...integers, 'sequential_rounding']);
      assert.equal(chosen(config).quickChoices, false);
    }
    const auto = chosen({ activations: { observer: 'auto' } });
    const choices = ['float_start', 'float_sums', 'float_end', 'float_answers'];
    assert.deepEqual(auto.recover, [...integers, ...choices, 'empirical_bias']);
    assert.equal(auto.quickChoices, false);
    assert.deepEqual(chosen({ recover: [] }).recover, []);
    assert.equal(chosen({}).recoverNamed, false);
    assert.equal(chosen({ recoverSamples: 20 }).quickChoices, false);
  });

  test('layers that are asked for floats', () => {
    const parsed = parseConfig({ operators: { a: { floatOutput: true }, '.*': { weights: {} } } });
    const nodes = ['a', 'b'].map((name) => ({ name, type: 'Conv' }));
    assert.deepEqual(resolveOperators(parsed, nodes).operators, {
      a: { type: 'Conv', quantize: true, floatOutput: true, weights: {} },
      b: { type: 'Conv', quantize: true, weights: {} },
    });
  });

  test('a name with special letters matches itself', () => {
    const parsed = parseConfig({ operators: { 'a.b(1)[2]': null } });
    const nodes = ['a.b(1)[2]', 'x'].map((name) => ({ name, type: 'Conv' }));
    assert.deepEqual(Object.keys(resolveOperators(parsed, nodes).operators), ['a.b(1)[2]']);
  });

  const bad = [
    [{ activation: {} }, 'config.activation', /activations/],
    [{ activations: { bit: 8 } }, 'config.activations.bit', /"bits"/],
    [{ floatOutput: true }, 'config.floatOutput', /"floatOutputs"/],
    [{ operators: { a: { floatOutput: 1 } } }, 'config.operators["a"].floatOutput'],
    [{ activations: { bits: 33 } }, 'config.activations.bits'],
    [{ weights: { bits: 0 } }, 'config.weights.bits'],
    [{ activations: { bits: '8' } }, 'config.activations.bits'],
    [{ activations: { perChannel: 1 } }, 'config.activations.perChannel'],
    [{ activations: { observer: 'mean' } }, 'config.activations.observer'],
    [{ weights: { observer: 'moving_average' } }, 'config.weights.observer'],
    [{ weights: { symmetric: 1 } }, 'config.weights.symmetric'],
    [{ weights: null }, 'config.weights'],
    [{ activations: { percentile: 0 } }, 'config.activations.percentile'],
    [{ activations: { momentum: 1 } }, 'config.activations.momentum'],
    [{ operatorTypes: { Conf: null } }, 'config.operatorTypes.Conf', /"Conv"/],
    [{ operators: { '(': null } }, 'config.operators["("]'],
    [{ operators: { a: { bits: 4 } } }, 'config.operators["a"].bits'],
    [{ operators: { a: 4 } }, 'config.operators["a"]'],
    [{ recover: ['bias'] }, 'config.recover[0]'],
    [{ recover: 'bias_correction' }, 'config.recover'],
    [8, 'config'],
  ];
  for (const [config, value, hint] of bad) {
    test(`names ${value}`, () => {
      assert.throws(
        () => parseConfig(config, ['Conv', 'Softmax']),
        isError('INVALID_ARGUMENT', { value, hint }),
      );
    });
  }
});
