// The tokenizer of BERT: words in lower case, divided into the longest pieces of a vocabulary (Wu et al.,
// arXiv:1609.08144, and tokenization.py of google-research/bert).

/** The parts of a file tokenizer.json that this tokenizer needs. */
export interface TokenizerFile {
  model: {
    vocab: Record<string, number>;
    unk_token: string;
    continuing_subword_prefix: string;
    max_input_chars_per_word: number;
  };
}

/** Punctuation and Chinese characters stand alone; all else between spaces is a word. */
const WORDS = /[!-/:-@[-`{-~\p{P}\p{Script=Han}]|[^\s!-/:-@[-`{-~\p{P}\p{Script=Han}]+/gu;
const MOST_TOKENS = 128;

/** A function from a text to the ids of its tokens, between those of [CLS] and [SEP]. */
export function tokenizerOf({ model }: TokenizerFile): (text: string) => number[] {
  const { vocab, unk_token: unknown, continuing_subword_prefix: prefix } = model;

  function piecesOf(word: string): number[] {
    const pieces: number[] = [];
    for (let from = 0; from < word.length;) {
      let to = word.length;
      const piece = () => (from > 0 ? prefix : '') + word.slice(from, to);
      while (to > from && !Object.hasOwn(vocab, piece())) to--;
      if (to === from) return [vocab[unknown]!];
      pieces.push(vocab[piece()]!);
      from = to;
    }
    return pieces;
  }

  return (text) => {
    const plain = text
      .toLowerCase()
      .normalize('NFD')
      .replace(/\p{Mn}/gu, '');
    const ids = (plain.match(WORDS) ?? []).flatMap((word) =>
      word.length > model.max_input_chars_per_word ? [vocab[unknown]!] : piecesOf(word),
    );
    return [vocab['[CLS]']!, ...ids.slice(0, MOST_TOKENS - 2), vocab['[SEP]']!];
  };
}
