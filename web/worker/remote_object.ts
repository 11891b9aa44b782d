/// <reference lib="esnext.disposable" preserve="true" />

// Objects that live in a worker.

import { disposedOf, makeDisposable, whenForgotten } from '../engine/heap.js';
import type { CallExtras, Connection } from './worker_connection.js';

function disposal(connection: Connection, ref: number): () => void {
  return () => void connection.call('dispose', [ref]).catch(() => {});
}

/** The worker that an object lives in. */
export interface Owner {
  /** @internal */
  readonly connection: Connection;
}

/** An object that lives in the worker. */
export abstract class Remote {
  /** @internal The worker, which is not forgotten as long as one of its objects is used. */
  readonly worker: Owner;
  /** @internal */
  readonly ref: number;

  declare readonly [Symbol.dispose]: () => void;
  declare readonly [Symbol.asyncDispose]: () => Promise<void>;

  /** @internal */
  constructor(worker: Owner, ref: number) {
    this.worker = worker;
    this.ref = ref;
    whenForgotten(this, disposal(worker.connection, ref));
  }

  /** @internal Calls a method of this object, which is not forgotten while it runs. */
  protected call<T>(method: string, args: unknown[] = [], extras: CallExtras = {}): Promise<T> {
    return this.worker.connection.call(method, [this.ref, ...args], {
      ...extras,
      uses: [this, ...(extras.uses ?? [])],
    });
  }

  /** Gives the memory in the worker back; later uses of the object fail with DISPOSED. */
  async dispose(): Promise<void> {
    disposedOf(this);
    await this.call('dispose');
  }
}

makeDisposable(Remote as unknown as { prototype: object }, function (this: Remote) {
  this.dispose().catch(() => {});
});
