// Operators that few networks have: a table as cases.mjs.

import { activations, padding } from './schema.mjs';
import { Net, Random } from './net.mjs';

const cases = [];

function add(name, kinds, build) {
  for (const type of kinds) {
    const seed = cases.length + 1001;
    cases.push({
      name: `${name} ${type}`,
      build: (wrapped) => {
        const net = new Net(new Random(seed), wrapped);
        const outputs = build(net, type);
        return net.done(...(Array.isArray(outputs) ? outputs : [outputs]));
      },
    });
  }
}

const float = ['float32'];

// --- Layers over three dimensions
for (const [pads, stride, dilation, activation] of [
  ['SAME', 1, 1, 'RELU'],
  ['SAME', 2, 1, 'NONE'],
  ['VALID', 2, 1, 'RELU6'],
  ['VALID', 1, 2, 'NONE'],
]) {
  add(`CONV_3D ${pads} stride ${stride} dilation ${dilation}`, float, (net, type) => {
    const size = [5, 7, 6];
    const kernel = [2, 3, 3];
    const out = size.map((n, i) => {
      const extent = (kernel[i] - 1) * dilation + 1;
      return Math.ceil((pads === 'SAME' ? n : n - extent + 1) / stride);
    });
    const x = net.input(type, [1, ...size, 3]);
    const inputs = [x, net.weights(type, [...kernel, 3, 4]), net.weights(type, [4])];
    return net.node('CONV_3D', inputs, type, [1, ...out, 4], {
      padding: padding[pads],
      strideD: stride,
      strideH: stride,
      strideW: stride,
      dilationD: dilation,
      dilationH: dilation,
      dilationW: dilation,
      activation: activations[activation],
    });
  });
}
for (const [pads, stride] of [
  ['SAME', 2],
  ['VALID', 2],
  ['SAME', 1],
]) {
  add(`CONV_3D_TRANSPOSE ${pads} stride ${stride}`, float, (net, type) => {
    const size = [2, 3, 4];
    const kernel = [2, 3, 3];
    const out = size.map((n, i) =>
      pads === 'SAME' ? n * stride : (n - 1) * stride + Math.max(kernel[i], stride),
    );
    const x = net.input(type, [1, ...size, 3]);
    const w = net.weights(type, [...kernel, 4, 3]);
    const inputs = [net.ints([1, ...out, 4]), w, x, net.weights(type, [4])];
    return net.node('CONV_3D_TRANSPOSE', inputs, type, [1, ...out, 4], {
      padding: padding[pads],
      strideD: stride,
      strideH: stride,
      strideW: stride,
      dilationD: 1,
      dilationH: 1,
      dilationW: 1,
      activation: activations.NONE,
    });
  });
}

// LiteRT.js sets the states of this form to zero.
add('LSTM of the older form', float, (net, type) => {
  const inputs = [net.input(type, [2, 5]), net.input(type, [2, 4], 0, 0)];
  inputs.push(net.weights(type, [16, 9]), net.weights(type, [16]), net.input(type, [2, 4], 0, 0));
  const outputs = [4, 4, 9, 16].map((n) => ({ type, shape: [2, n] }));
  const options = { activation: activations.TANH, kernel: 1 };
  return net.nodes2('LSTM', inputs, outputs, options).slice(0, 2);
});

