// Recurrent layers of TFLite files beside their formulas in double precision: LiteRT.js loads no models with states.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Net, Random } from '../tflite/net.mjs';
import { runNet } from '../tflite/run_net.mjs';
import { activations } from '../tflite/schema.mjs';

const [time, batch, features, units] = [5, 2, 4, 3];
const none = (count) => new Array(count).fill(-1);
const sigmoid = (value) => 1 / (1 + Math.exp(-value));
const product = (matrix, vector, row) =>
  vector.reduce((sum, value, i) => sum + value * matrix[row * vector.length + i], 0);
const functions = { NONE: (x) => x, RELU: (x) => Math.max(0, x), TANH: Math.tanh };

/** The numbers of a constant or a feed, dequantized. */
function numbers(net, index) {
  const { data, scales, zeros, axis = 0, shape, name } = net.tensors[index];
  const given = data ?? net.feeds[name].data;
  if (!scales) return [...given];
  const inner = shape.slice(axis + 1).reduce((a, b) => a * b, 1);
  return Array.from(given, (code, i) => {
    const at = scales.length === 1 ? 0 : Math.floor(i / inner) % shape[axis];
    return scales[at] * (code - (zeros?.[at] ?? 0));
  });
}

/** The steps of one sequence, a list of vectors. */
const sequence = (data, timeMajor, b) =>
  Array.from({ length: time }, (_, t) => {
    const start = (timeMajor ? t * batch + b : b * time + t) * features;
    return data.slice(start, start + features);
  });

/** An LSTM of gates i, f, c, o; an input gate that is left out is 1 less the forget gate. */
function lstm(steps, { weights, recurrent, biases, peepholes }) {
  let hidden = new Array(units).fill(0);
  let cell = new Array(units).fill(0);
  return steps.map((step) => {
    const gate = (g, row) =>
      product(weights[g], step, row) + product(recurrent[g], hidden, row) + biases[g][row];
    const peephole = (p, row, state) => (peepholes?.[p] ? peepholes[p][row] * state[row] : 0);
    const rows = [...hidden.keys()];
    const next = rows.map((row) => {
      const forget = sigmoid(gate(1, row) + peephole(1, row, cell));
      const input = weights[0] ? sigmoid(gate(0, row) + peephole(0, row, cell)) : 1 - forget;
      return forget * cell[row] + input * Math.tanh(gate(2, row));
    });
    hidden = rows.map(
      (row) => sigmoid(gate(3, row) + peephole(2, row, next)) * Math.tanh(next[row]),
    );
    cell = next;
    return hidden;
  });
}

function rnn(steps, { weights, recurrent, bias, activation }) {
  let hidden = new Array(units).fill(0);
  return steps.map((step) => {
    hidden = hidden.map((_, row) =>
      functions[activation](
        product(weights, step, row) + product(recurrent, hidden, row) + bias[row],
      ),
    );
    return hidden;
  });
}

/** Compares an output of sequences, whose last dimension may hold both directions. */
function same(output, timeMajor, wanted, most, offset = 0) {
  const width = output.dims.at(-1);
  for (let b = 0; b < batch; b++) {
    wanted[b].forEach((state, t) =>
      state.forEach((value, u) => {
        const at = (timeMajor ? t * batch + b : b * time + t) * width + offset + u;
        assert.ok(Math.abs(output.data[at] - value) <= most, `${b} ${t} ${u}`);
      }),
    );
  }
}

const shapeOf = (timeMajor, last) => (timeMajor ? [time, batch, last] : [batch, time, last]);

