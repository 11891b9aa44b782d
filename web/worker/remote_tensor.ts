// Tensors that stay in a worker's engine.

import { placedTensor } from '../base/placed_tensor.js';
import type { Tensor } from '../base/tensor.js';
import { type Place, placeOf } from '../base/tensor_place.js';
import { type Owner, Remote } from './remote_object.js';
import type { PackedTensor, PlacedTensors } from './worker_protocol.js';

class RemotePlace extends Remote implements Place {
  read(): Promise<Uint8Array<ArrayBuffer>> {
    return this.call('readTensor');
  }

  free(): void {
    this.dispose().catch(() => {}); // the worker has ended, and its memory with it
  }
}

/** The caller's view of the tensors in the engine of a worker. */
export function tensorsOf(worker: Owner): PlacedTensors {
  return {
    numberOf(tensor: Tensor): number | undefined {
      const place = placeOf(tensor);
      return place instanceof RemotePlace && place.worker.connection === worker.connection
        ? place.ref
        : undefined;
    },
    tensorOf: (number: number, { type, dims }: PackedTensor) =>
      placedTensor(type, dims, new RemotePlace(worker, number)),
  };
}
