// Things kept from one visit to the next: files in Node, entries of IndexedDB in browsers.

import { checkWritable, saveFailed, writeToDisk } from './save.js';
import { importNode, isNode } from './host.js';

/** A database of a page with one object store. */
export interface Database {
  readonly database: string;
  readonly store: string;
}

function openDatabase({ database, store }: Database): Promise<IDBDatabase> {
  const request = indexedDB.open(database, 1);
  request.onupgradeneeded = () => request.result.createObjectStore(store);
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
}

/** The result of one request, once its transaction is complete: nothing is written until then. */
async function inStore<T>(
  where: Database,
  mode: IDBTransactionMode,
  ask: (store: IDBObjectStore) => IDBRequest<T>,
): Promise<T> {
  const database = await openDatabase(where);
  try {
    const transaction = database.transaction(where.store, mode);
    const request = ask(transaction.objectStore(where.store));
    return await new Promise((resolve, reject) => {
      transaction.oncomplete = () => resolve(request.result);
      transaction.onabort = () => reject(transaction.error);
    });
  } finally {
    database.close();
  }
}

/** The bytes of a file (Node), or the value of a key (browsers). Rejects or gives undefined without one. */
export async function readStored(where: Database, name: string): Promise<unknown> {
  if (isNode) {
    const { readFile } = await importNode<typeof import('node:fs/promises')>('fs/promises');
    return new Uint8Array(await readFile(name));
  }
  return inStore(where, 'readonly', (store) => store.get(name) as IDBRequest<unknown>);
}

/** Throws SAVE_FAILED if nothing can be stored under the name. */
export async function checkStore(where: Database, name: string): Promise<void> {
  if (isNode) return checkWritable(name);
  try {
    await inStore(where, 'readwrite', (store) => store.count(name));
  } catch (error) {
    throw saveFailed(name, error);
  }
}

/** Stores a file (Node), or a value under a key (browsers). Throws SAVE_FAILED. */
export async function writeStored(
  where: Database,
  name: string,
  content: { file: () => string | Uint8Array; value: unknown },
): Promise<void> {
  if (isNode) return writeToDisk(name, content.file());
  try {
    await inStore(where, 'readwrite', (store) => store.put(content.value, name));
  } catch (error) {
    throw saveFailed(name, error);
  }
}