function addLstm(net, { coupled = false, peepholes = false, type = 'float32' }) {
  const make = (...shape) =>
    [0, 1, 2, 3].map((gate) => (coupled && gate === 0 ? -1 : net.weights(type, shape)));
  const slots = {
    weights: make(units, features),
    recurrent: make(units, units),
    peepholes: peepholes
      ? [0, 1, 2].map((p) => (coupled && p === 0 ? -1 : net.weights('float32', [units])))
      : none(3),
    biases: [0, 1, 2, 3].map((gate) =>
      coupled && gate === 0 ? -1 : net.weights('float32', [units]),
    ),
  };
  const inputs = Object.values(slots).flat();
  const known = (list) => list.map((index) => (index < 0 ? undefined : numbers(net, index)));
  const layer = Object.fromEntries(Object.entries(slots).map(([key, list]) => [key, known(list)]));
  return { inputs, layer };
}

const states = (net, count) =>
  Array.from({ length: count }, () => net.state('float32', [batch, units]));

for (const [label, options] of [
  ['', {}],
  [' with peepholes', { peepholes: true }],
  [' with coupled gates', { coupled: true }],
  [' with coupled gates and peepholes', { coupled: true, peepholes: true }],
  [' with weights of 8 bits', { type: 'int8' }],
]) {
  test(`LSTM and its sequences${label} are those of their formulas`, async () => {
    for (const timeMajor of [true, false]) {
      const net = new Net(new Random(9));
      const x = net.input('float32', shapeOf(timeMajor, features));
      const { inputs, layer } = addLstm(net, options);
      const slots = [x, ...inputs, ...none(2), ...states(net, 2), ...none(4)];
      const made = shapeOf(timeMajor, units);
      net.done(
        net.node('UNIDIRECTIONAL_SEQUENCE_LSTM', slots, 'float32', made, {
          activation: activations.TANH,
          timeMajor,
        }),
      );
      const [output] = await runNet(net);
      const given = numbers(net, x);
      const wanted = [0, 1].map((b) => lstm(sequence(given, timeMajor, b), layer));
      same(output, timeMajor, wanted, 1e-6);
    }
    const net = new Net(new Random(4));
    const x = net.input('float32', [batch, features]);
    const { inputs, layer } = addLstm(net, options);
    const slots = [x, ...inputs, ...none(2), ...states(net, 2), ...none(4)];
    net.done(net.node('LSTM', slots, 'float32', [batch, units], { activation: activations.TANH }));
    const [output] = await runNet(net);
    const wanted = [0, 1].map((b) =>
      lstm([numbers(net, x).slice(b * features, (b + 1) * features)], layer),
    );
    wanted.flat(2).forEach((value, i) => assert.ok(Math.abs(output.data[i] - value) < 1e-6));
  });
}

test('LSTM of the older form is that of its formula', async () => {
  const net = new Net(new Random(3));
  const [x, hidden] = [net.input('float32', [1, features]), net.input('float32', [1, units])];
  const weights = net.weights('float32', [4 * units, features + units]);
  const bias = net.weights('float32', [4 * units]);
  const cell = net.input('float32', [1, units]);
  const outputs = [units, units, features + units, 4 * units].map((n) => ({
    type: 'float32',
    shape: [1, n],
  }));
  const options = { activation: activations.TANH, kernel: 1 };
  net.done(...net.nodes2('LSTM', [x, hidden, weights, bias, cell], outputs, options).slice(0, 2));
  const [activation, state] = await runNet(net);
  const joined = [...numbers(net, x), ...numbers(net, hidden)];
  const gate = (g, row) =>
    product(numbers(net, weights), joined, g * units + row) + numbers(net, bias)[g * units + row];
  for (let row = 0; row < units; row++) {
    const next =
      sigmoid(gate(0, row)) * Math.tanh(gate(1, row)) +
      sigmoid(gate(2, row)) * numbers(net, cell)[row];
    assert.ok(Math.abs(state.data[row] - next) < 1e-6);
    assert.ok(Math.abs(activation.data[row] - sigmoid(gate(3, row)) * Math.tanh(next)) < 1e-6);
  }
});

