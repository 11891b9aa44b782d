// Divides the core into the module that runs most models, the extended operators and the tools. The latter
// two are loaded on demand.
//
//   node divide.mjs --wasm-split BIN --nm LLVM_NM --objects LIST --operators LIST --tools LIST
//                   core.wasm inlined.wasm main.wasm operators.wasm tools.wasm
//
// The core must be linked with mangled names. The LISTs hold the sources of the operators and of the tools.
// The functions of these sources go to their module, together with functions that only they call (manifest.mjs).
// The tools are loaded after the operators and may call everything. The main module may call neither by name,
// and the operators may not call the tools: they reach later modules through the function table, or through
// exports that the loader calls.
//
// The script reads calls from the core as it was linked, and divides inlined.wasm, the same core with small
// functions inlined. share_functions.mjs then prepares the three modules for loading.

import { readFileSync } from 'node:fs';
import path from 'node:path';
import { readModule } from './binaryen.mjs';
import { readCalls } from './call_graph.mjs';
import { ofSources, readDefinitions, readLines } from './definitions.mjs';
import { makeManifest } from './manifest.mjs';
import { splitByManifest } from './split.mjs';

function parseArguments(args) {
  const options = {};
  while (args[0]?.startsWith('--')) options[args.shift().slice(2)] = args.shift();
  const [core, inlined, main, operators, tools] = args;
  return { ...options, core, inlined, files: { main, operators, tools } };
}

const args = parseArguments(process.argv.slice(2));
try {
  const objects = readLines(args.objects).map((file) => path.normalize(file));
  const manifest = makeManifest(
    readCalls(readModule(readFileSync(args.core))),
    readDefinitions(args.nm, objects),
    {
      isOperator: ofSources(readLines(args.operators), objects),
      isTool: ofSources(readLines(args.tools), objects),
    },
  );
  splitByManifest(args['wasm-split'], args.inlined, manifest, args.files);
} catch (error) {
  console.error(`divide: ${error.message}`);
  process.exit(1);
}
