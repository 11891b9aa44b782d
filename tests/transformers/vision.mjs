// Networks of pictures as optimum exports them: ViT (image-classification) and DETR (object-detection).

import { Layers, Weights } from './layers.mjs';

const BATCH = 'batch_size';

/** ViTForImageClassification: logits of pixel_values [batch, 3, size, size]. */
export function vit(config, form) {
  const { hidden_size: width, num_attention_heads: heads, intermediate_size: inner } = config;
  const { image_size: size, patch_size: patch, num_hidden_layers, id2label } = config;
  const classes = Object.keys(id2label).length;
  const patches = (size / patch) ** 2;
  const net = new Layers(new Weights(4), form);
  const { graph } = net;
  const pixels = net.floatInput('pixel_values', [BATCH, 3, size, size]);
  const grid = net.conv(pixels, 'patch', 3, width, [patch, patch], { stride: patch });
  const batch = net.size(pixels, 0);
  const rows = net.transpose(net.reshape(grid, batch, width, -1), 0, 2, 1);
  const first = net.op('Expand', [
    net.weight('cls_token', [1, 1, width], 1),
    net.shape(batch, 1, 1),
  ]);
  const all = net.op('Concat', [first, rows], { axis: 1 });
  let x = net.op('Add', [all, net.weight('positions', [1, patches + 1, width], 0.3)]);
  for (let layer = 0; layer < num_hidden_layers; layer++) {
    const name = `layer.${layer}`;
    const normal = net.layerNorm(x, `${name}.norm1`, width);
    const part = (kind) =>
      net.heads(net.linear(normal, `${name}.${kind}`, width, width), heads, width / heads);
    const mixed = net.attention(part('query'), part('key'), part('value'), width / heads);
    const out = net.linear(net.joined(mixed, width), `${name}.out`, width, width);
    x = net.op('Add', [out, x]);
    const second = net.layerNorm(x, `${name}.norm2`, width);
    const wide = net.gelu(net.linear(second, `${name}.up`, width, inner));
    x = net.op('Add', [net.linear(wide, `${name}.down`, inner, width), x]);
  }
  const last = net.layerNorm(x, 'norm', width);
  const pooled = net.op('Gather', [last, graph.ints(0)], { axis: 1 });
  const logits = net.linear(pooled, 'classifier', width, classes, { gain: 3 });
  net.floatOutput(logits, 'logits', [BATCH, classes]);
  return graph.toOnnx();
}

/** Sine positions of the kept cells along one axis of the mask, as DetrSinePositionEmbedding has them. */
function sines(net, kept, axis, features) {
  const { graph } = net;
  const count = net.op('CumSum', [kept, graph.ints(axis)]);
  const ends = axis === 1 ? [graph.ints([-1]), graph.ints([2 ** 53]), graph.ints([1])] : undefined;
  const last = net.op(
    'Slice',
    ends ? [count, ...ends] : [count, graph.ints([-1]), graph.ints([2 ** 53]), graph.ints([2])],
  );
  const share = net.op('Div', [count, net.op('Add', [last, net.scalar(1e-6)])]);
  const angle = net.op('Mul', [share, net.scalar(2 * Math.PI)]);
  const powers = Array.from({ length: features }, (_, i) => 10000 ** ((2 * (i >> 1)) / features));
  const wide = net.op('Unsqueeze', [angle, graph.ints([-1])]);
  const scaled = net.op('Div', [wide, net.floats([features], powers)]);
  const everySecond = (from) =>
    net.op('Slice', [
      scaled,
      graph.ints([from]),
      graph.ints([2 ** 53]),
      graph.ints([3]),
      graph.ints([2]),
    ]);
  const parts = [net.op('Sin', [everySecond(0)]), net.op('Cos', [everySecond(1)])];
  const stacked = net.op(
    'Concat',
    parts.map((part) => net.op('Unsqueeze', [part, graph.ints([4])])),
    { axis: 4 },
  );
  const [batch, height, length] = [0, 1, 2].map((of) => net.size(kept, of));
  return net.reshape(stacked, batch, height, length, -1);
}

/**
 * DetrForObjectDetection: logits and pred_boxes of pixel_values of any size and pixel_mask [batch, 64, 64]. The
 * backbone is a small one of strided convolutions, the encoder and the decoder have one layer each.
 */
