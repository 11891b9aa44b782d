// Runs the checks as a program: the first argument is the folder of the data, the second the file for the
// results.

import { checkHere } from './process.mjs';

const [, , folder, result] = process.argv;
await checkHere(folder, result);
