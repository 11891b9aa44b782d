import type { SearchReport } from './search_report.js';

/**
 * The kind of failure of a {@link RequantError}.
 *
 * - `INVALID_MODEL`: the file or graph breaks the rules of ONNX.
 * - `UNSUPPORTED`: valid, but beyond what this engine (or this JavaScript engine) does.
 * - `INVALID_ARGUMENT`: a call with a bad option or a bad value.
 * - `SHAPE_MISMATCH`, `TYPE_MISMATCH`: a tensor of the wrong shape or element type.
 * - `INVALID_QUANTIZATION`: impossible scales, zero points or policies.
 * - `INVALID_PLAN`: a saved plan that is damaged, or was saved by another build or for another kind of
 *   machine, or a saved partition that is damaged or of another version; make it from the model again.
 * - `FLOOR_NOT_MET`: no configuration that `quantize()` tried meets the `floor` within the `budget`; `search` has
 *   all attempts.
 * - `OUT_OF_MEMORY`: the wasm memory cannot grow any further.
 * - `ABORTED`: an `AbortSignal` fired; `cause` is the signal's reason.
 * - `LOAD_FAILED`: a file or URL could not be read.
 * - `SAVE_FAILED`: a file could not be written.
 * - `DISPOSED`: the object was used after `dispose()` or `release()`.
 * - `INTERNAL`: a fault of the engine itself.
 */
export type RequantErrorCode =
  | 'INVALID_MODEL'
  | 'UNSUPPORTED'
  | 'INVALID_ARGUMENT'
  | 'SHAPE_MISMATCH'
  | 'TYPE_MISMATCH'
  | 'INVALID_QUANTIZATION'
  | 'INVALID_PLAN'
  | 'FLOOR_NOT_MET'
  | 'OUT_OF_MEMORY'
  | 'ABORTED'
  | 'LOAD_FAILED'
  | 'SAVE_FAILED'
  | 'DISPOSED'
  | 'INTERNAL';

/** Where an error happened and what to do about it. */
export interface RequantErrorDetails {
  node?: string;
  value?: string;
  hint?: string;
  cause?: unknown;
  search?: SearchReport;
}

/** Codes whose errors are also instances of TypeError, as onnxruntime-web's for bad arguments are. */
const typeErrors: readonly RequantErrorCode[] = ['INVALID_ARGUMENT', 'TYPE_MISMATCH'];

/**
 * Every error that this package throws on purpose. Errors of the codes INVALID_ARGUMENT and TYPE_MISMATCH are
 * also instances of TypeError, so that programs which catch onnxruntime-web's errors catch them.
 */
export class RequantError extends Error {
  /** The kind of failure. */
  readonly code: RequantErrorCode;
  /** Name of the operator where it happened, if one is to blame. */
  readonly node: string | undefined;
  /** Name of the tensor or option where it happened, if one is to blame. */
  readonly value: string | undefined;
  /** The remedy, in one sentence. */
  readonly hint: string | undefined;
  /** With the code FLOOR_NOT_MET: all attempts, and which was the best. */
  declare readonly search?: SearchReport;
  // Marks the errors of this class.
  readonly #code: RequantErrorCode;

  constructor(code: RequantErrorCode, message: string, details: RequantErrorDetails = {}) {
    super(message, details.cause === undefined ? undefined : { cause: details.cause });
    this.code = code;
    this.node = details.node || undefined;
    this.value = details.value || undefined;
    this.hint = details.hint || undefined;
    this.#code = code;
    if (details.search) Object.assign(this, { search: details.search });
    if (typeErrors.includes(code)) Object.setPrototypeOf(this, typeErrorPrototype);
  }

  /** Recognizes errors of all codes, also those that are instances of TypeError. */
  static override [Symbol.hasInstance](value: unknown): boolean {
    return typeof value === 'object' && value !== null && #code in value;
  }

  override get name(): string {
    return 'RequantError';
  }

  /** Code, message, place and remedy in one line. */
  override toString(): string {
    const place = [
      this.node && !this.message.includes(this.node) ? `node "${this.node}"` : '',
      this.value && !this.message.includes(this.value) ? `value "${this.value}"` : '',
    ].filter(Boolean);
    const where = place.length > 0 ? ` (${place.join(', ')})` : '';
    return `RequantError [${this.code}]: ${this.message}${where}${this.hint ? `. ${this.hint}` : ''}`;
  }
}

const typeErrorPrototype = Object.create(
  TypeError.prototype,
  Object.getOwnPropertyDescriptors(RequantError.prototype),
) as object;

/** Makes an INVALID_ARGUMENT that names the option or value to blame. */
export function invalidArgument(message: string, value?: string, hint?: string): RequantError {
  return new RequantError('INVALID_ARGUMENT', message, { value, hint });
}

/** A value of any kind for a message: short, and never throwing. */
export function show(value: unknown): string {
  if (typeof value === 'string') return JSON.stringify(value);
  if (value === null || ['undefined', 'number', 'boolean'].includes(typeof value)) {
    return String(value);
  }
  if (Array.isArray(value)) return `an array of ${value.length}`;
  if (typeof value === 'function') return 'a function';
  if (typeof value !== 'object') return `a ${typeof value}`;
  const name = value.constructor?.name ?? 'Object';
  return /^[AEIOU]/.test(name) ? `an ${name}` : `a ${name}`;
}
