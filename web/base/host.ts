// Where the code runs: in Node or in a page. It imports nothing, so that the small script of a thread stays small.

// Accessed by way of globalThis, since some bundlers replace a bare `process` by a polyfill.
const host = (globalThis as { process?: NodeJS.Process & { type?: string } }).process;

/** The version of Node (or of a compatible runtime); undefined in pages and their Workers. */
export const nodeVersion = host?.type === 'renderer' ? undefined : host?.versions?.node;

/** True in Node (and compatible runtimes), false in pages and their Workers. */
export const isNode = typeof nodeVersion === 'string';

/** Imports a module of Node in a way that bundlers for the browser leave alone. */
export function importNode<T>(name: string): Promise<T> {
  const specifier = `node:${name}`;
  return import(/* @vite-ignore */ /* webpackIgnore: true */ specifier) as Promise<T>;
}
