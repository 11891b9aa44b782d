// Checks option objects and names everything that is misspelt or of the wrong kind.

import { invalidArgument, show } from './errors.js';

type Kind =
  | 'boolean'
  | 'number'
  | 'integer'
  | 'string'
  | 'strings'
  | 'function'
  | 'object'
  | 'signal'
  | 'any';

function editDistance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      const replace = row[j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1);
      next.push(Math.min(replace, row[j]! + 1, next[j - 1]! + 1));
    }
    row = next;
  }
  return row[b.length]!;
}

/** "Did you mean ...?", or the list of known names. */
export function suggest(given: string, known: readonly string[]): string {
  const ranked = known
    .map((name) => ({ name, distance: editDistance(given.toLowerCase(), name.toLowerCase()) }))
    .sort((a, b) => a.distance - b.distance);
  const best = ranked[0];
  if (best && best.distance <= Math.max(2, given.length / 3)) return `Did you mean "${best.name}"?`;
  return `Known are: ${known.join(', ')}.`;
}

function matches(value: unknown, kind: Kind): boolean {
  switch (kind) {
    case 'any':
      return true;
    case 'integer':
      return Number.isSafeInteger(value);
    case 'number':
      return typeof value === 'number' && Number.isFinite(value);
    case 'strings':
      return Array.isArray(value) && value.every((item) => typeof item === 'string');
    case 'object':
      return typeof value === 'object' && value !== null && !Array.isArray(value);
    case 'signal':
      // The check looks at members, since the signal may be from another realm.
      return (
        typeof (value as AbortSignal | null)?.aborted === 'boolean' &&
        typeof (value as AbortSignal).addEventListener === 'function'
      );
    default:
      return typeof value === kind;
  }
}

const kindNames: Record<Kind, string> = {
  boolean: 'true or false',
  number: 'a finite number',
  integer: 'an integer',
  string: 'a string',
  strings: 'an array of strings',
  function: 'a function',
  object: 'an object',
  signal: 'an AbortSignal',
  any: 'anything',
};

/** Throws INVALID_ARGUMENT for a value of another kind. */
export function checkKind(value: unknown, kind: Kind, name: string): void {
  if (!matches(value, kind)) {
    throw invalidArgument(`${name} must be ${kindNames[kind]}, not ${show(value)}`, name);
  }
}

/** Throws INVALID_ARGUMENT for a value that is no Uint8Array (which may be from another realm). */
export function checkBytes(bytes: unknown, name = 'bytes'): void {
  if (Object.prototype.toString.call(bytes) === '[object Uint8Array]') return;
  throw invalidArgument(
    `${name} must be a Uint8Array, not ${show(bytes)}`,
    name,
    bytes instanceof ArrayBuffer ? 'Give new Uint8Array(buffer).' : undefined,
  );
}

/** The largest int of the core, where a larger number would wrap. */
export const MOST_INT = 2 ** 31 - 1;

/** Throws INVALID_ARGUMENT for a value that is no integer in this range; undefined counts as absent. */
export function checkInteger(value: unknown, lowest: number, highest: number, name: string): void {
  if (value === undefined) return;
  if (Number.isInteger(value) && (value as number) >= lowest && (value as number) <= highest)
    return;
  throw invalidArgument(
    `${name} is ${show(value)}`,
    name,
    lowest === highest
      ? `It must be ${lowest}.`
      : `It must be an integer from ${lowest} to ${highest}.`,
  );
}

/** Throws INVALID_ARGUMENT for unknown keys and for values of the wrong kind; undefined counts as absent. */
export function checkOptions(
  options: unknown,
  known: Readonly<Record<string, Kind>>,
  name: string,
): void {
  checkKind(options, 'object', name);
  for (const [key, value] of Object.entries(options as object)) {
    const kind = Object.hasOwn(known, key) ? known[key] : undefined;
    if (!kind) {
      throw invalidArgument(
        `${name} has no option "${key}"`,
        `${name}.${key}`,
        suggest(key, Object.keys(known)),
      );
    }
    if (value !== undefined) checkKind(value, kind, `${name}.${key}`);
  }
}

/** Throws INVALID_ARGUMENT for a value that is none of the names. */
export function checkOneOf(value: unknown, names: readonly string[], name: string): void {
  if (typeof value === 'string' && names.includes(value)) return;
  throw invalidArgument(
    `${name} is ${show(value)}`,
    name,
    typeof value === 'string' ? suggest(value, names) : `Known are: ${names.join(', ')}.`,
  );
}

/** A copy of the object without keys whose value is undefined. */
export function withoutUndefined<T extends object>(options: T): T {
  return Object.fromEntries(
    Object.entries(options).filter(([, value]) => value !== undefined),
  ) as T;
}

/** Throws INVALID_ARGUMENT for what is no number of samples; Infinity and undefined stand for all. */
export function checkMaxSamples(maxSamples: unknown): void {
  if (maxSamples === undefined || maxSamples === Infinity) return;
  checkKind(maxSamples, 'integer', 'options.maxSamples');
  if ((maxSamples as number) < 1) {
    throw invalidArgument(
      `options.maxSamples is ${String(maxSamples)}`,
      'options.maxSamples',
      'It must be at least 1.',
    );
  }
}
