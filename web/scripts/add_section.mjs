// Appends a custom section with a file's bytes to a wasm module.
//
//   node add_section.mjs module.wasm NAME FILE

import { readFileSync, writeFileSync } from 'node:fs';
import { withCustomSection } from './wasm_sections.mjs';

const [module, name, file] = process.argv.slice(2);
writeFileSync(module, withCustomSection(readFileSync(module), name, readFileSync(file)));
