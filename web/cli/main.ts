#!/usr/bin/env node
// The command `requant`.

import { ignoreClosedPipes } from './output.js';
import { runCli } from './run.js';

ignoreClosedPipes();
process.exitCode = await runCli(process.argv.slice(2));
