// Models for the pipelines of transformers.js in a local folder, in the layout of the hub, without the hub: the
// operators are those of real exports, the weights random, the tokenizers small.
//
//   node tests/transformers/make.mjs [FOLDER] [small|large]
//
// Small ones are for tests. Large ones have the sizes of MiniLM, DistilBERT with 4 layers, ViT-tiny, Whisper-tiny
// and SmolLM with 6 layers, for measurements.

import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { suffixes } from './layers.mjs';
import { whisperDecoder, whisperEncoder } from './speech.mjs';
import { bert, distilbert, llama } from './text.mjs';
import { bytePair, idOf, unreadable, wordPiece } from './tokenizers.mjs';
import { detr, vit } from './vision.mjs';

/** A tenth of a second of Whisper's frames has five positions of its encoder. */
const POSITIONS_PER_SECOND = 50;

const labels = (count) =>
  Object.fromEntries(Array.from({ length: count }, (_, i) => [i, `LABEL_${i}`]));

function textFiles(tokenizer, tokenizerConfig) {
  return {
    'tokenizer.json': tokenizer,
    'tokenizer_config.json': {
      model_max_length: 64,
      clean_up_tokenization_spaces: true,
      ...tokenizerConfig,
    },
  };
}

const wordPieceConfig = (kind) => ({
  tokenizer_class: kind,
  do_lower_case: true,
  pad_token: '[PAD]',
  unk_token: '[UNK]',
  cls_token: '[CLS]',
  sep_token: '[SEP]',
  mask_token: '[MASK]',
});

function minilm(large) {
  const config = {
    model_type: 'bert',
    architectures: ['BertModel'],
    vocab_size: large ? 30522 : 512,
    hidden_size: large ? 384 : 64,
    num_hidden_layers: large ? 6 : 2,
    num_attention_heads: large ? 12 : 4,
    intermediate_size: large ? 1536 : 128,
    max_position_embeddings: 64,
    type_vocab_size: 2,
    pad_token_id: 0,
  };
  return {
    config,
    files: textFiles(wordPiece(config.vocab_size), wordPieceConfig('BertTokenizer')),
    onnx: { model: (form) => bert(config, form) },
  };
}

function classifier(large) {
  const config = {
    model_type: 'distilbert',
    architectures: ['DistilBertForSequenceClassification'],
    vocab_size: large ? 30522 : 512,
    dim: large ? 768 : 64,
    n_layers: large ? 4 : 2,
    n_heads: large ? 12 : 4,
    hidden_dim: large ? 3072 : 128,
    max_position_embeddings: 64,
    id2label: { 0: 'NEGATIVE', 1: 'POSITIVE', 2: 'NEUTRAL' },
    pad_token_id: 0,
  };
  return {
    config,
    files: textFiles(wordPiece(config.vocab_size), wordPieceConfig('DistilBertTokenizer')),
    onnx: { model: (form) => distilbert(config, form) },
  };
}

function vitTiny(large) {
  const size = large ? 224 : 64;
  const config = {
    model_type: 'vit',
    architectures: ['ViTForImageClassification'],
    hidden_size: large ? 192 : 64,
    num_hidden_layers: large ? 12 : 2,
    num_attention_heads: large ? 3 : 2,
    intermediate_size: large ? 768 : 128,
    image_size: size,
    patch_size: 16,
    num_channels: 3,
    id2label: labels(large ? 1000 : 10),
  };
  return {
    config,
    files: {
      'preprocessor_config.json': {
        image_processor_type: 'ViTImageProcessor',
        do_resize: true,
        size: { height: size, width: size },
        resample: 2,
        do_rescale: true,
        rescale_factor: 1 / 255,
        do_normalize: true,
        image_mean: [0.5, 0.5, 0.5],
        image_std: [0.5, 0.5, 0.5],
      },
    },
    onnx: { model: (form) => vit(config, form) },
  };
}

function detrSmall(large) {
  const config = {
    model_type: 'detr',
    architectures: ['DetrForObjectDetection'],
    d_model: large ? 256 : 64,
    encoder_attention_heads: large ? 8 : 4,
    decoder_attention_heads: large ? 8 : 4,
    encoder_ffn_dim: large ? 2048 : 128,
    decoder_ffn_dim: large ? 2048 : 128,
    num_queries: large ? 100 : 20,
    id2label: labels(12),
  };
  const edge = large ? 480 : 128;
  return {
    config,
    files: {
      'preprocessor_config.json': {
        image_processor_type: 'DetrImageProcessor',
        feature_extractor_type: 'DetrFeatureExtractor',
        do_resize: true,
        size: { shortest_edge: edge, longest_edge: 2 * edge },
        resample: 2,
        do_rescale: true,
        rescale_factor: 1 / 255,
        do_normalize: true,
        do_pad: true,
        image_mean: [0.485, 0.456, 0.406],
        image_std: [0.229, 0.224, 0.225],
      },
    },
    onnx: { model: (form) => detr(config, form) },
  };
}

