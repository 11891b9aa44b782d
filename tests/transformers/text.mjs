// Networks of text as optimum exports them: BERT (feature-extraction), DistilBERT (text-classification) and
// Llama with past keys and values (text-generation).

import { Layers, Weights } from './layers.mjs';

const LOWEST = -3.4028234663852886e38;
const BATCH = 'batch_size';
const LENGTH = 'sequence_length';

function encoderLayer(net, x, name, { width, heads, inner }, attention) {
  const each = width / heads;
  const part = (kind) => net.heads(net.linear(x, `${name}.${kind}`, width, width), heads, each);
  const mixed = net.joined(attention(part('query'), part('key'), part('value'), each), width);
  const added = net.op('Add', [net.linear(mixed, `${name}.out`, width, width), x]);
  const normal = net.layerNorm(added, `${name}.norm1`, width);
  const wide = net.gelu(net.linear(normal, `${name}.up`, width, inner));
  const narrow = net.linear(wide, `${name}.down`, inner, width);
  return net.layerNorm(net.op('Add', [narrow, normal]), `${name}.norm2`, width);
}

/** BertModel: last_hidden_state of input_ids, attention_mask and token_type_ids. */
export function bert(config, form) {
  const { vocab_size, hidden_size, num_hidden_layers, num_attention_heads, intermediate_size } =
    config;
  const net = new Layers(new Weights(1), form);
  const { graph } = net;
  const [ids, mask, kinds] = ['input_ids', 'attention_mask', 'token_type_ids'].map((name) =>
    graph.input(name, 'int64', [BATCH, LENGTH]),
  );
  const positions = graph.constant(
    'int64',
    [1, 64],
    Array.from({ length: 64 }, (_, i) => i),
  );
  const end = net.op('Unsqueeze', [net.size(ids, 1), graph.ints([0])]);
  const used = net.op('Slice', [positions, graph.ints([0]), end, graph.ints([1])]);
  const words = net.embedding(ids, 'word_embeddings', vocab_size, hidden_size);
  const typed = net.op('Add', [
    words,
    net.embedding(kinds, 'token_type_embeddings', 2, hidden_size),
  ]);
  const placed = net.op('Add', [
    typed,
    net.embedding(used, 'position_embeddings', 64, hidden_size),
  ]);
  let x = net.layerNorm(placed, 'embeddings.norm', hidden_size);
  const wide = net.op('Unsqueeze', [net.op('Unsqueeze', [mask, graph.ints([1])]), graph.ints([2])]);
  const kept = net.op('Cast', [wide], { to: net.float === 'float16' ? 10 : 1 });
  const added = net.op('Mul', [net.op('Sub', [net.scalar(1), kept]), net.scalar(LOWEST)]);
  const sizes = { width: hidden_size, heads: num_attention_heads, inner: intermediate_size };
  for (let layer = 0; layer < num_hidden_layers; layer++) {
    x = encoderLayer(net, x, `layer.${layer}`, sizes, (q, k, v, each) =>
      net.attention(q, k, v, each, added),
    );
  }
  net.floatOutput(x, 'last_hidden_state', [BATCH, LENGTH, hidden_size]);
  return graph.toOnnx();
}

/** DistilBertForSequenceClassification: logits of input_ids and attention_mask, masked by Where. */
export function distilbert(config, form) {
  const { vocab_size, dim, n_layers, n_heads, hidden_dim, id2label } = config;
  const classes = Object.keys(id2label).length;
  const net = new Layers(new Weights(2), form);
  const { graph } = net;
  const ids = graph.input('input_ids', 'int64', [BATCH, LENGTH]);
  const mask = graph.input('attention_mask', 'int64', [BATCH, LENGTH]);
  const range = net.op('Range', [graph.ints(0), net.size(ids, 1), graph.ints(1)]);
  const positions = net.op('Expand', [
    net.op('Unsqueeze', [range, graph.ints([0])]),
    net.op('Shape', [ids]),
  ]);
  const words = net.embedding(ids, 'word_embeddings', vocab_size, dim);
  const placed = net.op('Add', [words, net.embedding(positions, 'position_embeddings', 64, dim)]);
  let x = net.layerNorm(placed, 'embeddings.norm', dim);
  const attention = (q, k, v, each) => {
    const scaled = net.op('Div', [q, net.scalar(Math.sqrt(each))]);
    const scores = net.op('MatMul', [scaled, net.transpose(k, 0, 1, 3, 2)]);
    const absent = net.op('Equal', [mask, graph.ints(0)]);
    const view = net.reshape(absent, net.size(mask, 0), 1, 1, net.size(k, 2));
    const wide = net.op('Expand', [view, net.op('Shape', [scores])]);
    const masked = net.op('Where', [wide, net.scalar(LOWEST), scores]);
    return net.op('MatMul', [net.softmax(masked), v]);
  };
  const sizes = { width: dim, heads: n_heads, inner: hidden_dim };
  for (let layer = 0; layer < n_layers; layer++) {
    x = encoderLayer(net, x, `layer.${layer}`, sizes, attention);
  }
  const first = net.op('Gather', [x, graph.ints(0)], { axis: 1 });
  const pooled = net.op('Relu', [net.linear(first, 'pre_classifier', dim, dim)]);
  const logits = net.linear(pooled, 'classifier', dim, classes, { gain: 3 });
  net.floatOutput(logits, 'logits', [BATCH, classes]);
  return graph.toOnnx();
}

