// The code blocks of README.md and of the documents in docs, docs/guides and docs/how: finds them, checks them without running, and runs them.
//
// The line that opens a block names its language and may have attributes:
//
//   ```js file=images.mjs      saved under this name before the following blocks run
//   ```sh needs=networks       not run, for a reason of `needs` (document_table.mjs), which the tests print; still checked
//   ```js in=clone             run there, instead of in the places of the document's row in `documents`
//   ```json is=QuantizeConfig  type-checked as this type of the package

import { execFileSync } from 'node:child_process';
import { readFileSync, readdirSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import ts from 'typescript';
import { ROWS } from '../browser/bundlers/table.mjs';
import { commandProblem, commandsOf } from './document_commands.mjs';
import { documents, needs } from './document_table.mjs';
import { flowchartProblem } from './flowchart.mjs';
import { cleanEnvironment } from './installed.mjs';

const ROOT = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '../..');

/** The text of a document. */
export const textOf = (file) => readFileSync(path.join(ROOT, file), 'utf8');

/** The blocks of a document, and the code spans and problems of the lines in between. */
export function readDocument(file, text) {
  const blocks = [];
  const spans = [];
  const problems = [];
  let block;
  let before = '';
  text.split('\n').forEach((line, index) => {
    const at = `${file}:${index + 1}`;
    const fence = /^\s*```(.*)$/.exec(line);
    if (block && fence) {
      blocks.push(block);
      block = undefined;
    } else if (block) {
      block.code += `${line}\n`;
    } else if (fence) {
      const [language, ...words] = fence[1].trim().split(/\s+/);
      block = { file, at, line: index + 1, language, attributes: {}, code: '' };
      for (const word of words) {
        const [name, value] = word.split('=');
        block.attributes[name] = value;
      }
    } else {
      if (/^ {4}\S/.test(line) && before.trim() === '') {
        problems.push(`${at}: an indented block: fence it, and name its language`);
      }
      for (const [, code] of line.matchAll(/`([^`]+)`/g)) spans.push({ at, line: index + 1, code });
    }
    before = line;
  });
  if (block) problems.push(`${block.at}: the block has no end`);
  return { file, text, blocks, spans, problems };
}

/** Whether a code span is a command. */
export const isCommand = ({ code }) =>
  /^(npx )?requant [a-z]|^npm (run|test)|^node \S*\//.test(code);

const languages = {
  js: () => undefined,
  html: ({ code }) => (scriptsOf(code).length > 0 ? undefined : 'a page without a module'),
  json: ({ code }) => {
    JSON.parse(code);
  },
  sh: ({ code }) => commandsOf(code).map(commandProblem).find(Boolean),
  c: () => undefined,
  mermaid: flowchartProblem,
  http: ({ code }) =>
    /^([A-Z][\w-]*: .*\n|\s+\S.*\n)+$/.test(code) ? undefined : 'these are no headers',
  text: () => undefined,
};

/** The problem of a block that is found without running it, or undefined. */
export function staticProblem(block) {
  const { language, attributes, code } = block;
  if (!languages[language]) return `"${language}" is no language of ${Object.keys(languages)}`;
  for (const [name, value] of Object.entries(attributes)) {
    if (!['needs', 'file', 'in', 'is'].includes(name)) return `nobody knows ${name}=${value}`;
  }
  if (attributes.in && !['clone', 'package'].includes(attributes.in))
    return `nobody knows in=${attributes.in}`;
  if (attributes.needs && !needs[attributes.needs]) return `nobody knows needs=${attributes.needs}`;
  if (attributes.needs === 'bundler' && !ROWS.some(({ recipe }) => recipe?.includes(code))) {
    return 'no row of tests/browser/bundlers/table.mjs has this recipe';
  }
  try {
    return languages[language](block);
  } catch (error) {
    return error.message;
  }
}

/** The module scripts of a page. */
export function scriptsOf(page) {
  return [...page.matchAll(/<script type="module">\n([^]*?)<\/script>/g)].map(([, code]) => code);
}

/** The places where a block runs. */
export const placesOf = ({ file, attributes }) =>
  attributes.in ? [attributes.in] : (documents[file]?.places ?? ['package']);

