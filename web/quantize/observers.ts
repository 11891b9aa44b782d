/// <reference lib="esnext.disposable" preserve="true" />

// Observers and grids as objects, which run the code of calibration and of training.

import { RequantError, invalidArgument, show } from '../base/errors.js';
import { checkKind } from '../base/options.js';
import { Tensor, bytesOf, tensorFromBytes } from '../base/tensor.js';
import type {
  CoreBlob,
  CoreFakeQuantizer,
  CoreGrid,
  CoreObject,
  CoreObserver,
  Failure,
} from '../core.js';
import { Handle, call, copyIn, free, makeDisposable, takeBlob } from '../engine/heap.js';
import { lostData } from '../engine/tensors.js';
import { loadCore, loadTools } from '../engine/load_core.js';
import {
  type Observer,
  type ParsedSlot,
  type SlotConfig,
  type TensorConfig,
  parseSlot,
} from './tensor_options.js';

/** An object of the core that is made when it is first needed, since the engine must be loaded. */
class Late<T extends CoreObject> {
  readonly #kind: string;
  readonly #make: (core: Handle<T>['core']) => T | Failure;
  #handle: Promise<Handle<T>> | undefined;
  #disposed = false;

  constructor(kind: string, make: (core: Handle<T>['core']) => T | Failure) {
    this.#kind = kind;
    this.#make = make;
  }

  /** The handle. Rejects with DISPOSED after dispose(). */
  async get(): Promise<Handle<T>> {
    if (this.#disposed) {
      throw new RequantError('DISPOSED', `the ${this.#kind} is used after it was disposed of`);
    }
    this.#handle ??= this.#open();
    return this.#handle;
  }

  async #open(): Promise<Handle<T>> {
    const core = await loadCore();
    await loadTools(core);
    return new Handle(
      core,
      call(core, () => this.#make(core)),
      this.#kind,
    );
  }

  dispose(): void {
    this.#disposed = true;
    this.#handle?.then(
      (handle) => handle.dispose(),
      () => {}, // nothing was made
    );
  }
}

/** Calls `action` with a copy of the tensor in the core's memory. */
function withTensor<T extends CoreObject, R>(
  handle: Handle<T>,
  tensor: unknown,
  name: string,
  action: (object: T, type: string, dims: number[], pointer: number) => R | Failure,
): Exclude<R, Failure> {
  if (!(tensor instanceof Tensor)) {
    throw invalidArgument(
      `${name} must be a Tensor, not ${show(tensor)}`,
      name,
      "Make one with new Tensor('float32', data, dims).",
    );
  }
  if (tensor.data.length !== tensor.size) throw lostData(name, name);
  const pointer = copyIn(handle.core, bytesOf(tensor.data));
  try {
    return handle.call((object) => action(object, tensor.type, [...tensor.dims], pointer));
  } finally {
    free(handle.core, pointer);
  }
}

/**
 * Watches tensors and says which grid suits them: the code that calibration runs for one slot. Methods load the
 * engine when it is not there yet, so all of them are asynchronous.
 *
 * @example
 * const observer = new MinMaxObserver({ bits: 8, symmetric: true });
 * await observer.observe(new Tensor('float32', [0.5, -2], [2]));
 * const [scale] = await observer.scale();
 */
export class TensorObserver {
  /** The name of the observer, as in {@link TensorConfig.observer}. */
  readonly kind: Observer;
  /** The options, checked. */
  readonly config: Readonly<TensorConfig>;
  #core: Late<CoreObserver>;

  declare readonly [Symbol.dispose]: () => void;
  declare readonly [Symbol.asyncDispose]: () => Promise<void>;

  /**
   * @param config Options of an activation; `observer` says the kind. With `perChannel` every channel of `axis` has
   * a range.
   * @throws RequantError INVALID_ARGUMENT for an unknown key or bad value. What the core refuses, such as codes that
   * the bits do not have, is the error of the first method.
   */
  constructor(config: TensorConfig = {}) {
    const parsed = parseSlot(config, 'options', false);
    this.kind = parsed.observer ?? 'minmax';
    this.config = parsed;
    this.#core = new Late('observer', (core) => core.createObserver(parsed));
  }