test('LSTM of codes is computed in float', async () => {
  const net = new Net(new Random(12), false);
  const x = net.input('int8', [batch, time, features]);
  const gates = (type, ...shape) => [0, 1, 2, 3].map(() => net.weights(type, shape));
  const weights = gates('int8', units, features);
  const recurrent = gates('int8', units, units);
  const biases = weights.map((w) => net.bias(x, w, units));
  const hidden = net.state('int8', [batch, units]);
  Object.assign(net.tensors[hidden], { scales: [1 / 128], zeros: [0] });
  const cell = net.state('int16', [batch, units]);
  Object.assign(net.tensors[cell], { scales: [1 / 2048], zeros: [0] });
  const slots = [
    x,
    ...weights,
    ...recurrent,
    ...none(3),
    ...biases,
    ...none(2),
    hidden,
    cell,
    ...none(4),
  ];
  const grid = { scales: [1 / 128], zeros: [0] };
  net.done(
    net.node(
      'UNIDIRECTIONAL_SEQUENCE_LSTM',
      slots,
      'int8',
      [batch, time, units],
      {
        activation: activations.TANH,
      },
      { grid },
    ),
  );
  const [output] = await runNet(net);
  const known = (list) => list.map((index) => numbers(net, index));
  const layer = { weights: known(weights), recurrent: known(recurrent), biases: known(biases) };
  const given = numbers(net, x);
  const wanted = [0, 1].map((b) =>
    lstm(sequence(given, false, b), layer).map((step) => step.map((value) => value * 128)),
  );
  same(output, false, wanted, 0.51);
});

for (const mergeOutputs of [false, true]) {
  test(`both directions, ${mergeOutputs ? 'in one output' : 'apart'}`, async () => {
    for (const timeMajor of [true, false]) {
      for (const kind of ['LSTM', 'RNN']) {
        const net = new Net(new Random(17));
        const x = net.input('float32', shapeOf(timeMajor, features));
        let inputs;
        let run;
        let layers;
        if (kind === 'LSTM') {
          const sides = [0, 1].map(() => addLstm(net, {}));
          inputs = [
            ...sides.flatMap((side) => [...side.inputs, ...none(2)]),
            ...states(net, 4),
            ...none(9),
          ];
          layers = sides.map(({ layer }) => layer);
          run = lstm;
        } else {
          const sides = [0, 1].map(() => [
            net.weights('float32', [units, features]),
            net.weights('float32', [units, units]),
            net.weights('float32', [units]),
            ...states(net, 1),
          ]);
          inputs = [...sides.flat(), ...none(3)];
          layers = sides.map(([weights, recurrent, bias]) => ({
            weights: numbers(net, weights),
            recurrent: numbers(net, recurrent),
            bias: numbers(net, bias),
            activation: 'RELU',
          }));
          run = rnn;
        }
        const outputs = (mergeOutputs ? [2 * units] : [units, units]).map((n) => ({
          type: 'float32',
          shape: shapeOf(timeMajor, n),
        }));
        const activation = activations[kind === 'LSTM' ? 'TANH' : 'RELU'];
        net.done(
          ...net.nodes2(`BIDIRECTIONAL_SEQUENCE_${kind}`, [x, ...inputs], outputs, {
            activation,
            mergeOutputs,
            timeMajor,
          }),
        );
        const results = await runNet(net);
        const given = numbers(net, x);
        const steps = [0, 1].map((b) => sequence(given, timeMajor, b));
        const forward = steps.map((one) => run(one, layers[0]));
        const backward = steps.map((one) => run([...one].reverse(), layers[1]).reverse());
        same(results[0], timeMajor, forward, 2e-5);
        if (mergeOutputs) same(results[0], timeMajor, backward, 2e-5, units);
        else same(results[1], timeMajor, backward, 2e-5);
      }
    }
  });
}

