// The command `init`: writes a small project that is ready to run.

import { existsSync, readFileSync, readdirSync } from 'node:fs';
import { copyFile, mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { RequantError } from '../base/errors.js';
import { suggest } from '../base/options.js';
import { saveFailed } from '../base/save.js';
import { version } from '../base/version.js';
import { table } from '../report/index.js';
import { type CommandSpec, UsageError, type Values, commonOptions, text } from './args.js';
import type { Streams } from './output.js';

export const initSpec: CommandSpec = {
  name: 'init',
  summary: 'Write a small project that quantizes and runs a network.',
  positionals: ['PROJECT'],
  options: {
    output: {
      type: 'string',
      short: 'o',
      value: 'DIR',
      help: 'the folder, which must be empty or missing; default: requant-PROJECT',
    },
    list: { type: 'boolean', help: 'list the projects' },
    ...commonOptions,
  },
};

/** A project of demos/projects/projects.json: files beside those of its own folder, and the commands that run it. */
interface Project {
  summary: string;
  /** Names in the new project, by the file of demos/projects, `model` or `images`. */
  files: Record<string, string>;
  next: string[];
}

const DEMOS = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '../../demos');
const DATA: Record<string, string> = {
  model: 'models/fashion_mnist.onnx',
  images: 'data/calibration-images-idx3-ubyte',
};

/** Names of the files below a folder, without those that npm and bundlers make there. */
function filesBelow(folder: string, below = ''): string[] {
  return readdirSync(path.join(folder, below), { withFileTypes: true }).flatMap((entry) => {
    const name = path.join(below, entry.name);
    if (!entry.isDirectory()) return [name];
    return entry.name === 'node_modules' ? [] : filesBelow(folder, name);
  });
}

export async function runInit(values: Values, [name]: string[], streams: Streams): Promise<void> {
  const projects = JSON.parse(
    readFileSync(path.join(DEMOS, 'projects/projects.json'), 'utf8'),
  ) as Record<string, Project>;
  if (values['list']) {
    const rows = Object.entries(projects).map(([key, { summary }]) => [key, summary]);
    streams.out(
      values['json']
        ? `${JSON.stringify(Object.fromEntries(rows), null, 2)}\n`
        : `${table(['project', 'what it is'], rows, [0, 1])}\n`,
    );
    return;
  }
  if (!Object.hasOwn(projects, name!)) {
    throw new UsageError(`there is no project "${name}". ${suggest(name!, Object.keys(projects))}`);
  }
  const project = projects[name!]!;
  const output = text(values, 'output') ?? `requant-${name}`;
  checkEmpty(output);
  const from = path.join(DEMOS, 'projects', name!);
  const files: [string, string][] = [
    ...filesBelow(from).map((file): [string, string] => [file, path.join(from, file)]),
    ...Object.entries(project.files).map(([file, source]): [string, string] => [
      file,
      path.join(DEMOS, DATA[source] ?? `projects/${source}`),
    ]),
  ];
  for (const [file, source] of files) await put(source, path.join(output, file));
  await write(path.join(output, '.gitignore'), 'node_modules/\ndist/\nbuild/\n.next/\n');
  const lines = [`wrote ${output}: ${project.summary}. It runs with:`, `  cd ${output}`];
  streams.out(
    values['json']
      ? `${JSON.stringify({ output, files: files.map(([file]) => file), next: project.next }, null, 2)}\n`
      : `${[...lines, ...project.next.map((command) => `  ${command}`)].join('\n')}\n`,
  );
}

function checkEmpty(folder: string): void {
  if (!existsSync(folder)) return;
  let names: string[];
  try {
    names = readdirSync(folder);
  } catch (error) {
    throw saveFailed(folder, error);
  }
  if (names.length === 0) return;
  throw new RequantError('SAVE_FAILED', `${folder} is not empty: it has ${names[0]}`, {
    value: folder,
    hint: 'Choose another folder with -o.',
  });
}

/** Copies a file. Where a text names the package without a version, it gets that of this package. */
async function put(source: string, target: string): Promise<void> {
  if (!/\.(json|html)$/.test(source)) return write(target, undefined, source);
  const content = readFileSync(source, 'utf8')
    .replaceAll('"requant": "latest"', `"requant": "^${version}"`)
    .replaceAll('requant@latest', `requant@${version}`);
  return write(target, content);
}

/** Writes a text or copies `source`, after making the folders of the file. */
async function write(target: string, content?: string, source?: string): Promise<void> {
  try {
    await mkdir(path.dirname(target), { recursive: true });
    if (source !== undefined) await copyFile(source, target);
    else await writeFile(target, content!);
  } catch (error) {
    throw saveFailed(target, error);
  }
}
