// The types of every entry point of the package, as TypeScript finds them in a project of a user: under the module
// resolutions node16, nodenext and bundler, also in CommonJS.

import assert from 'node:assert/strict';
import { existsSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import ts from 'typescript';
import { installPackage } from './installed.mjs';
import { ROOT } from './support.mjs';

const { exports } = JSON.parse(readFileSync(path.join(ROOT, 'package.json'), 'utf8'));
const entries = Object.keys(exports).filter((name) => typeof exports[name] === 'object');

/** A value that each entry point exports. */
const VALUES = {
  '.': 'InferenceSession',
  './dataset': 'readIdxImages',
  './dataset/node': 'openDataset',
  './fingerprint': 'fingerprint',
  './generate': 'generate',
  './report': 'formatReport',
  './transformers': undefined,
};

let folder;
before(() => {
  ({ folder } = installPackage());
  symlinkSync(path.join(ROOT, 'node_modules/@types'), path.join(folder, 'node_modules/@types'));
  const name = (entry) => path.posix.join('requant', entry);
  const modules = entries.map((entry) =>
    VALUES[entry]
      ? `import { ${VALUES[entry]} as v${entries.indexOf(entry)} } from '${name(entry)}';\nv${entries.indexOf(entry)};`
      : `import '${name(entry)}';`,
  );
  // A type that is not found would be any, to which everything can be assigned.
  const strict = `import { Tensor, type InferenceSession } from 'requant';
import ort from 'requant';
// @ts-expect-error: a session is no number
export const wrong: number = null! as InferenceSession;
// @ts-expect-error: there is no such type of a tensor
export const tensor = new Tensor('float', [1]);
export const also: InferenceSession = await ort.InferenceSession.create('model.onnx');
`;
  const common = `const loaded = import('requant');
export const session = loaded.then(({ InferenceSession }) => InferenceSession.create('model.onnx'));
// @ts-expect-error: a promise of a session is no number
export const wrong: number = session;
`;
  writeFileSync(path.join(folder, 'main.mts'), `${modules.join('\n')}\n${strict}`);
  writeFileSync(path.join(folder, 'common.cts'), common);
});
after(() => rmSync(folder, { recursive: true, force: true }));

test('every entry point is known here, and its types come first', () => {
  assert.deepEqual(entries, Object.keys(VALUES));
  for (const entry of entries) {
    // TypeScript takes the first condition that it knows.
    assert.deepEqual(Object.keys(exports[entry]), ['types', 'default']);
    const { types, default: code } = exports[entry];
    assert.equal(types, code.replace(/\.js$/, '.d.ts'), 'declarations lie beside the code');
    for (const file of [types, code]) assert.ok(existsSync(path.join(ROOT, file)), file);
  }
});

describe('types are found and right', () => {
  for (const [resolution, module] of [
    ['Node16', 'Node16'],
    ['NodeNext', 'NodeNext'],
    ['Bundler', 'ESNext'],
  ]) {
    test(resolution, () => {
      const program = ts.createProgram(
        ['main.mts', 'common.cts'].map((name) => path.join(folder, name)),
        {
          target: ts.ScriptTarget.ES2022,
          lib: [
            'lib.es2022.d.ts',
            'lib.esnext.disposable.d.ts',
            'lib.dom.d.ts',
            'lib.dom.iterable.d.ts',
          ],
          module: ts.ModuleKind[module],
          moduleResolution: ts.ModuleResolutionKind[resolution],
          // package.test.mjs looks into the declarations themselves.
          skipLibCheck: true,
          types: ['node'],
          typeRoots: [path.join(folder, 'node_modules/@types')],
          strict: true,
          noEmit: true,
          noUnusedLocals: false,
        },
      );
      const found = ts.getPreEmitDiagnostics(program).map(({ file, messageText }) => {
        const where = file ? path.relative(folder, file.fileName) : '';
        return `${where}: ${ts.flattenDiagnosticMessageText(messageText, '\n')}`;
      });
      assert.deepEqual(found, []);
    });
  }
});