export function detr(config, form) {
  const { d_model: width, encoder_attention_heads: heads, num_queries: queries, id2label } = config;
  const classes = Object.keys(id2label).length + 1;
  const net = new Layers(new Weights(13), form);
  const { graph } = net;
  const pixels = net.floatInput('pixel_values', [BATCH, 3, 'height', 'width']);
  const mask = graph.input('pixel_mask', 'int64', [BATCH, 64, 64]);
  let map = pixels;
  let channels = 3;
  for (const [at, to] of [16, 24, 32, 48].entries()) {
    map = net.op('Relu', [
      net.conv(map, `backbone.${at}`, channels, to, [3, 3], { stride: 2, pad: 1 }),
    ]);
    channels = to;
  }
  map = net.op('MaxPool', [map], { kernel_shape: [2, 2], strides: [2, 2] });

  const real = net.op('Cast', [net.op('Unsqueeze', [mask, graph.ints([0])])], { to: 1 });
  const spatial = net.op('Slice', [net.op('Shape', [map]), graph.ints([2]), graph.ints([4])]);
  const front = net.op('Slice', [net.op('Shape', [real]), graph.ints([0]), graph.ints([2])]);
  const sizes = net.op('Concat', [front, spatial], { axis: 0 });
  const resized = net.op('Resize', [real, '', '', sizes], {
    coordinate_transformation_mode: 'asymmetric',
    mode: 'nearest',
    nearest_mode: 'floor',
  });
  const present = net.op('Cast', [net.op('Gather', [resized, graph.ints(0)])], { to: 9 });
  const kept = net.op('Cast', [present], { to: net.float === 'float16' ? 10 : 1 });
  const grid = net.op('Concat', [sines(net, kept, 1, width / 2), sines(net, kept, 2, width / 2)], {
    axis: 3,
  });
  const batch = net.size(map, 0);
  const places = net.reshape(grid, batch, -1, width);
  const projected = net.conv(map, 'input_projection', channels, width, [1, 1]);
  let x = net.transpose(net.reshape(projected, batch, width, -1), 0, 2, 1);

  // Padded cells get minus infinity, as masked_fill leaves them.
  const flat = net.reshape(present, batch, 1, 1, -1);
  const added = net.op('Where', [flat, net.scalar(0), net.scalar(-65504)]);
  const attention = (name, from, to, values, bias) => {
    const part = (of, kind) =>
      net.heads(net.linear(of, `${name}.${kind}`, width, width, { gain: 2 }), heads, width / heads);
    const q = net.op('Mul', [part(from, 'q'), net.scalar(1 / Math.sqrt(width / heads))]);
    const scores = net.op('MatMul', [q, net.transpose(part(to, 'k'), 0, 1, 3, 2)]);
    const weights = net.softmax(bias ? net.op('Add', [scores, bias]) : scores);
    const mixed = net.joined(net.op('MatMul', [weights, part(values, 'v')]), width);
    return net.linear(mixed, `${name}.out`, width, width, { gain: 2 });
  };
  const after = (name, y, residual) =>
    net.layerNorm(net.op('Add', [residual, y]), name, width, 1e-5);
  const feedForward = (name, y) => {
    const wide = net.op('Relu', [net.linear(y, `${name}.up`, width, config.encoder_ffn_dim)]);
    return after(
      `${name}.norm`,
      net.linear(wide, `${name}.down`, config.encoder_ffn_dim, width),
      y,
    );
  };
  const placed = net.op('Add', [x, places]);
  x = after('encoder.norm', attention('encoder.attention', placed, placed, x, added), x);
  x = feedForward('encoder.mlp', x);
  const memory = net.op('Add', [x, places]);

  const table = net.weight('query_position_embeddings', [queries, width], 8);
  const wanted = net.op('Expand', [
    net.op('Unsqueeze', [table, graph.ints([0])]),
    net.shape(batch, 1, 1),
  ]);
  let y = net.op('Mul', [wanted, net.scalar(0)]);
  const asked = net.op('Add', [y, wanted]);
  y = after('decoder.norm1', attention('decoder.self', asked, asked, y), y);
  const looking = net.op('Add', [y, wanted]);
  y = after('decoder.norm2', attention('decoder.cross', looking, memory, x, added), y);
  y = feedForward('decoder.mlp', y);
  y = net.layerNorm(y, 'decoder.norm', width, 1e-5);

  const logits = net.linear(y, 'class_labels_classifier', width, classes, { gain: 3 });
  let box = net.op('Relu', [net.linear(y, 'bbox.0', width, width)]);
  box = net.op('Relu', [net.linear(box, 'bbox.1', width, width)]);
  box = net.op('Sigmoid', [net.linear(box, 'bbox.2', width, 4)]);
  net.floatOutput(logits, 'logits', [BATCH, queries, classes]);
  net.floatOutput(box, 'pred_boxes', [BATCH, queries, 4]);
  return graph.toOnnx();
}