/** The name of the file that a block becomes. */
export function fileName({ attributes, file, line, language }) {
  const extension = { js: 'mjs', json: 'json', html: 'html', c: 'c', sh: 'sh' }[language];
  const name = file
    .replace(/^docs\//, '')
    .replace(/\.md$/, '')
    .replaceAll('/', '_')
    .toLowerCase();
  return attributes.file ?? `${name}_line_${line}.${extension ?? 'txt'}`;
}

/** Files for the type checker, by block: names and texts. */
function sourcesOf(block, exports) {
  const base = fileName(block);
  if (block.language === 'ts') return [[`${base}.mts`, exampleText(block.code, exports)]];
  if (block.language === 'js') return [[base, block.code]];
  if (block.language === 'html') {
    return scriptsOf(block.code).map((code, index) => [`${base}_${index}.mjs`, code]);
  }
  if (block.language === 'json' && block.attributes.is) {
    const type = block.attributes.is;
    const text = `import type { ${type} } from 'requant';\nexport const it: ${type} = ${block.code};\n`;
    return [[`${base}.mts`, text]];
  }
  return [];
}

const typeOptions = {
  allowJs: true,
  checkJs: true,
  noEmit: true,
  strict: true,
  // Parameters in JavaScript have no types.
  noImplicitAny: false,
  skipLibCheck: true,
  target: ts.ScriptTarget.ES2022,
  module: ts.ModuleKind.NodeNext,
  moduleResolution: ts.ModuleResolutionKind.NodeNext,
  moduleDetection: ts.ModuleDetectionKind.Force,
  lib: ['ES2022', 'ESNext.Disposable', 'DOM', 'DOM.Iterable', 'DOM.AsyncIterable'].map(
    (name) => `lib.${name.toLowerCase()}.d.ts`,
  ),
  typeRoots: [path.join(ROOT, 'node_modules/@types')],
  types: ['node'],
};

/** TypeScript's problems with blocks in a folder where the package is installed. */
export function typeProblems(blocks, folder, exports = {}) {
  const texts = new Map();
  const places = new Map();
  for (const block of blocks) {
    for (const [name, text] of sourcesOf(block, exports)) {
      texts.set(path.join(folder, name), text);
      places.set(path.join(folder, name), block.at);
    }
  }
  const host = ts.createCompilerHost(typeOptions);
  const { getSourceFile, fileExists, readFile } = host;
  host.fileExists = (name) => texts.has(name) || fileExists.call(host, name);
  host.readFile = (name) => texts.get(name) ?? readFile.call(host, name);
  host.getSourceFile = (name, ...rest) =>
    texts.has(name)
      ? ts.createSourceFile(name, texts.get(name), rest[0], true)
      : getSourceFile.call(host, name, ...rest);
  host.getCurrentDirectory = () => folder;
  // Packages that examples import and that are not installed here.
  const others = path.join(folder, 'other_packages.d.ts');
  texts.set(
    others,
    "declare module '@huggingface/transformers';\ndeclare module 'https://cdn.example/*';\n",
  );
  const program = ts.createProgram([...texts.keys()], typeOptions, host);
  return ts
    .getPreEmitDiagnostics(program)
    .filter(({ file }) => !file || texts.has(file.fileName))
    .map(({ file, start, messageText }) => {
      const text = ts.flattenDiagnosticMessageText(messageText, '\n');
      if (!file) return text;
      const { line } = file.getLineAndCharacterOfPosition(start ?? 0);
      return `${places.get(file.fileName)}, line ${line + 1} of the block: ${text}`;
    });
}

/**
 * The names that examples of docstrings assume: a type for each, after the import of everything that the
 * package exports.
 */
const given = {
  analysis: 'rq.Analysis',
  a: 'rq.InferenceSession',
  b: 'rq.InferenceSession',
  bytes: 'Uint8Array<ArrayBuffer>',
  calibration: 'Record<string, rq.Tensor>[]',
  compileForWebNN:
    '(bytes: Uint8Array) => (feeds: Record<string, rq.Tensor>) => Promise<Record<string, rq.Tensor>>',
  config: 'rq.QuantizeConfig',
  feeds: 'Record<string, rq.Tensor>',
  first: 'number',
  last: 'number',
  model: 'rq.Model',
  ort: 'Parameters<typeof rq.onnxRuntime>[0]',
  pixels: 'Float32Array',
  quantized: 'rq.QuantizedModel',
  samples: 'Record<string, rq.Tensor>[]',
  samplesWithLabels: '{ feeds: Record<string, rq.Tensor>; label: number }[]',
  states: 'Uint8Array[]',
  whole: 'rq.Calibration',
  writeFile: '(name: string, text: string) => Promise<void>',
};

/** The examples of the docstrings in web/, as blocks of TypeScript. */
export function examples() {
  const web = path.join(ROOT, 'web');
  const files = readdirSync(web, { recursive: true }).filter((name) => name.endsWith('.ts'));
  return files.flatMap((name) => {
    const text = readFileSync(path.join(web, name), 'utf8');
    return [...text.matchAll(/\n \* @example\n((?: \*(?!\/).*\n)+)/g)].map((match) => {
      const line = text.slice(0, match.index).split('\n').length + 1;
      const code = match[1].replace(/^ \* ?/gm, '');
      const file = `web/${name}`;
      return { at: `${file}:${line}`, file, line, language: 'ts', attributes: {}, code };
    });
  });
}

/** An example preceded by the imports and the names of `given` that it assumes. */
function exampleText(code, exports) {
  const bound = [...code.matchAll(/\b(?:const|let) (\w+|\{[^}]*\})/g)].flatMap(([, names]) =>
    names.split(',').map((name) => /(\w+)\W*$/.exec(name)?.[1]),
  );
  const own = new Set(bound);
  const used = [...new Set(code.match(/(?<![.\w])[A-Za-z]\w*/g))].filter((word) => !own.has(word));
  const imports = used
    .filter((word) => exports[word])
    .map((word) => `import { ${word} } from '${exports[word]}';\n`);
  const declared = used
    .filter((word) => given[word])
    .map((word) => `declare const ${word}: ${given[word]};\n`);
  const all = `import type * as rq from 'requant';\nexport type Used = rq.Model;\n`;
  return `${all}${imports.join('')}${declared.join('')}${code}`;
}

