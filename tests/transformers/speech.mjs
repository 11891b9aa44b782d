// Whisper as optimum exports it: the encoder, and the decoder with and without past in one file
// (decoder_model_merged: If use_cache_branch).

import { Layers, Weights } from './layers.mjs';

const BATCH = 'batch_size';

function attend(net, name, width, heads, q, k, v, mask) {
  const mixed = net.joined(net.sdpa(q, k, v, mask), width);
  return net.linear(mixed, `${name}.out`, width, width);
}

const queries = (net, x, name, width, heads) =>
  net.heads(net.linear(x, `${name}.q`, width, width), heads, width / heads);
const keys = (net, x, name, width, heads) =>
  net.heads(net.linear(x, `${name}.k`, width, width, { bias: false }), heads, width / heads);
const values = (net, x, name, width, heads) =>
  net.heads(net.linear(x, `${name}.v`, width, width), heads, width / heads);

function mlp(net, x, name, width, inner) {
  const normal = net.layerNorm(x, `${name}.norm3`, width, 1e-5);
  const wide = net.gelu(net.linear(normal, `${name}.fc1`, width, inner));
  return net.op('Add', [x, net.linear(wide, `${name}.fc2`, inner, width)]);
}

/** WhisperEncoder: last_hidden_state of input_features [batch, mels, frames]. */
export function whisperEncoder(config, form) {
  const { d_model: width, encoder_attention_heads: heads, num_mel_bins: mels } = config;
  const places = config.max_source_positions;
  const net = new Layers(new Weights(6), form);
  const features = net.floatInput('input_features', [BATCH, mels, 2 * places]);
  const first = net.gelu(net.conv(features, 'conv1', mels, width, [3], { pad: 1 }));
  const second = net.gelu(net.conv(first, 'conv2', width, width, [3], { stride: 2, pad: 1 }));
  let x = net.op('Add', [
    net.transpose(second, 0, 2, 1),
    net.weight('positions', [places, width], 0.3),
  ]);
  for (let layer = 0; layer < config.encoder_layers; layer++) {
    const name = `encoder.${layer}`;
    const normal = net.layerNorm(x, `${name}.norm1`, width, 1e-5);
    const parts = [queries, keys, values].map((part) =>
      part(net, normal, `${name}.self`, width, heads),
    );
    x = net.op('Add', [x, attend(net, `${name}.self`, width, heads, ...parts)]);
    x = mlp(net, x, name, width, config.encoder_ffn_dim);
  }
  net.floatOutput(net.layerNorm(x, 'encoder.norm', width, 1e-5), 'last_hidden_state', [
    BATCH,
    places,
    width,
  ]);
  return net.graph.toOnnx();
}

