// Checks a linked kernel module before it is merged into the core.
//
//   node check_kernels.mjs --nm LLVM_NM module.wasm checked.wasm object...
//
// wasm-merge joins the two modules without relocating addresses. A data segment, or a stack pointer
// of the kernels' own, would therefore lie on top of the core's memory and corrupt it silently.

import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { exportsOf, functionsOf, globalsOf, readModule, tablesOf } from './binaryen.mjs';

/** The faults of the module, as sentences; empty when it has none. */
export function kernelModuleProblems(bytes) {
  const module = readModule(bytes);
  const problems = [];
  const segments = module.getNumDataSegments();
  if (segments > 0) {
    problems.push(`${segments} data segment(s): pass constants and tables in by pointer`);
  }
  const globals = globalsOf(module);
  const own = globals.filter((entry) => !entry.module);
  if (own.length > 0) {
    problems.push(
      `${own.length} global(s): a kernel uses the stack in memory (address of a local taken, ` +
        'array indexed by a variable, too big a struct by value) or has a static variable',
    );
  }
  for (const entry of [...globals, ...functionsOf(module), ...tablesOf(module)]) {
    if (!entry.module) continue;
    problems.push(`imports ${entry.module}.${entry.base}: a kernel may call nothing outside`);
  }
  if (!exportsOf(module).some(({ name }) => name.startsWith('rq_'))) {
    problems.push('exports no function named rq_*');
  }
  module.dispose();
  return problems;
}

function suspects(nm, objects) {
  const lines = [];
  for (const object of objects) {
    for (const line of execFileSync(nm, [object], { encoding: 'utf8' }).split('\n')) {
      if (/ U __stack_pointer$| [dDbBrR] \S+$/.test(line)) {
        lines.push(`  ${path.basename(object)}: ${line.trim()}`);
      }
    }
  }
  return lines;
}

function main(args) {
  if (args.shift() !== '--nm') throw new Error('usage: check_kernels.mjs --nm NM IN OUT OBJECT...');
  const [nm, input, output, ...objects] = args;
  const bytes = readFileSync(input);
  const problems = kernelModuleProblems(bytes);
  if (problems.length > 0) {
    console.error(`${path.basename(output)} must not be merged:`);
    for (const problem of problems) console.error(`- ${problem}`);
    for (const line of suspects(nm, objects)) console.error(line);
    process.exit(1);
  }
  writeFileSync(output, bytes);
}

if (import.meta.url === `file://${process.argv[1]}`) main(process.argv.slice(2));