/** Modules of the values that the installed package exports, and the names of all existing members. */
export function exportsOf(folder) {
  const modules = Object.entries(
    JSON.parse(readFileSync(path.join(ROOT, 'package.json'), 'utf8')).exports,
  ).filter(([, { types }]) => types);
  const files = modules.map(([, { types }]) => path.join(folder, 'node_modules/requant', types));
  const program = ts.createProgram(files, { ...typeOptions, allowJs: false, checkJs: false });
  const checker = program.getTypeChecker();
  const exports = {};
  const members = new Set();
  for (const [index, file] of files.entries()) {
    const module = checker.getSymbolAtLocation(program.getSourceFile(file));
    for (const symbol of checker.getExportsOfModule(module)) {
      const alias = (symbol.flags & ts.SymbolFlags.Alias) !== 0;
      const own = alias ? checker.getAliasedSymbol(symbol) : symbol;
      if (own.flags & ts.SymbolFlags.Value)
        exports[symbol.name] = `requant${modules[index][0].slice(1)}`;
      members.add(symbol.name);
      const types = [
        ...(own.flags & ts.SymbolFlags.Type ? [checker.getDeclaredTypeOfSymbol(own)] : []),
        ...(own.flags & ts.SymbolFlags.Value ? [checker.getTypeOfSymbol(own)] : []),
      ];
      for (const type of types) {
        for (const { name } of checker.getPropertiesOfType(type)) members.add(name);
      }
    }
  }
  return { exports, members };
}

/** How to run a block that lies under its name in a folder; undefined if it is not run. */
const runners = {
  js: (name) => [process.execPath, [name]],
  sh: (name) => ['bash', ['-eu', name]],
};

/** Whether a block can run at all. */
export const canRun = (block) => runners[block.language] !== undefined;

/** How blocks that cannot run are checked. */
export const checked = {
  html: 'its scripts are type-checked, and tests/browser/documents.test.mjs opens it',
  json: 'it is parsed, and type-checked where it says as what',
  c: 'the block behind it compiles it',
  http: 'its lines are headers',
  mermaid: 'its lines are nodes and edges of a flowchart',
  text: 'it is no code',
};

/** Runs a block; gives the problem, or undefined. `bin` is a folder with the command `requant`. */
export function runProblem(block, folder, bin) {
  const [command, args] = runners[block.language](fileName(block));
  try {
    execFileSync(command, args, {
      cwd: folder,
      // A saved plan may not suit another Node.
      env: {
        ...cleanEnvironment,
        PATH: [bin, path.dirname(process.execPath), process.env.PATH].join(':'),
      },
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'pipe'],
      timeout: 300_000,
    });
    return undefined;
  } catch (error) {
    return `${block.at} fails:\n${block.code}\n${error.stderr || error.message}`;
  }
}

/** Whether there is a C compiler. */
export function haveCompiler() {
  try {
    execFileSync('cc', ['--version'], { stdio: 'ignore' });
    return true;
  } catch {
    return false;
  }
}
