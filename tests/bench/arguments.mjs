// The command line of a benchmark, and the Node that it needs.

import path from 'node:path';
import { parseArgs } from 'node:util';
import { LOW_BITS, NETWORKS, ensureNode } from './networks.mjs';

/** Checks names of networks; no names mean all networks. */
export function chosenNetworks(names) {
  const unknown = names.find((name) => !(name in NETWORKS));
  if (unknown) throw new Error(`no network ${unknown} (${Object.keys(NETWORKS).join(', ')})`);
  return names.length > 0 ? names : Object.keys(NETWORKS);
}

/** Checks a comma-separated list of low-bit forms; 'all' means all forms. */
export function chosenForms(text) {
  if (text === 'all') return Object.keys(LOW_BITS);
  const forms = text.split(',').filter(Boolean);
  const unknown = forms.find((form) => !(form in LOW_BITS));
  if (unknown) throw new Error(`no form ${unknown} (${Object.keys(LOW_BITS).join(', ')})`);
  return forms;
}

function optionOf(standard) {
  if (typeof standard === 'boolean') return { type: 'boolean', default: standard };
  if (Array.isArray(standard)) return { type: 'string', multiple: true, default: standard };
  return { type: 'string', default: String(standard) };
}

function valueOf(name, standard, given) {
  if (typeof standard !== 'number') return given;
  const least = Math.min(standard, 1);
  const number = Number(given);
  if (!/^\d+$/.test(given) || number < least) {
    throw new Error(`--${name} ${given}: not a whole number of at least ${least}`);
  }
  return number;
}

/**
 * Reads the options of a benchmark by name, with the remaining words as `words`, and ensures the Node that
 * benchmarks run in. The default of an option determines its type: a number takes an integer, false takes no
 * value, a list takes several texts. An error is printed in one line, and the process ends with code 2.
 * @param standards defaults by name of the option
 * @param read converts all values to those that the benchmark uses, and throws for invalid ones
 */
export function readArguments(standards, read = (values) => values) {
  ensureNode();
  try {
    const options = Object.entries(standards).map(([name, value]) => [name, optionOf(value)]);
    const { values, positionals } = parseArgs({
      allowPositionals: true,
      options: Object.fromEntries(options),
    });
    const checked = Object.entries(values).map(([name, value]) => [
      name,
      valueOf(name, standards[name], value),
    ]);
    return read({ ...Object.fromEntries(checked), words: positionals });
  } catch (error) {
    console.error(`${path.basename(process.argv[1], '.mjs')}: ${error.message}`);
    return process.exit(2);
  }
}
