// The package writes to the console through this file, which knows how much it may write.

import { invalidArgument, show } from './errors.js';
import { suggest } from './options.js';

/** How serious a message must be to be written, as in onnxruntime-web. */
export type LogLevel = 'verbose' | 'info' | 'warning' | 'error' | 'fatal';

const levels: readonly LogLevel[] = ['verbose', 'info', 'warning', 'error', 'fatal'];
const WARNING = levels.indexOf('warning');

let level: LogLevel = 'warning';
let debugging = false;

/** The settings behind `env.logLevel` and `env.debug`. */
export const logging = {
  get level(): LogLevel {
    return level;
  },
  set level(value: LogLevel | undefined) {
    if (value === undefined) return;
    if (!levels.includes(value)) {
      const name = 'env.logLevel';
      throw invalidArgument(`${name} is ${show(value)}`, name, suggest(String(value), levels));
    }
    level = value;
  },
  get debug(): boolean {
    return debugging;
  },
  set debug(value: boolean | undefined) {
    debugging = Boolean(value);
  },
};

/**
 * Writes a warning, unless `env.logLevel` or the caller's own `severity` (0 verbose to 4 fatal) asks for errors
 * only.
 */
export function warn(text: string, severity?: number): void {
  if ((severity ?? levels.indexOf(level)) <= WARNING) console.warn(`requant: ${text}`);
}

const warned = new Set<string>();

/** Writes a warning the first time that it is given. */
export function warnOnce(text: string, severity?: number): void {
  if (warned.has(text)) return;
  warned.add(text);
  warn(text, severity);
}

/** Writes what helps to find faults, if `env.debug` is set or `env.logLevel` is 'verbose'. */
export function debug(text: () => string): void {
  if (debugging || level === 'verbose') console.debug(`requant: ${text()}`);
}
