// Sound files as samples: decoded, brought to the network's rate, cut into windows of its length.

import type { ModelInfo, Tensor, ValueInfo } from 'requant';
import { StudioError } from '../watch/problems.js';
import type { GivenFile } from './files.js';
import { otherInputs } from './other_inputs.js';
import type { Samples } from './samples.js';

/** How sound becomes numbers. */
export interface SoundSettings {
  /** Samples a second. */
  rate: number;
  /** The number that full loudness becomes: 1, or 32768 for networks that take 16-bit integers. */
  full: 1 | 32768;
}

/** Sound of one channel between -1 and 1. */
interface Sound {
  name: string;
  rate: number;
  data: Float32Array;
}

const MOST_SECONDS = 10;
const MOST_WINDOWS = 512;
const USUAL_RATE = 16_000;

/** Reads a WAV file of integers or floats (IBM and Microsoft, Multimedia Programming Interface 1.0). */
export function parseWav(bytes: Uint8Array): Omit<Sound, 'name'> | undefined {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const tag = (at: number) => String.fromCharCode(...bytes.subarray(at, at + 4));
  if (bytes.length < 44 || tag(0) !== 'RIFF' || tag(8) !== 'WAVE') return undefined;
  let format: { kind: number; channels: number; rate: number; bits: number } | undefined;
  for (let at = 12; at + 8 <= bytes.length;) {
    const size = view.getUint32(at + 4, true);
    const body = at + 8;
    if (tag(at) === 'fmt ' && body + 16 <= bytes.length) {
      const kind = view.getUint16(body, true);
      format = {
        // The extensible form has the kind in its GUID.
        kind: kind === 0xfffe && size >= 26 ? view.getUint16(body + 24, true) : kind,
        channels: view.getUint16(body + 2, true),
        rate: view.getUint32(body + 4, true),
        bits: view.getUint16(body + 14, true),
      };
    }
    if (tag(at) === 'data' && format) {
      const { kind, channels, rate, bits } = format;
      const width = bits / 8;
      const readers: Record<string, (byte: number) => number> = {
        '1 8': (byte: number) => (view.getUint8(byte) - 128) / 128,
        '1 16': (byte: number) => view.getInt16(byte, true) / 32_768,
        '1 24': (byte: number) =>
          (view.getUint16(byte, true) | (view.getInt8(byte + 2) << 16)) / 8_388_608,
        '1 32': (byte: number) => view.getInt32(byte, true) / 2_147_483_648,
        '3 32': (byte: number) => view.getFloat32(byte, true),
        '3 64': (byte: number) => view.getFloat64(byte, true),
      };
      const read = readers[`${kind} ${bits}`];
      if (!read || channels < 1 || rate < 1) return undefined;
      const end = Math.min(body + size, bytes.length);
      const count = Math.floor((end - body) / (width * channels));
      const data = new Float32Array(count);
      for (let index = 0; index < count; index++) {
        let sum = 0;
        for (let channel = 0; channel < channels; channel++) {
          sum += read(body + (index * channels + channel) * width);
        }
        data[index] = sum / channels;
      }
      return { rate, data };
    }
    at = body + size + (size % 2);
  }
  return undefined;
}

async function decode({ path, file }: GivenFile): Promise<Sound> {
  const bytes = new Uint8Array(await file.arrayBuffer());
  const name = path.split('/').at(-1)!;
  const wav = parseWav(bytes);
  if (wav) return { name, ...wav };
  try {
    // The browser knows further formats, and brings them to the rate of the context.
    const context = new OfflineAudioContext(1, 1, 48_000);
    const decoded = await context.decodeAudioData(bytes.slice().buffer);
    return { name, rate: decoded.sampleRate, data: decoded.getChannelData(0) };
  } catch {
    throw new StudioError('A sound cannot be read.', name, 'Save it as WAV');
  }
}

