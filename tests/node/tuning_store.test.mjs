// The pages' store for records of tune(): an IndexedDB that answers asynchronously, as in browsers.

import assert from 'node:assert/strict';
import { test } from 'node:test';

process.type = 'renderer'; // no Node, as far as the package can see
const { readTuning, writeTuning } = await import('../../dist/model/tuning.js');

const later = (action) => setTimeout(action, 1);

/** As much of IndexedDB as one store needs; a record is stored when its transaction is complete. */
class FakeDatabases {
  kept = new Map();
  open_ = 0;
  full = false;

  open() {
    const request = { result: this.#database() };
    later(() => {
      this.open_++;
      request.onsuccess();
    });
    return request;
  }

  #database() {
    return {
      close: () => void this.open_--,
      transaction: () => {
        const transaction = { error: null };
        const ask = (answer, written = []) => {
          const request = {};
          later(() => {
            request.result = answer;
            request.onsuccess?.();
            later(() => {
              if (this.full && written.length > 0) {
                transaction.error = new Error('the disk is full');
                transaction.onabort?.();
                return;
              }
              for (const [name, value] of written) this.kept.set(name, value);
              transaction.oncomplete?.();
            });
          });
          return request;
        };
        transaction.objectStore = () => ({
          get: (name) => ask(this.kept.get(name)),
          put: (value, name) => ask(name, [[name, value]]),
        });
        return transaction;
      },
    };
  }
}

test('records are there once writing is over, and no connection stays open', async () => {
  const databases = new FakeDatabases();
  globalThis.indexedDB = databases;
  const empty = { version: 1, devices: {} };
  const tuning = { version: 1, devices: { here: { step: { kernel: 'fast', faster: 2 } } } };
  assert.deepEqual(await readTuning('records'), empty);
  await writeTuning('records', tuning);
  assert.deepEqual(databases.kept.get('records'), tuning);
  assert.deepEqual(await readTuning('records'), tuning);
  databases.full = true;
  await assert.rejects(writeTuning('records', empty), { code: 'SAVE_FAILED', message: /full/ });
  assert.deepEqual(await readTuning('records'), tuning);
  assert.equal(databases.open_, 0);
});
