// Writes files: to disk in Node, as downloads in a page.

import { RequantError } from './errors.js';
import { checkKind } from './options.js';
import { importNode, isNode } from './host.js';

/** The error for a file that could not be written. */
export function saveFailed(name: string, error: unknown): RequantError {
  const why = error instanceof Error ? error.message : String(error);
  return new RequantError('SAVE_FAILED', `cannot write ${name}: ${why}`, {
    value: name,
    cause: error,
  });
}

/** Writes a file (Node), whose content may come in pieces. */
export async function writeToDisk(
  name: string,
  content: string | Uint8Array | Iterable<Uint8Array>,
): Promise<void> {
  const { writeFile } = await importNode<typeof import('node:fs/promises')>('fs/promises');
  try {
    await writeFile(name, content);
  } catch (error) {
    throw saveFailed(name, error);
  }
}

/** Throws SAVE_FAILED if the file cannot be written (Node). Leaves no file behind. */
export async function checkWritable(name: string): Promise<void> {
  const { access, constants, open } =
    await importNode<typeof import('node:fs/promises')>('fs/promises');
  const { dirname } = await importNode<typeof import('node:path')>('path');
  try {
    await (await open(name, 'r+')).close();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw saveFailed(name, error);
    await access(dirname(name), constants.W_OK).catch((reason: unknown) => {
      throw saveFailed(name, reason);
    });
  }
}

/** Writes bytes, or pieces of them, to a path (Node) or offers them as a download of that name (page). */
export async function saveBytes(
  name: string,
  bytes: Uint8Array<ArrayBuffer> | Iterable<Uint8Array<ArrayBuffer>>,
): Promise<void> {
  checkKind(name, 'string', 'name');
  if (isNode) return writeToDisk(name, bytes);
  if (typeof document !== 'object') {
    throw new RequantError('UNSUPPORTED', 'a Worker cannot save files', {
      hint: 'Send the bytes of toOnnx() to the page.',
    });
  }
  const url = URL.createObjectURL(
    new Blob(bytes instanceof Uint8Array ? [bytes] : [...bytes], {
      type: 'application/octet-stream',
    }),
  );
  const link = document.createElement('a');
  link.href = url;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}
