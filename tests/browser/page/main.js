// Runs the jobs named in the address's query and posts the results.

import * as requant from '../../../dist/index.js';
import { jobs, runJobs } from '../jobs.mjs';

const post = (value) => fetch('/', { method: 'POST', body: JSON.stringify(value) });

async function read(file) {
  const response = await fetch(`/${file}`);
  if (!response.ok) throw new Error(`${file}: ${response.status}`);
  return new Uint8Array(await response.arrayBuffer());
}

async function main() {
  const warnings = [];
  console.warn = (text) => warnings.push(String(text));
  const titles = new URLSearchParams(location.search).getAll('job');
  const chosen = jobs.filter(({ title }) => titles.includes(title));
  await runJobs({ requant, read, chosen, report: post });
  const { variant } = await requant.engineInfo();
  await post({ done: true, agent: navigator.userAgent, variant, warnings });
}

addEventListener('error', ({ message }) => post({ error: message }));
addEventListener('unhandledrejection', ({ reason }) => post({ error: String(reason) }));
// WebKit's stacks lack the message.
main().catch((error) => post({ error: `${error}\n${error?.stack}` }));
