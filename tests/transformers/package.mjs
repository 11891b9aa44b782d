// @huggingface/transformers as npm has it, unmodified, in build/transformers, where nothing else depends on it.
//
//   node tests/transformers/package.mjs     installs it there, which tests do with REQUANT_LONG=1

import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

export const ROOT = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '../..');
/** The folder of the package and of the models that tests make. */
export const FOLDER = path.join(ROOT, 'build/transformers');
export const MODELS = path.join(FOLDER, 'models');

const VERSION = '4.3.2';
const PACKAGE = path.join(FOLDER, 'node_modules/@huggingface/transformers');
/** Where onnxruntime-web's wasm files are. */
const ORT = pathToFileURL(path.join(ROOT, 'node_modules/onnxruntime-web/dist/')).href;
const SLOT = Symbol.for('onnxruntime');

/** The script for pages, which imports onnxruntime-web and onnxruntime-common by their names. */
export const WEB_SCRIPT = path.join(PACKAGE, 'dist/transformers.web.js');

/** Installs the package, once; about half a gigabyte. */
export function install() {
  if (existsSync(PACKAGE)) return;
  mkdirSync(FOLDER, { recursive: true });
  writeFileSync(path.join(FOLDER, 'package.json'), '{ "private": true }');
  const quiet = ['--no-save', '--no-audit', '--no-fund', '--ignore-scripts'];
  const name = `@huggingface/transformers@${VERSION}`;
  execFileSync('npm', ['install', '--prefix', FOLDER, ...quiet, name], { stdio: 'pipe' });
}

/** Why tests of the package are skipped, or false. With REQUANT_LONG=1 it is installed first. */
export function skipTransformers() {
  if (existsSync(PACKAGE)) return false;
  if (!process.env.REQUANT_LONG)
    return 'needs node tests/transformers/package.mjs (or REQUANT_LONG=1)';
  try {
    install();
    return false;
  } catch (error) {
    return `npm cannot install @huggingface/transformers: ${String(error.stderr ?? error.message)}`;
  }
}

/** An instance of transformers.js for Node whose slot for a runtime holds `requant` or `onnxruntime-web`. */
export async function loadTransformers(engine) {
  if (engine === 'requant') {
    await import('requant/transformers');
  } else {
    const ort = await import('onnxruntime-web');
    ort.env.wasm.numThreads = 1;
    ort.env.wasm.wasmPaths = ORT;
    globalThis[SLOT] = ort;
  }
  const script = pathToFileURL(path.join(PACKAGE, 'dist/transformers.node.mjs')).href;
  // Modules of other addresses are other instances.
  const module = await import(`${script}?engine=${engine}`);
  delete globalThis[SLOT];
  return module;
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) install();