  /** How often every tensor must be shown: 1, or 2 for observers that need a histogram. */
  async passes(): Promise<number> {
    return (await this.#core.get()).call((object) => object.passes());
  }

  /**
   * Shows a float32 tensor, which counts as one sample, in one of the {@link passes}, counted from 0.
   *
   * @throws RequantError INVALID_ARGUMENT for NaN and infinity, and for a pass that does not exist, is over, or comes
   * too early; TYPE_MISMATCH, SHAPE_MISMATCH for another number of channels than before; DISPOSED.
   */
  async observe(tensor: Tensor, pass = 0): Promise<this> {
    checkKind(pass, 'integer', 'pass');
    const handle = await this.#core.get();
    withTensor(handle, tensor, 'tensor', (object, ...given) => object.observe(pass, ...given));
    return this;
  }

  /**
   * Adds what an observer with the same options saw after this one, in the pass that both are in. Merge the first
   * pass of all before the second begins, and go on with {@link clone}s of the result. The outcome is that of one
   * observer that saw everything, to the last bit.
   *
   * @throws RequantError INVALID_ARGUMENT for other options, another pass, and another range in a second pass.
   */
  async merge(other: TensorObserver): Promise<this> {
    if (!(other instanceof TensorObserver)) {
      throw invalidArgument(`other must be an observer, not ${show(other)}`, 'other');
    }
    const [handle, later] = await Promise.all([this.#core.get(), other.#core.get()]);
    handle.call((object) => object.merge(later.object));
    return this;
  }

  /** An observer that has seen the same. */
  async clone(): Promise<TensorObserver> {
    const copy = new TensorObserver(this.config);
    const handle = await this.#core.get();
    const object = handle.call((one) => one.copy());
    copy.#core = new Late('observer', () => object);
    await copy.#core.get();
    return copy;
  }

  /** Forgets everything that was seen. */
  async reset(): Promise<this> {
    (await this.#core.get()).call((object) => object.reset());
    return this;
  }

  /**
   * The least and the greatest number of the range, for every channel; one pair without `perChannel`.
   *
   * @throws RequantError INVALID_ARGUMENT until every pass has seen a tensor.
   */
  async range(): Promise<[number, number][]> {
    return (await this.#core.get()).call((object) => object.ranges());
  }

  async #grid(): Promise<CoreGrid> {
    return (await this.#core.get()).call((object) => object.grid());
  }

  /** The scale of every channel, as calibration computes it from the {@link range}; throws what that throws. */
  async scale(): Promise<number[]> {
    return (await this.#grid()).scale;
  }

  /** The zero point of every channel. Of signs (one symmetric bit) it is the threshold, in steps. */
  async zeroPoint(): Promise<number[]> {
    return (await this.#grid()).zeroPoint;
  }

  /** The grid of the range as an object. */
  async fakeQuantize(): Promise<FakeQuantize> {
    const { scale, zeroPoint } = await this.#grid();
    return new FakeQuantize({ ...this.config, scale, zeroPoint });
  }

  /** Gives the memory back. */
  dispose(): void {
    this.#core.dispose();
  }
}

makeDisposable(TensorObserver, function (this: TensorObserver) {
  this.dispose();
});

/** Options of an observer whose class says the kind. */
export type ObserverOptions = Omit<TensorConfig, 'observer'>;

/** The least and the greatest number of all. */
export class MinMaxObserver extends TensorObserver {
  constructor(options: ObserverOptions = {}) {
    super({ ...options, observer: 'minmax' });
  }
}

/** The moving average of the samples' ranges (`momentum`, `stopUpdateAfter`). */
export class MovingAverageObserver extends TensorObserver {
  constructor(options: ObserverOptions = {}) {
    super({ ...options, observer: 'moving_average' });
  }
}

/** The range that holds `percentile` percent of all numbers. Two passes. */
export class PercentileObserver extends TensorObserver {
  constructor(options: ObserverOptions = {}) {
    super({ ...options, observer: 'percentile' });
  }
}

/** The range whose codes are distributed most like the numbers (Kullback-Leibler divergence). Two passes. */
export class KlObserver extends TensorObserver {
  constructor(options: ObserverOptions = {}) {
    super({ ...options, observer: 'kl' });
  }
}

/** The range of least squared error. Two passes. */
export class MseObserver extends TensorObserver {
  constructor(options: ObserverOptions = {}) {
    super({ ...options, observer: 'mse' });
  }
}

/** The range that suits a Laplace distribution of the same mean deviation. */
export class AciqObserver extends TensorObserver {
  constructor(options: ObserverOptions = {}) {
    super({ ...options, observer: 'aciq' });
  }
}

/** The range that keeps the two largest numbers of each last-axis row apart. */
export class IsotoneObserver extends TensorObserver {
  constructor(options: ObserverOptions = {}) {
    super({ ...options, observer: 'isotone' });
  }
}

/** What {@link FakeQuantize.backward} gives. */
export interface GridGradients {
  /** d loss / d input: the gradient inside of the grid's range, 0 outside. */
  input: Tensor;
  /** d loss / d scale of every channel, as in LSQ without its factor; undefined where it is not known. */
  scale?: number[];
}

/**
 * A grid: quantizes and dequantizes tensors, and passes gradients back, as training does. With `scale` (and
 * `zeroPoint`) in its options the grid is fixed. Without, its observer ('minmax', 'moving_average' or 'isotone')
 * follows the tensors until {@link freeze}.
 *
 * @example
 * const grid = new FakeQuantize({ bits: 4, symmetric: true, observer: 'moving_average' });
 * const rounded = await grid.forward(new Tensor('float32', [0.5, -2], [2]));
 * const { input, scale } = await grid.backward(rounded); // of the loss sum(rounded ** 2) / 2
 */
export class FakeQuantize {
  /** The options, checked. */
  readonly config: Readonly<SlotConfig>;
  readonly #core: Late<CoreFakeQuantizer>;

  declare readonly [Symbol.dispose]: () => void;
  declare readonly [Symbol.asyncDispose]: () => Promise<void>;

  /**
   * @throws RequantError INVALID_ARGUMENT for an unknown key or bad value. What the core refuses, such as a zero
   * point that is no code, is the error of the first method.
   */
  constructor(options: SlotConfig = {}) {
    const parsed: ParsedSlot = parseSlot(options, 'options', true);
    this.config = parsed;
    this.#core = new Late('grid', (core) => core.createFakeQuantizer(parsed));
  }

  /**
   * The tensor on the grid, in float32.
   *
   * @throws RequantError what {@link TensorObserver.observe} throws.
   */
  async forward(tensor: Tensor): Promise<Tensor> {
    const handle = await this.#core.get();
    const { dims } = tensor;
    const blob = withTensor(handle, tensor, 'tensor', (object, ...given) =>
      object.forward(...given),
    );
    return tensorFromBytes('float32', takeBlob(handle.core, blob), [...dims]);
  }

  /**
   * The gradients of the latest {@link forward}, from that of its result.
   *
   * @throws RequantError INVALID_ARGUMENT before forward(), SHAPE_MISMATCH for a gradient of another shape.
   */
  async backward(gradient: Tensor): Promise<GridGradients> {
    const handle = await this.#core.get();
    const { input, scale } = withTensor<CoreFakeQuantizer, { input: CoreBlob; scale: number[] }>(
      handle,
      gradient,
      'gradient',
      (object, ...given) => object.backward(...given),
    );
    const bytes = takeBlob(handle.core, input);
    const back = tensorFromBytes('float32', bytes, [...gradient.dims]);
    return scale.length > 0 ? { input: back, scale } : { input: back };
  }

  /** Keeps the grid as it is from now on. */
  async freeze(): Promise<this> {
    (await this.#core.get()).call((object) => object.freeze());
    return this;
  }

  async #grid(): Promise<CoreGrid> {
    return (await this.#core.get()).call((object) => object.grid());
  }

  /** The scale of every channel. Throws INVALID_ARGUMENT while the grid has seen no tensor. */
  async scale(): Promise<number[]> {
    return (await this.#grid()).scale;
  }

  /** The zero point of every channel; throws what {@link scale} throws. */
  async zeroPoint(): Promise<number[]> {
    return (await this.#grid()).zeroPoint;
  }

  /** Gives the memory back. */
  dispose(): void {
    this.#core.dispose();
  }
}

makeDisposable(FakeQuantize, function (this: FakeQuantize) {
  this.dispose();
});
