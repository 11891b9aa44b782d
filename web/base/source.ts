// Reads bytes from memory, a URL, a path (Node), a Blob, or a Response of fetch().

import { abortError, abortable, throwIfAborted } from './abort.js';
import { RequantError, invalidArgument, show } from './errors.js';
import { importNode, isNode } from './host.js';

type ReadySource = Uint8Array | ArrayBufferLike | ArrayBufferView | string | URL | Blob | Response;

/**
 * Bytes in memory, a URL, a path (Node; in a page a string is a URL), a `Blob` / `File` or a `Response`; or a
 * promise of one, during which the engine loads: `create(fetch(url))`.
 */
export type Source = ReadySource | PromiseLike<ReadySource>;

/** How far loading has come; `total` is missing when the server does not tell. */
export interface LoadProgress {
  /** `'weights'` reads large weights of the model's file, and what it needs of its external data files. */
  phase: 'download' | 'parse' | 'weights';
  /** Bytes read so far. */
  done: number;
  total?: number;
}

// A scheme has at least two letters, since "C:\model.onnx" is a path.
const urlScheme = /^[a-z][a-z0-9+.-]+:/i;

/** A path in Node's file system, or a URL to fetch. */
export type Location = { path: string } | { url: string };

/** Decides whether a string or URL is a path or a URL here. */
export async function locate(source: string | URL): Promise<Location> {
  const text = String(source);
  if (isNode) {
    if (/^file:/i.test(text)) {
      const { fileURLToPath } = await importNode<typeof import('node:url')>('url');
      return { path: fileURLToPath(text) };
    }
    if (!urlScheme.test(text)) return { path: text };
  }
  return { url: text };
}

/** The location of a file beside another one. */
export function besides(location: Location, name: string): Location {
  if ('url' in location) {
    const base = typeof document === 'object' ? document.baseURI : globalThis.location?.href;
    const encoded = name.split('/').map(encodeURIComponent).join('/');
    return { url: new URL(encoded, new URL(location.url, base)).href };
  }
  return { path: location.path.replace(/[^/\\]*$/, '') + name };
}

/** Tests the tag, because naming `Response` makes Node load its whole HTTP client. */
export function isResponse(source: unknown): source is Response {
  return Object.prototype.toString.call(source) === '[object Response]';
}

/** A view of bytes in memory, without copying; undefined for anything else. */
function asBytes(source: unknown): Uint8Array | undefined {
  if (ArrayBuffer.isView(source)) {
    return new Uint8Array(source.buffer, source.byteOffset, source.byteLength);
  }
  const tag = Object.prototype.toString.call(source);
  if (tag === '[object ArrayBuffer]' || tag === '[object SharedArrayBuffer]') {
    return new Uint8Array(source as ArrayBuffer);
  }
  return undefined;
}

/** @internal The error for bytes that cannot be read; ABORTED if the signal is why. */
export function loadFailed(what: string, cause: unknown, signal?: AbortSignal): RequantError {
  if (signal?.aborted) return abortError(signal);
  const why = cause instanceof Error ? cause.message : String(cause);
  return new RequantError('LOAD_FAILED', `cannot read ${what}: ${why}`, { value: what, cause });
}

/** An error that a callback threw, which is no failure to read. */
class CallbackFailed {
  constructor(readonly error: unknown) {}
}

async function readBody(
  response: Response,
  onProgress: ((progress: LoadProgress) => void) | undefined,
): Promise<Uint8Array> {
  // Content-Length counts compressed bytes when the body is encoded.
  const encoded = response.headers.get('content-encoding');
  const length = Number(response.headers.get('content-length') ?? 0);
  const total = !encoded && length > 0 ? { total: length } : {};
  if (!response.body || !onProgress) return new Uint8Array(await response.arrayBuffer());
  const chunks: Uint8Array[] = [];
  let done = 0;
  const reader = response.body.getReader();
  for (;;) {
    const step = await reader.read();
    if (step.done) break;
    chunks.push(step.value);
    done += step.value.length;
    try {
      onProgress({ phase: 'download', done, ...total });
    } catch (error) {
      reader.cancel().catch(() => {});
      throw new CallbackFailed(error);
    }
  }
  const bytes = new Uint8Array(done);
  let at = 0;
  for (const chunk of chunks) {
    bytes.set(chunk, at);
    at += chunk.length;
  }
  return bytes;
}

async function readPath(
  path: string,
  onProgress: ((progress: LoadProgress) => void) | undefined,
  signal: AbortSignal | undefined,
): Promise<Uint8Array> {
  const { readFile } = await importNode<typeof import('node:fs/promises')>('fs/promises');
  const bytes = await readFile(path, { signal }).catch((error: unknown) => {
    throw loadFailed(path, error, signal);
  });
  onProgress?.({ phase: 'download', done: bytes.length, total: bytes.length });
  return bytes;
}

