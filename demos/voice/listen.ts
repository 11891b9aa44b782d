// Two listeners, which get 80 ms of sound after another: one for speech, one for a wake word.

import { InferenceSession, Tensor } from 'requant';

/** Samples a second. */
export const RATE = 16_000;
/** Samples of a piece: 80 ms. */
export const PIECE = 1280;

/** The newest values of a stream, oldest first. */
class Newest {
  readonly values: Float32Array<ArrayBuffer>;

  constructor(length: number) {
    this.values = new Float32Array(length);
  }

  push(more: Float32Array): void {
    this.values.copyWithin(0, more.length);
    this.values.set(more, this.values.length - more.length);
  }
}

/** Silero VAD 5 (github.com/snakers4/silero-vad): how likely it is that someone speaks. */
export class SpeechListener {
  static readonly #STEP = 512;
  static readonly #CONTEXT = 64;

  readonly #input = new Newest(SpeechListener.#STEP + SpeechListener.#CONTEXT);
  #rest = new Float32Array(0);
  #state = new Tensor('float32', new Float32Array(256), [2, 1, 128]);
  #share = 0;

  private constructor(private readonly session: InferenceSession) {}

  static async create(model: Uint8Array): Promise<SpeechListener> {
    return new SpeechListener(await InferenceSession.create(model));
  }

  /** Hears samples from -1 to 1; resolves to a share from 0 to 1. */
  async hear(piece: Float32Array): Promise<number> {
    const all = new Float32Array([...this.#rest, ...piece]);
    let at = 0;
    for (; at + SpeechListener.#STEP <= all.length; at += SpeechListener.#STEP) {
      this.#input.push(all.subarray(at, at + SpeechListener.#STEP));
      const { output, stateN } = await this.session.run({
        input: new Tensor('float32', this.#input.values, [1, this.#input.values.length]),
        state: this.#state,
        sr: new Tensor('int64', BigInt64Array.of(BigInt(RATE)), []),
      });
      this.#state = new Tensor('float32', stateN!.data as Float32Array, [2, 1, 128]);
      this.#share = (output!.data as Float32Array)[0]!;
    }
    this.#rest = all.slice(at);
    return this.#share;
  }
}

/**
 * openWakeWord (github.com/dscripka/openWakeWord): a spectrogram of 32 bands every 10 ms, 96 features of its newest 76
 * columns every 80 ms, and a score of the newest 16 features.
 */
export class WakeWordListener {
  /** The spectrogram's first columns need samples before the piece. */
  readonly #samples = new Newest(PIECE + 480);
  readonly #columns = new Newest(76 * 32);
  readonly #features = new Newest(16 * 96);
  #pieces = 0;

  private constructor(
    private readonly spectrogram: InferenceSession,
    private readonly embedding: InferenceSession,
    private readonly word: InferenceSession,
  ) {}

  static async create(models: Record<'spectrogram' | 'embedding' | 'word', Uint8Array>) {
    const [spectrogram, embedding, word] = await Promise.all([
      InferenceSession.create(models.spectrogram),
      InferenceSession.create(models.embedding),
      InferenceSession.create(models.word),
    ]);
    return new WakeWordListener(spectrogram, embedding, word);
  }

  /** Hears samples from -1 to 1; resolves to a share from 0 to 1. */
  async hear(piece: Float32Array): Promise<number> {
    this.#samples.push(piece.map((value) => value * 32767));
    const columns = await only(this.spectrogram, this.#samples.values, [1, PIECE + 480]);
    this.#columns.push(columns.map((value) => value / 10 + 2));
    this.#features.push(await only(this.embedding, this.#columns.values, [1, 76, 32, 1]));
    const share = (await only(this.word, this.#features.values, [1, 16, 96]))[0]!;
    // Until all features are of real sound, the score means nothing.
    return ++this.#pieces < 16 ? 0 : share;
  }
}

/** Runs a session of one input and one output. */
async function only(
  session: InferenceSession,
  values: Float32Array,
  dims: number[],
): Promise<Float32Array> {
  const input = new Tensor('float32', values, dims);
  const outputs = await session.run({ [session.inputNames[0]!]: input });
  return outputs[session.outputNames[0]!]!.data as Float32Array;
}
