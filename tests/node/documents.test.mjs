// Every code block of the documents does what the document says: it runs in a folder where the
// package is installed or in a clone (documents.mjs says which), or is checked as far as possible, and the
// tests print why.

import assert from 'node:assert/strict';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  rmSync,
} from 'node:fs';
import { realpathSync, symlinkSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { commands } from '../../dist/cli/run.js';
import { commonOptions } from '../../dist/cli/args.js';
import { installPackage } from './installed.mjs';
import { commandProblem, commandsOf } from './document_commands.mjs';
import { documentFiles, documents, needs, otherFiles } from './document_table.mjs';
import {
  canRun,
  checked,
  examples,
  exportsOf,
  fileName,
  haveCompiler,
  isCommand,
  placesOf,
  readDocument,
  runProblem,
  staticProblem,
  textOf,
  typeProblems,
} from './documents.mjs';
import { RESULTS, pageWith } from '../bench/result_page.mjs';
import { ROOT } from './support.mjs';

const read = documentFiles().map((file) => readDocument(file, textOf(file)));
const temporary = [];
const folders = {};
let files;
let bin;

/** Makes a folder that looks like a built clone, with a build folder of its own. */
function cloneFolder() {
  const folder = mkdtempSync(path.join(realpathSync(os.tmpdir()), 'requant-clone-'));
  for (const name of readdirSync(ROOT).filter((entry) => entry !== 'build')) {
    symlinkSync(path.join(ROOT, name), path.join(folder, name));
  }
  mkdirSync(path.join(folder, 'build'));
  return folder;
}

before(() => {
  ({ folder: folders.package, files } = installPackage());
  folders.clone = cloneFolder();
  bin = path.join(folders.package, 'bin');
  mkdirSync(bin);
  const main = path.join(ROOT, 'dist/cli/main.js');
  writeFileSync(
    path.join(bin, 'requant'),
    `#!/bin/sh\nexec '${process.execPath}' '${main}' "$@"\n`,
  );
  chmodSync(path.join(bin, 'requant'), 0o755);
  temporary.push(folders.package, folders.clone);
});
after(() => temporary.forEach((folder) => rmSync(folder, { recursive: true, force: true })));

/** Puts the files of a document into a folder, including those it shows. */
function prepare({ file, blocks }, folder) {
  for (const [name, source] of Object.entries(documents[file].files ?? {})) {
    rmSync(path.join(folder, name), { recursive: true, force: true });
    symlinkSync(path.join(ROOT, source), path.join(folder, name));
  }
  // Examples may import a module that another document shows.
  const shown = read.flatMap((document) => document.blocks).filter((one) => one.attributes.file);
  for (const block of [...shown, ...blocks]) {
    writeFileSync(path.join(folder, fileName(block)), block.code);
  }
}

test('every document has a row that says where its blocks run', () => {
  assert.deepEqual(documentFiles().sort(), Object.keys(documents).sort());
});

test('every block names its language, and every command and option in it exists', () => {
  const problems = read.flatMap(({ blocks, problems: found }) => [
    ...found,
    ...blocks.map((block) => [block.at, staticProblem(block)]).filter(([, problem]) => problem),
  ]);
  assert.deepEqual(problems, []);
  assert.ok(read.flatMap(({ blocks }) => blocks).length > 20);
});

test('every command between the blocks exists, with its options', () => {
  const problems = [];
  for (const { spans } of read) {
    for (const span of spans.filter(isCommand)) {
      const [command] = commandsOf(span.code);
      const problem = commandProblem(command);
      // "requant analyze" names a command; only a complete command line has all arguments.
      if (problem && !/is missing$/.test(problem)) problems.push(`${span.at}: ${problem}`);
    }
  }
  assert.deepEqual(problems, []);
});

test('docs/cli.md has every command with all of its options, and no others', () => {
  const { text, spans } = read.find(({ file }) => file === 'docs/cli.md');
  const lines = text.split('\n');
  const known = new Set(commands.flatMap(({ spec }) => Object.keys(spec.options)));
  const named = new Set(Object.keys(commonOptions));
  for (const { at, line, code } of spans) {
    const heading = lines.slice(0, line).findLast((entry) => entry.startsWith('## '));
    const own = commands.find(({ spec }) => `## ${spec.name}` === heading)?.spec.options;
    for (const [, name] of code.matchAll(/(?<![\w-])--([a-z][\w-]*)/g)) {
      named.add(name);
      const exists = own ? name in own : known.has(name) || name.startsWith('experimental-');
      assert.ok(exists, `${at}: there is no --${name}`);
    }
  }
  for (const { spec } of commands) {
    assert.ok(text.includes(`\n| \`${spec.name} `), `the table of docs/cli.md lacks ${spec.name}`);
    for (const name of Object.keys(spec.options)) {
      assert.ok(named.has(name), `docs/cli.md lacks --${name} of ${spec.name}`);
    }
  }
});

test('no document is a diary: what was measured and tried before is in docs/notes', () => {
  const diary =
    /\b(the version before|versions? before|earlier versions?|(was|were) tried|until lately|present version|has become|used to be)\b/i;
  const problems = read.flatMap(({ file, text }) =>
    text
      .split('\n')
      .flatMap((line, index) =>
        diary.test(line) ? [`${file}:${index + 1}: ${diary.exec(line)[0]}`] : [],
      ),
  );
  assert.deepEqual(problems, []);
});

test('every link between the documents leads somewhere, also in the package', () => {
  const slug = (heading) =>
    heading
      .toLowerCase()
      .replace(/[^\w\- ]/g, '')
      .replaceAll(' ', '-');
  const problems = [];
  const all = [...read, ...otherFiles().map((file) => readDocument(file, textOf(file)))];
  for (const { file, text } of all) {
    // Lines for the site alone have links that the build of the site checks.
    const links = text.replace(/`[^`\n]*`/g, '').replace(/^<!-- site: .* -->$/gm, '');
    for (const [, target] of links.matchAll(/\]\(([^)\s]+)\)/g)) {
      if (/^https?:/.test(target)) continue;
      const [name, anchor] = target.split('#');
      const other = name === '' ? file : path.join(path.dirname(file), name);
      if (/\.(svg|webp)$/.test(other)) {
        if (!existsSync(path.join(ROOT, other))) problems.push(`${file}: there is no ${other}`);
        continue;
      }
      const found = all.find((one) => one.file === other);
      const packed = (one) => files.includes(one);
      if (!found) problems.push(`${file}: there is no ${other}`);
      if (packed(file) && !packed(other)) problems.push(`${file}: the package has no ${other}`);
      const headings = (found?.text.match(/^#+ .*$/gm) ?? []).map((one) =>
        slug(one.replace(/^#+ /, '')),
      );
      if (anchor && !headings.includes(anchor)) problems.push(`${file}: ${target}`);
    }
  }
  assert.deepEqual(problems, []);
});

test('every file and folder of the project that a document or a README names is there', () => {
  const lasting = [...read, ...otherFiles().map((file) => readDocument(file, textOf(file)))].filter(
    ({ file }) => !file.startsWith('docs/notes/') && file !== 'CHANGELOG.md',
  );
  const isPath =
    /^(src|web|bindings|tests|demos|docs)(\/[\w.-]+)+\/?$|^[\w-]+(\/[\w-]+)+\.(h|cpp|inc|ts|mjs|txt)$/;
  const named = lasting.flatMap(({ file, spans }) =>
    spans
      .filter(({ code }) => isPath.test(code))
      .map(({ at, code }) => ({ at, code, places: ['', path.dirname(file)] })),
  );
  assert.ok(named.length > 50);
  const missing = named.filter(
    ({ code, places }) => !places.some((place) => existsSync(path.join(ROOT, place, code))),
  );
  assert.deepEqual(
    missing.map(({ at, code }) => `${at}: ${code}`),
    [],
  );
});

test('the tables of docs/benchmarks.md are those of the last measurement, made by npm run bench', () => {
  const results = JSON.parse(readFileSync(RESULTS, 'utf8'));
  assert.equal(textOf('docs/benchmarks.md'), pageWith(results));
});

test('docs/api.md and the guides name every export of the package, and no function that there is not', () => {
  const texts = read.filter(({ file }) => file === 'docs/api.md' || /^docs.guides/.test(file));
  const spans = texts.flatMap((document) => document.spans);
  const { exports, members } = exportsOf(folders.package);
  const words = new Set(texts.flatMap(({ text }) => text.match(/[A-Za-z_]\w*/g)));
  assert.deepEqual(
    Object.keys(exports).filter((name) => !words.has(name)),
    [],
  );
  const called = spans.flatMap(({ at, code }) => {
    const [, first, name] = /^(?:await )?(?:(\w+)\.(?:\w+\.)*)?(\w+)\(/.exec(code) ?? [];
    return name && !(first in globalThis) && !members.has(name) ? [`${at}: ${name}`] : [];
  });
  assert.deepEqual(called, []);
});

test('every block of JavaScript and every page has the types of the package', () => {
  const blocks = read.flatMap((document) => document.blocks);
  const problems = Object.entries(folders).flatMap(([place, folder]) =>
    typeProblems(
      blocks.filter((block) => placesOf(block)[0] === place || block.attributes.file),
      folder,
    ),
  );
  assert.deepEqual(problems, []);
});

test('every example of a docstring has the types of the package', () => {
  const blocks = examples();
  assert.ok(blocks.length > 10);
  const { exports } = exportsOf(folders.package);
  assert.deepEqual(typeProblems(blocks, folders.package, exports), []);
});

for (const document of read) {
  for (const block of document.blocks.filter((one) => !canRun(one))) {
    test(`${block.at}: ${block.language} is checked`, (t) => {
      t.diagnostic(`${block.at} is not run: ${checked[block.language]}`);
    });
  }
  for (const place of ['clone', 'package']) {
    const here = document.blocks.filter((block) => placesOf(block).includes(place));
    for (const block of here.filter(canRun)) {
      const why = block.attributes.needs;
      const able = !why || (why === 'compiler' && haveCompiler());
      test(`${block.at}: ${block.language} in a ${place}`, (t) => {
        if (!able) return t.diagnostic(`${block.at} is checked, but not run: ${needs[why]}`);
        prepare(document, folders[place]);
        const problem = runProblem(block, folders[place], bin);
        if (problem) assert.fail(problem);
      });
    }
  }
}

test('a block that is wrong is found', () => {
  const broken = {
    'a command that does not exist': '```sh\nrequant quantise model.onnx\n```',
    'an option that does not exist': '```sh\nrequant inspect model.onnx --node\n```',
    'an argument that is missing': '```sh\nnpx requant compare a.onnx\n```',
    'a script that does not exist': '```sh\nnpm run dmo\n```',
    'an option of a script': '```sh\nnode tests/bench/layers.mjs resnet50 --al\n```',
    'a program that nobody knows': '```sh\ncurl example.org\n```',
    'JSON that is none': '```json\n{ weights: 4 }\n```',
    'a language that nobody knows': '```\nfree\n```',
    'a need that nobody knows': '```js needs=luck\nlet a;\n```',
    'a flowchart with a node that nobody shows': '```mermaid\nflowchart LR\na["A"] --> b\n```',
    'a line that is none of a flowchart': '```mermaid\nflowchart LR\na["A"] => b["B"]\n```',
    'a group without an end': '```mermaid\nflowchart LR\nsubgraph g["G"]\na["A"]\n```',
    'a recipe that no bundler has': '```sh needs=bundler\nesbuild other.js\n```',
  };
  for (const [what, text] of Object.entries(broken)) {
    const { blocks, problems } = readDocument('broken.md', text);
    assert.deepEqual(problems, []);
    assert.ok(staticProblem(blocks[0]), what);
  }
  assert.equal(readDocument('broken.md', 'text\n\n    npm run demo\n').problems.length, 1);
  assert.equal(readDocument('broken.md', '```js\nlet a;\n').problems.length, 1);

  const types = {
    'a function that is not exported':
      "```js\nimport { quantise } from 'requant';\nquantise();\n```",
    'a method that does not exist':
      "```js\nimport { InferenceSession } from 'requant';\nconst s = await InferenceSession.create('a');\ns.rnu();\n```",
    'an option of a config': '```json is=QuantizeConfig\n{ "weights": { "bit": 4 } }\n```',
    'a script of a page':
      '```html\n<script type="module">\nimport { loadModel } from \'requant\';\nloadModel();\n</script>\n```',
  };
  for (const [what, text] of Object.entries(types)) {
    const { blocks } = readDocument('broken.md', text);
    assert.equal(staticProblem(blocks[0]), undefined, what);
    assert.equal(typeProblems(blocks, folders.package).length, 1, what);
  }

  for (const text of [
    "```js\nimport { loadModel } from 'requant';\nawait loadModel('no.onnx');\n```",
    '```sh\nrequant inspect no.onnx\n```',
  ]) {
    const document = readDocument('broken.md', text);
    writeFileSync(
      path.join(folders.package, fileName(document.blocks[0])),
      document.blocks[0].code,
    );
    assert.match(runProblem(document.blocks[0], folders.package, bin), /no\.onnx/);
  }
});
