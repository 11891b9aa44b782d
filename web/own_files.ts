// Where those files of the package are that are not imported: wasm modules, scripts of workers.

import { RequantError } from './errors.js';
import { type Location, importNode, isNode, locate } from './source.js';

/** Of the package's JavaScript; missing where a bundler made a CommonJS file of it. */
const here: string | undefined = import.meta.url;

/**
 * A file of the package. In a page it is where its bundler put it, which `bundled` says in the form that bundlers
 * know. In Node that may be the address that pages have it at (Next.js), or a file beside a bundle that nobody copied:
 * then it is the one beside the package's JavaScript, or that of the installed package.
 *
 * @throws RequantError LOAD_FAILED when it is in none of these places (Node).
 */
export async function locateOwn(file: string, bundled?: () => URL): Promise<Location> {
  if (!isNode && bundled) return locate(bundled());
  const { access } = await importNode<typeof import('node:fs/promises')>('fs/promises');
  const tried: string[] = [];
  for (const place of [bundled, () => besideHere(file), () => installed(file)]) {
    let location: Location;
    try {
      if (!place) continue;
      location = await locate(await place());
    } catch {
      continue; // There is no such place.
    }
    // What can be reached by the network only is not looked for.
    if ('url' in location) return location;
    try {
      await access(location.path);
      return location;
    } catch {
      tried.push(location.path);
    }
  }
  throw new RequantError('LOAD_FAILED', `${file} is not there: ${tried.join(', ')}`, {
    value: file,
    hint:
      'The package must be installed where the program runs, and its bundler had better leave it out ' +
      "(Next.js: serverExternalPackages: ['requant']). For wasm files there is env.wasm.wasmPaths.",
  });
}

/** Not in the form that bundlers know: those for the browser would pack the file twice. */
function besideHere(file: string): URL {
  return new URL(here!.replace(/[^/]*$/, file));
}

async function installed(file: string): Promise<URL> {
  const { createRequire } = await importNode<typeof import('node:module')>('module');
  const { cwd } = await importNode<typeof import('node:process')>('process');
  const { pathToFileURL } = await importNode<typeof import('node:url')>('url');
  return pathToFileURL(createRequire(`${cwd()}/`).resolve(`requant/dist/${file}`));
}

/** The script of a worker in Node. */
export async function ownScript(file: string): Promise<URL> {
  const location = await locateOwn(file);
  if ('url' in location) return new URL(location.url);
  const { pathToFileURL } = await importNode<typeof import('node:url')>('url');
  return pathToFileURL(location.path);
}