/** cos and sin of the rotary embedding for position_ids: [batch, 1, length, width]. */
function rotary(net, positions, width, theta) {
  const { graph } = net;
  const frequencies = Array.from({ length: width / 2 }, (_, i) => theta ** ((-2 * i) / width));
  const inverse = graph.constant('float32', [1, width / 2, 1], frequencies, 'inv_freq');
  const wide = net.op('Cast', [net.op('Unsqueeze', [positions, graph.ints([1])])], { to: 1 });
  const angles = net.op('Transpose', [net.op('MatMul', [inverse, wide])], { perm: [0, 2, 1] });
  const both = net.op('Concat', [angles, angles], { axis: -1 });
  return ['Cos', 'Sin'].map((kind) => {
    const values = net.op('Unsqueeze', [net.op(kind, [both]), graph.ints([1])]);
    return net.float === 'float16' ? net.op('Cast', [values], { to: 10 }) : values;
  });
}

function rotated(net, x, [cos, sin], width) {
  const { graph } = net;
  const half = (from, to) =>
    net.op('Slice', [x, graph.ints([from]), graph.ints([to]), graph.ints([3]), graph.ints([1])]);
  const upper = net.op('Neg', [half(width / 2, 2 ** 53)]);
  const turned = net.op('Concat', [upper, half(0, width / 2)], { axis: -1 });
  return net.op('Add', [net.op('Mul', [x, cos]), net.op('Mul', [turned, sin])]);
}

/** Every head of keys or values as often as there are heads of queries for it. */
function repeated(net, x, times) {
  const { graph } = net;
  const wide = net.op('Unsqueeze', [x, graph.ints([2])]);
  const [batch, heads, length, width] = [0, 1, 2, 3].map((axis) => net.size(x, axis));
  const expanded = net.op('Expand', [wide, net.shape(batch, heads, times, length, width)]);
  return net.reshape(expanded, batch, net.op('Mul', [heads, graph.ints(times)]), length, width);
}

/** LlamaForCausalLM: logits and present keys and values; grouped queries, rotary positions, RMSNorm. */
export function llama(config, form) {
  const width = config.hidden_size;
  const { num_attention_heads: heads, num_key_value_heads: groups } = config;
  const each = width / heads;
  const past = 'past_sequence_length';
  const total = 'past_sequence_length + sequence_length';
  const net = new Layers(new Weights(3), form);
  const { graph } = net;
  const ids = graph.input('input_ids', 'int64', [BATCH, LENGTH]);
  const mask = graph.input('attention_mask', 'int64', [BATCH, total]);
  const positions = graph.input('position_ids', 'int64', [BATCH, LENGTH]);
  const cache = (layer, kind) => {
    const name = `past_key_values.${layer}.${kind}`;
    return graph.input(name, net.float, [BATCH, groups, past, each]);
  };
  let x = net.embedding(ids, 'embed_tokens', config.vocab_size, width);
  const turns = rotary(net, positions, each, config.rope_theta);

  // Columns after a row's own position, or that the mask leaves out, get the lowest number.
  const [length, whole] = [net.size(ids, 1), net.size(mask, 1)];
  const columns = net.op('Range', [graph.ints(0), whole, graph.ints(1)]);
  const rows = net.op('Range', [net.op('Sub', [whole, length]), whole, graph.ints(1)]);
  const later = net.op('Greater', [columns, net.reshape(rows, -1, 1)]);
  const wideMask = net.op('Unsqueeze', [
    net.op('Unsqueeze', [mask, graph.ints([1])]),
    graph.ints([2]),
  ]);
  const absent = net.op('Or', [later, net.op('Equal', [wideMask, graph.ints(0)])]);
  const lowest = net.scalar(net.float === 'float16' ? -65504 : LOWEST);
  const added = net.op('Where', [absent, lowest, net.scalar(0)]);

  const present = [];
  for (let layer = 0; layer < config.num_hidden_layers; layer++) {
    const name = `layers.${layer}`;
    const part = (from, kind, count) => {
      const flat = net.linear(from, `${name}.${kind}`, width, count * each, { bias: false });
      return net.heads(flat, count, each);
    };
    const normal = net.rmsNorm(x, `${name}.norm1`, width);
    const q = rotated(net, part(normal, 'q', heads), turns, each);
    const newKeys = rotated(net, part(normal, 'k', groups), turns, each);
    const newValues = part(normal, 'v', groups);
    const k = net.op('Concat', [cache(layer, 'key'), newKeys], { axis: 2 });
    const v = net.op('Concat', [cache(layer, 'value'), newValues], { axis: 2 });
    present.push([`present.${layer}.key`, k], [`present.${layer}.value`, v]);
    const times = heads / groups;
    const mixed = net.sdpa(q, repeated(net, k, times), repeated(net, v, times), added);
    const out = net.linear(net.joined(mixed, width), `${name}.o`, width, width, { bias: false });
    x = net.op('Add', [x, out]);
    const second = net.rmsNorm(x, `${name}.norm2`, width);
    const inner = config.intermediate_size;
    const gate = net.silu(net.linear(second, `${name}.gate`, width, inner, { bias: false }));
    const up = net.linear(second, `${name}.up`, width, inner, { bias: false });
    const product = net.op('Mul', [gate, up]);
    x = net.op('Add', [x, net.linear(product, `${name}.down`, inner, width, { bias: false })]);
  }
  const last = net.rmsNorm(x, 'norm', width);
  const logits = net.linear(last, 'lm_head', width, config.vocab_size, { bias: false, gain: 4 });
  net.floatOutput(logits, 'logits', [BATCH, LENGTH, config.vocab_size]);
  for (const [name, value] of present) {
    graph.output(value, name, net.float, [BATCH, groups, total, each]);
  }
  return graph.toOnnx();
}
