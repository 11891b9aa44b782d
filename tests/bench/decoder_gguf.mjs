// Writes a GGUF file: a decoder of SmolLM2-135M's shape with random weights of 4 bits (Q4_0), as llama.cpp reads it.
// The form: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md. Q4_0: blocks of 32 weights, a float16 scale d and
// 16 bytes; byte i holds code i in its low half and code i + 16 in its high half; weight = d (code - 8).

import { closeSync, openSync, writeSync } from 'node:fs';
import { halfBits } from '../transformers/onnx_file.mjs';
import { byteCharacters } from '../transformers/tokenizers.mjs';

/** SmolLM2-135M. */
export const SHAPE = {
  layers: 30,
  width: 576,
  heads: 9,
  keyHeads: 3,
  inner: 1536,
  vocabulary: 49152,
};
const ALIGNMENT = 32;
const BLOCK = 32;

// Types of metadata and of tensors.
const UINT32 = 4;
const INT32 = 5;
const FLOAT32 = 6;
const TEXT = 8;
const LIST = 9;
const F32 = 0;
const Q4_0 = 2;

const int = (value, bytes = 4) => {
  const buffer = Buffer.alloc(bytes);
  if (bytes === 8) buffer.writeBigUInt64LE(BigInt(value));
  else buffer.writeUInt32LE(value >>> 0);
  return buffer;
};
const float = (value) => {
  const buffer = Buffer.alloc(4);
  buffer.writeFloatLE(value);
  return buffer;
};
const text = (value) => {
  const bytes = Buffer.from(value);
  return Buffer.concat([int(bytes.length, 8), bytes]);
};
const WRITERS = { [UINT32]: int, [INT32]: int, [FLOAT32]: float, [TEXT]: text };
const entry = (key, type, value) => Buffer.concat([text(key), int(type), WRITERS[type](value)]);
const list = (key, type, values) =>
  Buffer.concat([
    text(key),
    int(LIST),
    int(type),
    int(values.length, 8),
    ...values.map((value) => WRITERS[type](value)),
  ]);

function metadata({ layers, width, heads, keyHeads, inner, vocabulary }) {
  // One merge, which llama.cpp wants; the prompts of the benchmark do not have these letters side by side.
  const tokens = [...byteCharacters(), 'yz'];
  while (tokens.length < vocabulary) tokens.push(`<${tokens.length}>`);
  return [
    entry('general.architecture', TEXT, 'llama'),
    entry('general.name', TEXT, 'random weights'),
    entry('llama.block_count', UINT32, layers),
    entry('llama.context_length', UINT32, 2048),
    entry('llama.embedding_length', UINT32, width),
    entry('llama.feed_forward_length', UINT32, inner),
    entry('llama.attention.head_count', UINT32, heads),
    entry('llama.attention.head_count_kv', UINT32, keyHeads),
    entry('llama.attention.layer_norm_rms_epsilon', FLOAT32, 1e-5),
    entry('llama.rope.dimension_count', UINT32, width / heads),
    entry('llama.rope.freq_base', FLOAT32, 100000),
    entry('llama.vocab_size', UINT32, vocabulary),
    entry('tokenizer.ggml.model', TEXT, 'gpt2'),
    entry('tokenizer.ggml.pre', TEXT, 'gpt-2'),
    list('tokenizer.ggml.tokens', TEXT, tokens),
    list(
      'tokenizer.ggml.token_type',
      INT32,
      tokens.map(() => 1),
    ),
    list('tokenizer.ggml.merges', TEXT, ['y z']),
    entry('tokenizer.ggml.bos_token_id', UINT32, vocabulary - 2),
    entry('tokenizer.ggml.eos_token_id', UINT32, vocabulary - 1),
    entry('general.file_type', UINT32, 2),
  ];
}

/** The tensors, [name, type, [columns, rows]]; a product's columns are its inputs. */
function tensors({ layers, width, heads, keyHeads, inner, vocabulary }) {
  const keys = (width / heads) * keyHeads;
  const all = [['token_embd.weight', Q4_0, [width, vocabulary]]];
  for (let layer = 0; layer < layers; layer++) {
    const name = (part) => `blk.${layer}.${part}.weight`;
    all.push(
      [name('attn_norm'), F32, [width]],
      [name('attn_q'), Q4_0, [width, width]],
      [name('attn_k'), Q4_0, [width, keys]],
      [name('attn_v'), Q4_0, [width, keys]],
      [name('attn_output'), Q4_0, [width, width]],
      [name('ffn_norm'), F32, [width]],
      [name('ffn_gate'), Q4_0, [width, inner]],
      [name('ffn_up'), Q4_0, [width, inner]],
      [name('ffn_down'), Q4_0, [inner, width]],
    );
  }
  all.push(['output_norm.weight', F32, [width]], ['output.weight', Q4_0, [width, vocabulary]]);
  return all;
}

const countOf = (dims) => dims.reduce((a, b) => a * b, 1);
const bytesOf = (type, dims) =>
  type === F32 ? 4 * countOf(dims) : (countOf(dims) / BLOCK) * (2 + BLOCK / 2);
const aligned = (size) => Math.ceil(size / ALIGNMENT) * ALIGNMENT;

/** Weights of mean 0 and variance 1 / columns; ones for the scales of normalizations. */
function dataOf(type, dims, random) {
  const data = Buffer.alloc(bytesOf(type, dims));
  if (type === F32) {
    for (let at = 0; at < data.length; at += 4) data.writeFloatLE(1, at);
    return data;
  }
  // A uniform code has the variance (16^2 - 1) / 12.
  const scale = halfBits(1 / Math.sqrt((dims[0] * 255) / 12));
  for (let at = 0; at < data.length; at += 18) {
    data.writeUInt16LE(scale, at);
    for (let i = 2; i < 18; i += 2) data.writeUInt16LE(random() & 0xffff, at + i);
  }
  return data;
}

/** Writes the file; the same bytes every time. */
export function writeDecoder(file, shape = SHAPE) {
  let state = 1;
  const random = () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state >>> 12;
  };
  const all = tensors(shape);
  const fields = metadata(shape);
  let offset = 0;
  const infos = all.map(([name, type, dims]) => {
    const info = [text(name), int(dims.length), ...dims.map((dim) => int(dim, 8))];
    info.push(int(type), int(offset, 8));
    offset += aligned(bytesOf(type, dims));
    return Buffer.concat(info);
  });
  const head = Buffer.concat([
    Buffer.from('GGUF'),
    int(3),
    int(all.length, 8),
    int(fields.length, 8),
    ...fields,
    ...infos,
  ]);
  const out = openSync(file, 'w');
  try {
    writeSync(out, head);
    writeSync(out, Buffer.alloc(aligned(head.length) - head.length));
    for (const [, type, dims] of all) {
      const data = dataOf(type, dims, random);
      writeSync(out, data);
      writeSync(out, Buffer.alloc(aligned(data.length) - data.length));
    }
  } finally {
    closeSync(out);
  }
}
