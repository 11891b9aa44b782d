// Writing a file: to disk in Node, as a download in a page.

import { RequantError } from './errors.js';
import { importNode, isNode } from './source.js';

/** Writes bytes to a path (Node) or offers them as a download of that name (page). */
export async function saveBytes(name: string, bytes: Uint8Array<ArrayBuffer>): Promise<void> {
  if (isNode) {
    const { writeFile } = await importNode<typeof import('node:fs/promises')>('fs/promises');
    try {
      await writeFile(name, bytes);
    } catch (error) {
      throw new RequantError('LOAD_FAILED', `cannot write ${name}: ${(error as Error).message}`, {
        value: name,
        cause: error,
      });
    }
    return;
  }
  if (typeof document !== 'object') {
    throw new RequantError('UNSUPPORTED', 'a Worker cannot save files', {
      hint: 'Send the bytes of toOnnx() to the page.',
    });
  }
  const url = URL.createObjectURL(new Blob([bytes], { type: 'application/octet-stream' }));
  const link = document.createElement('a');
  link.href = url;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}