/** The sound at another rate, as the browser resamples it. */
async function resampled({ rate, data }: Sound, to: number): Promise<Float32Array> {
  if (rate === to || data.length === 0) return data;
  const count = Math.max(1, Math.round((data.length * to) / rate));
  const context = new OfflineAudioContext(1, count, to);
  const buffer = context.createBuffer(1, data.length, rate);
  buffer.copyToChannel(data as Float32Array<ArrayBuffer>, 0);
  const source = context.createBufferSource();
  source.buffer = buffer;
  source.connect(context.destination);
  source.start();
  return (await context.startRendering()).getChannelData(0);
}

/** The input that takes sound: floats along one axis, which is long or open. */
function soundInput({ inputs }: ModelInfo): ValueInfo | undefined {
  return inputs.find(({ type, dims }) => {
    const last = dims.at(-1);
    return (
      type === 'float32' &&
      dims.length <= 3 &&
      dims.slice(0, -1).every((dim) => dim === 1 || typeof dim !== 'number') &&
      (typeof last !== 'number' || last >= 128)
    );
  });
}

/** What a network sees of a sound, and the sound itself. */
export interface Heard {
  name: string;
  original: Float32Array;
  seen: Float32Array;
  seconds: number;
}

/** Windows of sounds, with the settings that made them. */
export interface SoundSource {
  settings: SoundSettings;
  heard(index: number): Heard;
  with(settings: SoundSettings): Promise<Samples>;
}

async function windowsOf(
  sounds: readonly Sound[],
  info: ModelInfo,
  input: ValueInfo,
  settings: SoundSettings,
): Promise<Samples> {
  const { Tensor: Made } = await import('requant');
  const { rate, full } = settings;
  const length = input.dims.at(-1);
  const windows: { sound: Sound; data: Float32Array }[] = [];
  for (const sound of sounds) {
    const all = await resampled(sound, rate);
    const size = typeof length === 'number' ? length : Math.min(all.length, MOST_SECONDS * rate);
    if (size === 0) continue;
    for (let from = 0; from === 0 || from + size <= all.length; from += size) {
      const data = new Float32Array(size);
      data.set(all.subarray(from, from + size));
      windows.push({ sound, data });
    }
  }
  // Windows of all parts of long recordings, not only of their beginnings.
  const step = Math.max(1, windows.length / MOST_WINDOWS);
  const kept = Array.from(
    { length: Math.min(windows.length, MOST_WINDOWS) },
    (_, at) => windows[Math.floor(at * step)]!,
  );
  const others = await otherInputs(info, input.name, rate);
  const noun = sounds.length === 1 ? 'sound' : 'sounds';
  return {
    kind: 'arrays',
    title: `${kept.length} windows of ${sounds.length} ${noun}`,
    count: kept.length,
    nameOf: (index) => `${kept[index]!.sound.name}, window ${index + 1}`,
    feeds: (index) => {
      const { data } = kept[index]!;
      const dims = [...input.dims.slice(0, -1).map(() => 1), data.length];
      const values = full === 1 ? data : data.map((value) => value * full);
      const tensor = new Made('float32', values, dims) as Tensor;
      return Promise.resolve({ ...others, [input.name]: tensor });
    },
    sound: {
      settings,
      heard: (index) => {
        const { sound, data } = kept[index]!;
        return {
          name: sound.name,
          original: sound.data,
          seen: data,
          seconds: data.length / rate,
        };
      },
      with: (next) => windowsOf(sounds, info, input, next),
    },
  };
}

/** Samples of sound files. Throws StudioError for networks that take no sound. */
export async function fromSounds(files: readonly GivenFile[], info: ModelInfo): Promise<Samples> {
  const input = soundInput(info);
  if (!input) {
    throw new StudioError(
      'Sounds do not fit this model.',
      'None of its inputs is a row of samples of a sound',
      'Bring what its front end makes of sounds, as .npy or .npz',
    );
  }
  const sounds: Sound[] = [];
  for (const file of files) sounds.push(await decode(file));
  return windowsOf(sounds, info, input, { rate: USUAL_RATE, full: 1 });
}
