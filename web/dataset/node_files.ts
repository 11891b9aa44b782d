// Files and folders on disk: bytes and labels. Node only.

import { readFile, readdir } from 'node:fs/promises';
import { RequantError, invalidArgument } from '../base/errors.js';
import { isIdx, parseIdx, parseJsonLabels } from './image_sets.js';
import { decompress, isGzip } from './inflate.js';
import { parseNpy } from './npy.js';

export function unreadable(file: string, error: unknown): RequantError {
  const { code } = error as { code?: string };
  const why = code === 'ENOENT' ? 'there is no such file or folder' : (error as Error).message;
  return new RequantError('LOAD_FAILED', `cannot read ${file}: ${why}`, {
    value: file,
    cause: error,
  });
}

export async function read(file: string): Promise<Uint8Array> {
  try {
    return new Uint8Array(await readFile(file));
  } catch (error) {
    throw unreadable(file, error);
  }
}

export async function readMaybePacked(file: string): Promise<Uint8Array> {
  const bytes = await read(file);
  return isGzip(bytes) ? decompress(bytes, 'gzip', file) : bytes;
}

const byNumber = (a: string, b: string) => a.localeCompare(b, 'en', { numeric: true });

export async function list(folder: string): Promise<{ name: string; folder: boolean }[]> {
  try {
    const entries = await readdir(folder, { withFileTypes: true });
    return entries
      .map((entry) => ({ name: entry.name, folder: entry.isDirectory() }))
      .sort((a, b) => byNumber(a.name, b.name));
  } catch (error) {
    throw unreadable(folder, error);
  }
}

/** Reads the labels in a file. */
export async function readLabels(file: string): Promise<ArrayLike<number>> {
  const bytes = await readMaybePacked(file);
  if (isIdx(bytes)) return parseIdx(bytes).data;
  if (file.endsWith('.npy')) return Array.from(parseNpy(bytes, file).data, Number);
  const text = new TextDecoder().decode(bytes);
  if (/^\s*[[{]/.test(text)) return parseJsonLabels(text);
  const lines = text.split(/\s+/).filter(Boolean);
  const wrong = lines.find((line) => !/^\d+$/.test(line));
  if (wrong !== undefined || lines.length === 0) {
    throw invalidArgument(
      `${file} holds no labels${wrong === undefined ? '' : `: ${JSON.stringify(wrong.slice(0, 20))}`}`,
      file,
      'Labels are IDX, .npy, JSON, or text with one integer a line.',
    );
  }
  return lines.map(Number);
}
