// Files tokenizer.json of small vocabularies, in the forms that BERT, Llama and Whisper have.

const LETTERS = [...'abcdefghijklmnopqrstuvwxyz0123456789'];
const WORDS =
  'the a of and to in is it that was for on are with as his they be at one have this from by hot word but ' +
  'what some we can out other were all there when up use your how said an each she which do their time if ' +
  'will way about many then them write would like so these her long make thing see him two has look more ' +
  'day could go come did number sound no most people my over know water than call first who may down side';
const ENDINGS = ['s', 'ed', 'ing', 'er', 'ly', 'tion', 'al', 'est'];

const added = (id, content, special = true) => ({
  id,
  content,
  single_word: false,
  lstrip: false,
  rstrip: false,
  normalized: false,
  special,
});

const base = { version: '1.0', truncation: null, padding: null };

/** WordPiece in lower case; unused tokens fill the vocabulary. */
export function wordPiece(size) {
  const special = ['[PAD]', '[UNK]', '[CLS]', '[SEP]', '[MASK]'];
  const pieces = [...LETTERS, ...ENDINGS].map((piece) => `##${piece}`);
  const marks = [...'.,!?\'"-:;()'];
  const tokens = [...special, ...LETTERS, ...marks, ...pieces, ...new Set(WORDS.split(' '))];
  const all = [...new Set(tokens)];
  while (all.length < size) all.push(`[unused${all.length}]`);
  const id = (token) => all.indexOf(token);
  const template = (name, type) => [
    { SpecialToken: { id: name, type_id: type } },
    { Sequence: { id: type === 0 ? 'A' : 'B', type_id: type } },
  ];
  return {
    ...base,
    added_tokens: special.map((token) => added(id(token), token)),
    normalizer: {
      type: 'BertNormalizer',
      clean_text: true,
      handle_chinese_chars: true,
      strip_accents: null,
      lowercase: true,
    },
    pre_tokenizer: { type: 'BertPreTokenizer' },
    post_processor: {
      type: 'TemplateProcessing',
      single: [...template('[CLS]', 0), { SpecialToken: { id: '[SEP]', type_id: 0 } }],
      pair: [
        ...template('[CLS]', 0),
        { SpecialToken: { id: '[SEP]', type_id: 0 } },
        { Sequence: { id: 'B', type_id: 1 } },
        { SpecialToken: { id: '[SEP]', type_id: 1 } },
      ],
      special_tokens: Object.fromEntries(
        ['[CLS]', '[SEP]'].map((token) => [
          token,
          { id: token, ids: [id(token)], tokens: [token] },
        ]),
      ),
    },
    decoder: { type: 'WordPiece', prefix: '##', cleanup: true },
    model: {
      type: 'WordPiece',
      unk_token: '[UNK]',
      continuing_subword_prefix: '##',
      max_input_chars_per_word: 100,
      vocab: Object.fromEntries(all.map((token, at) => [token, at])),
    },
  };
}

/** The characters that stand for the 256 bytes in byte-level BPE, as GPT-2 assigned them. */
export function byteCharacters() {
  const printable = (byte) =>
    (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
  let next = 256;
  return Array.from({ length: 256 }, (_, byte) =>
    String.fromCodePoint(printable(byte) ? byte : next++),
  );
}

/** Byte-level BPE with a few merges; `special` tokens follow those of the vocabulary. */
export function bytePair(special, size = 0) {
  const space = byteCharacters()[32];
  const merges = [
    `${space} t`,
    'h e',
    `${space}t he`,
    'i n',
    'r e',
    'o n',
    'e r',
    `${space} a`,
    'a t',
    `${space} w`,
    'o r',
    `${space}w at`,
  ];
  const tokens = [...byteCharacters(), ...merges.map((merge) => merge.replace(' ', ''))];
  while (tokens.length < size - special.length) tokens.push(`<unused${tokens.length}>`);
  const vocab = Object.fromEntries(tokens.map((token, at) => [token, at]));
  return {
    ...base,
    added_tokens: special.map((token, at) => added(tokens.length + at, token)),
    normalizer: null,
    pre_tokenizer: {
      type: 'ByteLevel',
      add_prefix_space: false,
      trim_offsets: true,
      use_regex: true,
    },
    post_processor: null,
    decoder: { type: 'ByteLevel', add_prefix_space: true, trim_offsets: true, use_regex: true },
    model: {
      type: 'BPE',
      dropout: null,
      unk_token: null,
      continuing_subword_prefix: '',
      end_of_word_suffix: '',
      fuse_unk: false,
      byte_fallback: false,
      vocab,
      merges,
    },
  };
}

/** The numbers of tokens that are no plain text: those of bytes outside of ASCII's letters and signs, and others. */
export function unreadable({ added_tokens, model }) {
  const plain = /^[!-~\u0120]+$/; // U+0120 stands for a space
  const tokens = Object.entries(model.vocab).filter(([token]) => !plain.test(token));
  return [...tokens.map(([, id]) => id), ...added_tokens.map(({ id }) => id)];
}

/** The number of a token of bytePair(). */
export function idOf({ added_tokens, model }, token) {
  return added_tokens.find(({ content }) => content === token)?.id ?? model.vocab[token];
}