// --- Segments and places
for (const op of ['SUM', 'PROD', 'MAX', 'MIN']) {
  add(`UNSORTED_SEGMENT_${op}`, ['float32', 'int32'], (net, type) =>
    net.node(
      `UNSORTED_SEGMENT_${op}`,
      [net.input(type, [6, 2]), net.ints([2, 0, -1, 2, 4, 0]), net.ints([5], [])],
      type,
      [5, 2],
    ),
  );
}
add('SPARSE_TO_DENSE of positions', ['float32', 'int32'], (net, type) => {
  const inputs = [net.ints([0, 1, 1, 2, 2, 0], [3, 2]), net.ints([3, 4])];
  inputs.push(net.input(type, [3]), net.constant(type, [], [7]));
  return net.node('SPARSE_TO_DENSE', inputs, type, [3, 4]);
});
add('SPARSE_TO_DENSE of one value', float, (net, type) => {
  const inputs = [net.ints([0, 3, 4]), net.ints([6]), net.input(type, [])];
  inputs.push(net.constant(type, [], [-1]));
  return net.node('SPARSE_TO_DENSE', inputs, type, [6]);
});
for (const [label, part, low, high] of [
  ['inside', [1, 2, 5], 0, 1],
  ['beyond', [2, 2, 3], 2, 5],
  ['whole', [3, 4, 5], 0, 3],
]) {
  add(`DYNAMIC_UPDATE_SLICE ${label}`, ['float32', 'int32'], (net, type) => {
    const inputs = [net.input(type, [3, 4, 5]), net.input(type, part)];
    inputs.push(net.input('int32', [3], low, high));
    return net.node('DYNAMIC_UPDATE_SLICE', inputs, type, [3, 4, 5]);
  });
}
add('MATRIX_DIAG', ['float32', 'int32'], (net, type) =>
  net.node('MATRIX_DIAG', [net.input(type, [2, 4])], type, [2, 4, 4]),
);
for (const [rows, columns] of [
  [3, 5],
  [5, 3],
]) {
  add(`MATRIX_SET_DIAG ${rows}x${columns}`, ['float32', 'int32'], (net, type) => {
    const inputs = [net.input(type, [2, rows, columns]), net.input(type, [2, 3])];
    return net.node('MATRIX_SET_DIAG', inputs, type, [2, rows, columns]);
  });
}
add('BROADCAST_ARGS', float, (net, type) => {
  const shape = net.node('BROADCAST_ARGS', [net.ints([3, 1]), net.ints([2, 1, 4])], 'int32', [3]);
  return net.node('BROADCAST_TO', [net.input(type, [3, 4]), shape], type, [2, 3, 4]);
});
add('UNIQUE', ['float32', 'int32'], (net, type) => {
  const x = net.input('int32', [9], 0, 3);
  const given = type === 'int32' ? x : net.node('CAST', [x], type, [9], { from: 2, to: 0 });
  const outputs = [
    { type, shape: [9] },
    { type: 'int32', shape: [9] },
  ];
  // LiteRT.js cannot give out the values, whose number is open.
  return net.nodes2('UNIQUE', [given], outputs, { type: 2 })[1];
});
for (const version of [4, 5]) {
  add(`NON_MAX_SUPPRESSION_V${version}`, float, (net, type) => {
    const corner = net.input(type, [12, 2], 0, 4);
    const size = net.input(type, [12, 2], 0.5, 3);
    const other = net.node('ADD', [corner, size], type, [12, 2]);
    const boxes = net.node('CONCATENATION', [corner, other], type, [12, 4], { axis: 1 });
    const number = (value) => net.constant(type, [], [value]);
    const inputs = [boxes, net.input(type, [12], 0, 1), net.ints([8], [])];
    inputs.push(number(0.3), number(0.2), ...(version === 5 ? [number(0)] : []));
    const outputs = [
      { type: 'int32', shape: [8] },
      ...(version === 5 ? [{ type, shape: [8] }] : []),
      { type: 'int32', shape: [] },
    ];
    return net.nodes2(`NON_MAX_SUPPRESSION_V${version}`, inputs, outputs);
  });
}

// --- Bits and angles
add('ATAN2', float, (net, type) =>
  net.node('ATAN2', [net.input(type, [40]), net.input(type, [40])], type, [40]),
);
add('ATAN2 on the axes', float, (net, type) => {
  const values = [-1, 0, 1];
  const y = net.constant(
    type,
    [9],
    values.flatMap((value) => [value, value, value]),
  );
  const x = net.constant(type, [9], [...values, ...values, ...values]);
  const zero = net.input(type, [1], 0, 0);
  const moved = net.node('ADD', [x, zero], type, [9]);
  return net.node('ATAN2', [y, moved], type, [9]);
});
add('BITCAST', float, (net, type) =>
  net.node('BITCAST', [net.input(type, [3, 4])], 'int32', [3, 4]),
);
add('BITWISE_XOR', ['int32'], (net, type) =>
  net.node(
    'BITWISE_XOR',
    [net.input(type, [20], -99, 99), net.input(type, [20], -99, 99)],
    type,
    [20],
  ),
);
add('RIGHT_SHIFT', ['int32'], (net, type) =>
  net.node(
    'RIGHT_SHIFT',
    [net.input(type, [20], -999, 999), net.input(type, [20], 0, 9)],
    type,
    [20],
  ),
);
add('BUCKETIZE', ['float32', 'int32'], (net, type) =>
  net.node('BUCKETIZE', [net.input(type, [4, 6], -3, 3)], 'int32', [4, 6], {
    boundaries: [-2, 0, 0.5, 2],
  }),
);
add('STABLEHLO_ADD', float, (net, type) =>
  net.node('STABLEHLO_ADD', [net.input(type, [3, 4]), net.input(type, [3, 4])], type, [3, 4]),
);

// --- Spectra
for (const [height, width, lengths] of [
  [1, 16, [1, 16]],
  [4, 8, [4, 8]],
  [3, 10, [4, 16]],
]) {
  for (const op of ['COMPLEX_ABS', 'REAL', 'IMAG']) {
    add(`${op} of RFFT2D ${height}x${width}`, float, (net, type) => {
      const shape = [2, lengths[0], lengths[1] / 2 + 1];
      const x = net.input(type, [2, height, width]);
      const spectrum = net.node('RFFT2D', [x, net.ints(lengths)], 'complex64', shape);
      return net.node(op, [spectrum], type, shape);
    });
  }
}

export default cases;
