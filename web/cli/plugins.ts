// `--plugin FILE`: passes and operators of the user's own, from a module.

import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { RequantError } from '../base/errors.js';
import { Tensor } from '../base/tensor.js';
import { registerOperator } from '../extend/operators.js';
import { registerPass } from '../extend/passes.js';
import { UsageError } from './args.js';

/**
 * Imports the module and calls its default export with the functions by which it adds passes and operators:
 * the module then needs no copy of the package of its own, which would be another engine.
 */
export async function loadPlugin(file: string): Promise<void> {
  let loaded: { default?: unknown };
  try {
    loaded = (await import(pathToFileURL(path.resolve(file)).href)) as typeof loaded;
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    throw new RequantError('LOAD_FAILED', `the plugin ${file} cannot be loaded: ${why}`, {
      value: file,
      cause: error,
    });
  }
  if (typeof loaded.default !== 'function') {
    throw new UsageError(`the plugin ${file} has no function as its default export`);
  }
  await (loaded.default as (api: object) => unknown)({ registerPass, registerOperator, Tensor });
}
