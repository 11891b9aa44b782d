// The reference of the API: TypeDoc's pages of every export of the package.

import { mkdirSync, readFileSync, readdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { ROOT, run } from '../run.mjs';

/** The modules of the package, by the names that programs import. */
const ENTRIES = {
  index: 'requant',
  dataset: 'requant/dataset',
  'dataset/node': 'requant/dataset/node',
  generate: 'requant/generate',
  report: 'requant/report',
};

const source = (entry) =>
  path.join(
    ROOT,
    'web',
    entry === 'index' || entry.includes('/') ? `${entry}.ts` : `${entry}/index.ts`,
  );

/** Markdown files below a folder, relative to it. */
const filesOf = (folder) =>
  readdirSync(folder, { recursive: true }).filter((name) => name.endsWith('.md'));

/** Writes a page for each export into a folder. */
export function writeApi(folder) {
  const options = path.join(ROOT, 'build/site_typedoc.json');
  mkdirSync(path.dirname(options), { recursive: true });
  const settings = {
    plugin: ['typedoc-plugin-markdown'],
    entryPoints: Object.keys(ENTRIES).map(source),
    tsconfig: path.join(ROOT, 'tsconfig.json'),
    out: folder,
    outputFileStrategy: 'members',
    entryFileName: 'index',
    readme: 'none',
    name: 'API by modules',
    excludeInternal: true,
    excludePrivate: true,
    hideBreadcrumbs: true,
    hidePageHeader: true,
    disableSources: true,
    sanitizeComments: true,
    skipErrorChecking: true,
    parametersFormat: 'table',
    propertiesFormat: 'table',
    propertyMembersFormat: 'table',
    enumMembersFormat: 'table',
    indexFormat: 'table',
    tableColumnSettings: { hideSources: true },
    logLevel: 'Error',
  };
  writeFileSync(options, JSON.stringify(settings));
  run(process.execPath, ['node_modules/typedoc/bin/typedoc', '--options', options]);
  rmSync(options);
  renameSync(path.join(folder, 'index'), path.join(folder, 'requant'));
  for (const name of filesOf(folder)) {
    const file = path.join(folder, name);
    const text = readFileSync(file, 'utf8')
      .replace(/\]\(((?:\.\.\/)*)index\/(?!md)/g, ']($1requant/')
      .replace(/^# index$/m, '# requant')
      .replace(/\[index\]/g, '[requant]')
      // TypeDoc counts the anchor of a property, which the heading of the method shares.
      .replaceAll('#dispose-1', '#dispose');
    writeFileSync(file, text);
  }
}
