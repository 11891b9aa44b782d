// The command line of a benchmark, and the Node that it wants.

import path from 'node:path';
import { parseArgs } from 'node:util';
import { LOW_BITS, NETWORKS, ensureNode } from './networks.mjs';

/** Checks names of networks; without any, all. */
export function chosenNetworks(names) {
  const unknown = names.find((name) => !(name in NETWORKS));
  if (unknown) throw new Error(`no network ${unknown} (${Object.keys(NETWORKS).join(', ')})`);
  return names.length > 0 ? names : Object.keys(NETWORKS);
}

/** Checks forms of few bits, with commas between; 'all' are all. */
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
 * The options of a benchmark by name, and the other words as `words`, in the Node that benchmarks run in. What an
 * option stands for without being given says what it takes: a number a whole one, false nothing, a
 * list several texts. What is wrong is said in a line, and the process ends with code 2.
 * @param standards by name of the option
 * @param read makes what the benchmark works with from all of them, and throws for what it does not know
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