test('RNN and its sequences are those of their formulas', async () => {
  for (const activation of ['TANH', 'RELU', 'NONE']) {
    for (const timeMajor of [true, false]) {
      for (const op of ['RNN', 'UNIDIRECTIONAL_SEQUENCE_RNN']) {
        const single = op === 'RNN';
        const net = new Net(new Random(21));
        const x = net.input('float32', single ? [batch, features] : shapeOf(timeMajor, features));
        const parts = [
          net.weights('float32', [units, features]),
          net.weights('float32', [units, units], undefined, -0.5, 0.5),
          net.weights('float32', [units]),
        ];
        const made = single ? [batch, units] : shapeOf(timeMajor, units);
        net.done(
          net.node(op, [x, ...parts, ...states(net, 1)], 'float32', made, {
            ...(single ? {} : { timeMajor }),
            activation: activations[activation],
          }),
        );
        const [output] = await runNet(net);
        const [weights, recurrent, bias] = parts.map((index) => numbers(net, index));
        const layer = { weights, recurrent, bias, activation };
        const given = numbers(net, x);
        if (!single) {
          same(
            output,
            timeMajor,
            [0, 1].map((b) => rnn(sequence(given, timeMajor, b), layer)),
            2e-5,
          );
          continue;
        }
        [0, 1].forEach((b) => {
          const [state] = rnn([given.slice(b * features, (b + 1) * features)], layer);
          state.forEach((value, u) =>
            assert.ok(Math.abs(output.data[b * units + u] - value) < 1e-5),
          );
        });
      }
    }
  }
});

/** The sum over a unit's filters of what they weigh: the past, from the state, and the newest projection. */
function svdf(x, features2, weights, state, bias, { rank, memory, filters }) {
  return Array.from({ length: filters / rank }, (_, unit) => {
    let sum = bias[unit];
    for (let r = 0; r < rank; r++) {
      const f = unit * rank + r;
      const row = [...state.slice(f * memory + 1, (f + 1) * memory), product(features2, x, f)];
      sum += row.reduce((total, value, i) => total + value * weights[f * memory + i], 0);
    }
    return sum;
  });
}

test('SVDF is that of its formula, of floats and of codes, with and without a past', async () => {
  for (const type of ['float32', 'int8']) {
    for (const rank of [1, 2]) {
      for (const past of [false, true]) {
        const form = { rank, memory: 6, filters: 4 * rank };
        const net = new Net(new Random(31), false);
        const x = net.input(type, [batch, features]);
        const first = net.weights(type, [form.filters, features]);
        const timeType = type === 'int8' ? 'int16' : type;
        const grid = type === 'int8' ? { scales: [1 / 16384] } : {};
        const second = net.constant(
          timeType,
          [form.filters, form.memory],
          net.data(timeType, [form.filters, form.memory], -1, 1),
          grid,
        );
        const bias =
          type === 'int8'
            ? net.constant('int32', [4], [100, -50, 3, 0], { scales: [0.001] })
            : net.weights('float32', [4]);
        const size = [batch, form.filters * form.memory];
        const state = past ? net.input(timeType, size, -2, 2) : net.state(timeType, size);
        if (!past && type === 'int8') {
          Object.assign(net.tensors[state], { scales: [1 / 4096], zeros: [0] });
        }
        const slots = [x, first, second, bias, state];
        const options = { rank, activation: activations.NONE };
        const made = { range: [-30, 30] };
        const y = net.node('SVDF', slots, type, [batch, 4], options, made);
        net.done(y);
        const [output] = await runNet(net);
        const given = numbers(net, x);
        for (let b = 0; b < batch; b++) {
          const width = form.filters * form.memory;
          const kept = past
            ? numbers(net, state).slice(b * width, (b + 1) * width)
            : new Array(width).fill(0);
          const wanted = svdf(
            given.slice(b * features, (b + 1) * features),
            numbers(net, first),
            numbers(net, second),
            kept,
            numbers(net, bias),
            form,
          );
          const { scales, zeros } = net.tensors[y];
          wanted.forEach((value, u) => {
            const got = output.data[b * 4 + u];
            if (!scales) return assert.ok(Math.abs(got - value) < 2e-5, `${got} ${value}`);
            const code = Math.min(127, Math.max(-128, value / scales[0] + zeros[0]));
            assert.ok(Math.abs(got - code) <= 0.51, `${got} ${code}`);
          });
        }
      }
    }
  }
});
