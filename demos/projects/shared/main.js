// The program: compares both networks and prints the result.

import { readFile } from 'node:fs/promises';
import { compareOnClothes, summaryOf } from './clothes.js';

const read = async (name) => new Uint8Array(await readFile(new URL(name, import.meta.url)));
const result = await compareOnClothes(read);
for (const { float, int8 } of result.pictures) console.log(`float ${float}, 8 bits ${int8}`);
console.log(summaryOf(result));