async function readResponse(
  response: Response,
  what: string,
  onProgress: ((progress: LoadProgress) => void) | undefined,
  signal: AbortSignal | undefined,
): Promise<Uint8Array> {
  try {
    return await abortable(readBody(response, onProgress), signal);
  } catch (error) {
    if (error instanceof CallbackFailed) throw error.error;
    throw signal?.aborted ? abortError(signal) : loadFailed(what, error);
  }
}

/** Resolves a source that is a promise. */
export async function ready(
  source: Source | Location,
  signal?: AbortSignal,
): Promise<ReadySource | Location> {
  if (typeof (source as { then?: unknown } | null | undefined)?.then !== 'function') {
    return source as ReadySource | Location;
  }
  try {
    return await abortable(Promise.resolve(source as PromiseLike<ReadySource>), signal);
  } catch (error) {
    throw error instanceof RequantError ? error : loadFailed('what was promised', error, signal);
  }
}

/** @internal Where bytes come from: memory, a Blob, a path in Node, or a server that answered without an error. */
export type OpenSource =
  | { bytes: Uint8Array }
  | { blob: Blob }
  | { path: string }
  | { response: Response; what: string; url: string };

function checkAnswer(response: Response, what: string, url: string): OpenSource {
  if (response.ok) return { response, what, url };
  throw new RequantError(
    'LOAD_FAILED',
    `cannot read ${what}: the server answered ${response.status} ${response.statusText}`,
    { value: what, hint: 'Check the address and that the file is deployed.' },
  );
}

async function openLocation(
  location: Location,
  signal: AbortSignal | undefined,
): Promise<OpenSource> {
  if ('path' in location) return { path: location.path };
  const { url } = location;
  let response: Response;
  try {
    response = await fetch(url, signal ? { signal } : {});
  } catch (error) {
    throw loadFailed(url, error, signal);
  }
  return checkAnswer(response, url, url);
}

/**
 * @internal Finds out where the bytes of a source come from, and asks servers. Throws INVALID_ARGUMENT (not a source),
 * LOAD_FAILED or ABORTED.
 */
export async function openBytes(
  given: Source | Location,
  signal: AbortSignal | undefined,
): Promise<OpenSource> {
  throwIfAborted(signal);
  const source = await ready(given, signal);
  const bytes = asBytes(source);
  if (bytes) return { bytes };
  if (typeof Blob === 'function' && source instanceof Blob) return { blob: source };
  if (isResponse(source)) {
    const { url } = source;
    return checkAnswer(source, url === '' ? 'a response' : url, url);
  }
  if (typeof source === 'string' || source instanceof URL) {
    if (source === '') throw invalidArgument('the path or URL is empty', 'source');
    return openLocation(await locate(source), signal);
  }
  if (typeof source === 'object' && source !== null && ('path' in source || 'url' in source)) {
    return openLocation(source as Location, signal);
  }
  throw invalidArgument(
    `cannot read ${show(source)}`,
    'source',
    'Give bytes (Uint8Array, ArrayBuffer), a Blob, a Response, a URL, or in Node a path.',
  );
}

/** @internal The bytes of a Blob; a file behind it may have changed or gone. */
export async function readBlob(blob: Blob, signal: AbortSignal | undefined): Promise<ArrayBuffer> {
  return abortable(blob.arrayBuffer(), signal).catch((error: unknown) => {
    throw loadFailed('a Blob', error, signal);
  });
}

/** The bytes that were read, and their location, so that files beside it can be found. */
export interface Loaded {
  bytes: Uint8Array;
  location?: Location;
  /** Where the weights lie that `bytes` lacks (model/own_weights.ts). */
  weights?: Blob | Location | Uint8Array;
}

/** Reads a source. Throws INVALID_ARGUMENT (not a source), LOAD_FAILED or ABORTED. */
export async function readSource(
  given: Source | Location,
  options: { onProgress?: (progress: LoadProgress) => void; signal?: AbortSignal } = {},
): Promise<Loaded> {
  return readOpened(await openBytes(given, options.signal), options);
}

/** @internal Reads all bytes of a source. Throws LOAD_FAILED or ABORTED. */
export async function readOpened(
  source: OpenSource,
  options: { onProgress?: (progress: LoadProgress) => void; signal?: AbortSignal },
): Promise<Loaded> {
  const { onProgress, signal } = options;
  if ('bytes' in source) return source;
  if ('blob' in source) {
    return { bytes: new Uint8Array(await readBlob(source.blob, signal)) };
  }
  if ('path' in source) {
    const { path } = source;
    return { bytes: await readPath(path, onProgress, signal), location: { path } };
  }
  const { response, what, url } = source;
  const bytes = await readResponse(response, what, onProgress, signal);
  return url === '' ? { bytes } : { bytes, location: { url } };
}