function whisper(large) {
  const seconds = large ? 30 : 2;
  const stamps = Array.from({ length: 1501 }, (_, i) => `<|${(0.02 * i).toFixed(2)}|>`);
  const special = ['<|endoftext|>', '<|startoftranscript|>', '<|en|>', '<|transcribe|>'];
  const tokenizer = bytePair([...special, '<|notimestamps|>', ...stamps], large ? 51865 : 0);
  const id = (token) => idOf(tokenizer, token);
  const end = id('<|endoftext|>');
  const width = large ? 384 : 64;
  const config = {
    model_type: 'whisper',
    architectures: ['WhisperForConditionalGeneration'],
    is_encoder_decoder: true,
    vocab_size: id(stamps.at(-1)) + 1,
    num_mel_bins: 80,
    d_model: width,
    encoder_layers: large ? 4 : 2,
    decoder_layers: large ? 4 : 2,
    encoder_attention_heads: large ? 6 : 2,
    decoder_attention_heads: large ? 6 : 2,
    encoder_ffn_dim: 4 * width,
    decoder_ffn_dim: 4 * width,
    max_source_positions: seconds * POSITIONS_PER_SECOND,
    max_target_positions: 448,
    decoder_start_token_id: id('<|startoftranscript|>'),
    eos_token_id: end,
    bos_token_id: end,
    pad_token_id: end,
    'transformers.js_config': { kv_cache_dtype: { fp16: 'float16', q4f16: 'float16' } },
  };
  return {
    config,
    files: {
      ...textFiles(tokenizer, {
        tokenizer_class: 'WhisperTokenizer',
        model_max_length: 448,
        bos_token: '<|endoftext|>',
        eos_token: '<|endoftext|>',
        pad_token: '<|endoftext|>',
        unk_token: '<|endoftext|>',
      }),
      'preprocessor_config.json': {
        feature_extractor_type: 'WhisperFeatureExtractor',
        processor_class: 'WhisperProcessor',
        chunk_length: seconds,
        feature_size: 80,
        hop_length: 160,
        n_fft: 400,
        n_samples: seconds * 16000,
        nb_max_frames: seconds * 100,
        padding_side: 'right',
        padding_value: 0,
        sampling_rate: 16000,
      },
      'generation_config.json': {
        decoder_start_token_id: config.decoder_start_token_id,
        eos_token_id: end,
        bos_token_id: end,
        pad_token_id: end,
        is_multilingual: false,
        no_timestamps_token_id: id('<|notimestamps|>'),
        // Random weights choose any token; a transcript has only text.
        suppress_tokens: unreadable(tokenizer),
        max_length: 448,
        max_initial_timestamp_index: 50,
        return_timestamps: false,
      },
    },
    onnx: {
      encoder_model: (form) => whisperEncoder(config, form),
      decoder_model_merged: (form) => whisperDecoder(config, form),
    },
  };
}

function smol(large) {
  const tokenizer = bytePair(['<|endoftext|>', '<|im_start|>', '<|im_end|>'], large ? 49152 : 0);
  const end = idOf(tokenizer, '<|endoftext|>');
  const config = {
    model_type: 'llama',
    architectures: ['LlamaForCausalLM'],
    vocab_size: idOf(tokenizer, '<|im_end|>') + 1,
    hidden_size: large ? 576 : 64,
    num_hidden_layers: large ? 6 : 2,
    num_attention_heads: large ? 9 : 4,
    num_key_value_heads: large ? 3 : 2,
    head_dim: large ? 64 : 16,
    intermediate_size: large ? 1536 : 128,
    rope_theta: 10000,
    max_position_embeddings: 256,
    bos_token_id: end,
    eos_token_id: end,
    'transformers.js_config': { kv_cache_dtype: { fp16: 'float16', q4f16: 'float16' } },
  };
  return {
    config,
    files: {
      ...textFiles(tokenizer, {
        tokenizer_class: 'GPT2Tokenizer',
        model_max_length: 256,
        bos_token: '<|endoftext|>',
        eos_token: '<|endoftext|>',
        pad_token: '<|endoftext|>',
        unk_token: '<|endoftext|>',
        chat_template:
          "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + " +
          "'<|im_end|>\\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}",
      }),
      'generation_config.json': {
        bos_token_id: end,
        eos_token_id: end,
        pad_token_id: end,
        suppress_tokens: unreadable(tokenizer),
      },
    },
    onnx: { model: (form) => llama(config, form) },
  };
}

/** The models by their folders. */
export const models = {
  'requant-test/minilm': minilm,
  'requant-test/distilbert-sst2': classifier,
  'requant-test/vit-tiny': vitTiny,
  'requant-test/detr-small': detrSmall,
  'requant-test/whisper-tiny': whisper,
  'requant-test/smol-llama': smol,
};

/** Writes the models in these forms to a folder, for `env.localModelPath`. */
export function makeModels(folder, forms = Object.keys(suffixes), large = false) {
  for (const [name, make] of Object.entries(models)) {
    const { config, files, onnx } = make(large);
    const target = path.join(folder, name);
    mkdirSync(path.join(target, 'onnx'), { recursive: true });
    for (const [file, json] of Object.entries({ 'config.json': config, ...files })) {
      writeFileSync(path.join(target, file), JSON.stringify(json, null, 1));
    }
    for (const form of forms) {
      for (const [file, bytes] of Object.entries(onnx)) {
        writeFileSync(path.join(target, 'onnx', `${file}${suffixes[form]}.onnx`), bytes(form));
      }
    }
  }
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) {
  const [folder = 'build/transformers/models', size = 'small'] = process.argv.slice(2);
  makeModels(folder, undefined, size === 'large');
}
