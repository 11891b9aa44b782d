// Reads which objects define which functions.

import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';

/** By function, { objects, inline }, from what `llvm-nm --defined-only --print-file-name` prints. */
export function parseDefinitions(text) {
  const found = new Map();
  for (const line of text.split('\n')) {
    const match = /^(.*): +\S* ([TtWw]) (\S+)$/.exec(line);
    if (!match) continue;
    const [, object, kind, name] = match;
    if (!found.has(name)) found.set(name, { objects: [], inline: false });
    const definition = found.get(name);
    definition.objects.push(object);
    // Weak symbols are templates and inline functions, which several objects may define.
    definition.inline ||= kind === 'W';
  }
  return found;
}

/** By function, { objects, inline }: the objects that define it, and whether it is an inline function. */
export function readDefinitions(nm, objects) {
  // One call for all objects: every line has the name of a file and of a symbol.
  const args = ['--defined-only', '--print-file-name', ...objects];
  return parseDefinitions(execFileSync(nm, args, { encoding: 'utf8', maxBuffer: 1 << 28 }));
}

/** The lines of a list, without comments. */
export const readLines = (file) =>
  readFileSync(file, 'utf8')
    .split('\n')
    .filter((line) => line !== '' && !line.startsWith('#'));

/** A test for whether an object is made of one of these sources, which are files or folders. */
export function ofSources(sources, objects) {
  const prefixes = sources.map((source) => `core.dir/${source}`);
  for (const [at, prefix] of prefixes.entries()) {
    if (objects.some((object) => object.includes(prefix))) continue;
    throw new Error(
      `no object is made of ${sources[at]}. Name the file or folder where it is now, or take it off the list.`,
    );
  }
  return (object) => prefixes.some((prefix) => object.includes(prefix));
}
