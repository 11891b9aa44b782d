// The tables of options in docs/api.md, from the tables in web/quantize, web/search and web/train: what an option takes by its
// row, what it means by the comment over the row.
//
//   node web/scripts/option_tables.mjs            writes them
//   node web/scripts/option_tables.mjs --check    fails where the document has others
//
// In the document `<!-- options: NAME -->` and `<!-- end of options -->` enclose the table of the object NAME.

import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import prettier from 'prettier';
import ts from 'typescript';
import { ROOT } from './run.mjs';

const DOCUMENT = path.join(ROOT, 'docs/api.md');

/** Where the tables are in web/ and dist/. */
const FILES = {
  quantizeOptions: 'quantize/config',
  tensorOptions: 'quantize/tensor_options',
  floorOptions: 'search/search_options',
  budgetOptions: 'search/search_options',
  searchOptions: 'search/search_options',
  trainerOptions: 'train/train_options',
  scheduleOptions: 'train/train_options',
};

/** The comments over the members of an object, by their names, each as one line. */
function commentsOf(file, object) {
  const text = readFileSync(path.join(ROOT, 'web', `${file}.ts`), 'utf8');
  const source = ts.createSourceFile(file, text, ts.ScriptTarget.Latest, true);
  const comments = {};
  const visit = (node) => {
    if (ts.isVariableDeclaration(node) && node.name.getText(source) === object) {
      for (const member of node.initializer.properties) {
        const [doc] = ts.getJSDocCommentsAndTags(member);
        const words = doc && ts.getTextOfJSDocComment(doc.comment);
        comments[member.name.getText(source)] = words?.replaceAll(/\s+/g, ' ').trim();
      }
    }
    ts.forEachChild(node, visit);
  };
  visit(source);
  return comments;
}

const quoted = (names) => names.map((name) => `\`'${name}'\``).join(', ');

/** What a row takes, in words. */
function valuesOf(row) {
  if (row.kind === 'boolean') return '`true`, `false`';
  if (row.kind === 'number') return row.range;
  if (row.kind === 'string') return quoted(row.of);
  if (row.kind === 'strings') return `an array of ${quoted(row.of)}`;
  if (row.kind === 'integer') {
    if (row.from === -(2 ** 31)) return 'an integer';
    return row.to === 2 ** 31 - 1 ? `an integer from ${row.from}` : `${row.from} to ${row.to}`;
  }
  return markdown(row.values);
}

const markdown = (words) =>
  words
    .replaceAll(/\{@link (\w+)\}/g, '`$1`')
    .replaceAll(/(?<!`[^`]*)'([\w-]+)'/g, "`'$1'`")
    .replaceAll('|', '\\|');

/** The table of an object of options. */
async function tableOf(object) {
  const file = FILES[object];
  if (!file) throw new Error(`there is no table ${object} (${Object.keys(FILES).join(', ')})`);
  const { [object]: rows } = await import(path.join(ROOT, 'dist', `${file}.js`));
  const comments = commentsOf(file, object);
  const lines = Object.entries(rows).map(([name, row]) => {
    if (!comments[name]) throw new Error(`${object}.${name} has no comment`);
    return `| \`${name}\` | ${valuesOf(row)} | ${markdown(comments[name])} |`;
  });
  const text = ['| Option | Values | Meaning |', '| --- | --- | --- |', ...lines].join('\n');
  return prettier.format(text, { parser: 'markdown' });
}

/** The document with its tables made anew. */
export async function withOptionTables(text) {
  const parts = text.split(/(<!-- options: \w+ -->\n)[\s\S]*?(?=<!-- end of options -->)/);
  for (let i = 1; i < parts.length; i += 2) {
    const [, object] = /options: (\w+)/.exec(parts[i]);
    parts[i] += `\n${await tableOf(object)}\n`;
  }
  return parts.join('');
}

if (import.meta.url === `file://${process.argv[1]}`) {
  const text = readFileSync(DOCUMENT, 'utf8');
  const made = await withOptionTables(text);
  if (!process.argv.includes('--check')) writeFileSync(DOCUMENT, made);
  else if (made !== text) {
    console.error('option_tables: docs/api.md has other tables: run web/scripts/option_tables.mjs');
    process.exitCode = 1;
  }
}