/** Logits and present keys and values of one branch of the merged decoder. */
function decoderBranch(net, config, inputs, usesPast) {
  const { d_model: width, decoder_attention_heads: heads } = config;
  const { graph } = net;
  const { ids, encoded, past } = inputs;
  const length = net.size(ids, 1);
  const before = usesPast ? net.size(past(0, 'decoder.key'), 2) : graph.ints(0);
  const end = net.op('Add', [before, length]);
  const wide = (value) => net.op('Unsqueeze', [value, graph.ints([0])]);
  const places = net.op('Slice', [
    net.weight('decoder.positions', [config.max_target_positions, width], 0.5),
    wide(before),
    wide(end),
    graph.ints([0]),
  ]);
  let x = net.op('Add', [net.embedding(ids, 'decoder.tokens', config.vocab_size, width), places]);
  let mask;
  if (!usesPast) {
    const range = net.op('Range', [graph.ints(0), length, graph.ints(1)]);
    const later = net.op('Less', [net.reshape(range, -1, 1), range]);
    const added = net.op('Where', [later, net.scalar(-65504), net.scalar(0)]);
    mask = net.reshape(added, 1, 1, length, length);
  }
  const outputs = [];
  for (let layer = 0; layer < config.decoder_layers; layer++) {
    const name = `decoder.${layer}`;
    const kv = (kind) => past(layer, kind);
    const normal = net.layerNorm(x, `${name}.norm1`, width, 1e-5);
    let k = keys(net, normal, `${name}.self`, width, heads);
    let v = values(net, normal, `${name}.self`, width, heads);
    if (usesPast) {
      k = net.op('Concat', [kv('decoder.key'), k], { axis: 2 });
      v = net.op('Concat', [kv('decoder.value'), v], { axis: 2 });
    }
    const q = queries(net, normal, `${name}.self`, width, heads);
    x = net.op('Add', [x, attend(net, `${name}.self`, width, heads, q, k, v, mask)]);
    const second = net.layerNorm(x, `${name}.norm2`, width, 1e-5);
    const asked = queries(net, second, `${name}.cross`, width, heads);
    const crossKeys = usesPast
      ? kv('encoder.key')
      : keys(net, encoded, `${name}.cross`, width, heads);
    const crossValues = usesPast
      ? kv('encoder.value')
      : values(net, encoded, `${name}.cross`, width, heads);
    x = net.op('Add', [
      x,
      attend(net, `${name}.cross`, width, heads, asked, crossKeys, crossValues),
    ]);
    x = mlp(net, x, name, width, config.decoder_ffn_dim);
    outputs.push(k, v, usesPast ? undefined : crossKeys, usesPast ? undefined : crossValues);
  }
  const last = net.layerNorm(x, 'decoder.norm', width, 1e-5);
  const logits = net.matMul(last, 'decoder.head', width, config.vocab_size, 4);
  return [net.float === 'float16' ? net.op('Cast', [logits], { to: 1 }) : logits, ...outputs];
}

/** decoder_model_merged. */
export function whisperDecoder(config, form) {
  const { d_model: width, decoder_attention_heads: heads } = config;
  const each = width / heads;
  const net = new Layers(new Weights(7), form);
  const { graph } = net;
  const ids = graph.input('input_ids', 'int64', [BATCH, 'decoder_sequence_length']);
  const encoded = net.floatInput('encoder_hidden_states', [
    BATCH,
    'encoder_sequence_length / 2',
    width,
  ]);
  const kinds = ['decoder.key', 'decoder.value', 'encoder.key', 'encoder.value'];
  const cached = new Map();
  for (let layer = 0; layer < config.decoder_layers; layer++) {
    for (const kind of kinds) {
      const name = `past_key_values.${layer}.${kind}`;
      const length = kind.startsWith('decoder')
        ? 'past_decoder_sequence_length'
        : 'encoder_sequence_length_out';
      cached.set(`${layer}.${kind}`, graph.input(name, net.float, [BATCH, heads, length, each]));
    }
  }
  const cache = graph.input('use_cache_branch', 'bool', [1]);
  const names = [...cached.keys()].map((name) => `present.${name}`);
  const past = (layer, kind) => cached.get(`${layer}.${kind}`);
  const dims = (name) => {
    const length = name.includes('decoder')
      ? 'past_decoder_sequence_length + 1'
      : 'encoder_sequence_length_out';
    return [BATCH, heads, length, each];
  };

  const branch = (usesPast) => {
    const body = net.body();
    const [logits, ...present] = decoderBranch(body, config, { ids, encoded, past }, usesPast);
    const prefix = usesPast ? 'then_' : 'else_';
    body.graph.output(logits, `${prefix}logits`, 'float32', [
      BATCH,
      'decoder_sequence_length',
      config.vocab_size,
    ]);
    present.forEach((value, at) => {
      const name = `${prefix}${names[at]}`;
      // The branch with past has no new keys of the encoder; optimum returns empty ones.
      const empty = [0, heads, 1, each];
      const made = value ?? body.graph.constantNode(name, net.float, empty, []);
      body.graph.output(made, name, net.float, value ? dims(names[at]) : empty);
    });
    return body.graph;
  };
  graph.op(
    'If',
    [cache],
    { then_branch: branch(true), else_branch: branch(false) },
    { outputs: ['logits', ...names] },
  );
  graph.output('logits', 'logits', 'float32', [
    BATCH,
    'decoder_sequence_length',
    config.vocab_size,
  ]);
  for (const name of names) graph.output(name, name, net.float, dims(name));
  return graph.toOnnx();
}
