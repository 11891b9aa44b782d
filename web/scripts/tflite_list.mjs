// The list of operators in docs/tflite.md, from src/tflite/operators.inc.
//
//   node web/scripts/tflite_list.mjs            writes it
//
// In the document `<!-- operators -->` and `<!-- end of operators -->` enclose the list.

import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import prettier from 'prettier';
import { ROOT } from './run.mjs';

const DOCUMENT = path.join(ROOT, 'docs/tflite.md');
const read = (file) => readFileSync(path.join(ROOT, file), 'utf8');

/** The rows of operators.inc: the names of operators by what the engine does with them. */
export function operatorRows() {
  const text = read('src/tflite/operators.inc');
  const supported = [...text.matchAll(/^OP\(\d+, (\w+), /gm)].map(([, name]) => name);
  const remedies = new Map(
    [
      ...read('src/tflite/operators.cpp').matchAll(
        /constexpr char (k\w+)\[\] RQ_LATE_SECTION =\s*"([^"]*)"/g,
      ),
    ].map(([, name, words]) => [name, words]),
  );
  const refused = new Map();
  for (const [, name, remedy] of text.matchAll(/^LACK\(\d+, (\w+), (\w+)\)/gm)) {
    const words = remedies.get(remedy);
    refused.set(words, [...(refused.get(words) ?? []), name]);
  }
  return { supported, refused };
}

/** The text in lines of at most 120 characters, of which all but the first are indented. */
function wrapped(text, indent) {
  const lines = [];
  let line = '';
  for (const word of text.split(' ')) {
    if (line !== '' && line.length + word.length >= 120) {
      lines.push(line);
      line = indent + word;
    } else line += line === '' ? word : ` ${word}`;
  }
  return [...lines, line].join('\n');
}

/** The document with the list that follows from the rows. */
export async function withOperatorList(document) {
  const { supported, refused } = operatorRows();
  const code = (names) =>
    [...names]
      .sort()
      .map((name) => `\`${name}\``)
      .join(', ');
  const lines = [
    'These operators run:',
    '',
    wrapped(`${code(supported)}.`, ''),
    '',
    'These are refused, with this remedy:',
    '',
    ...[...refused].map(([words, names]) => wrapped(`- ${words}: ${code(names)}`, '  ')),
  ];
  const filled = document.replace(
    /<!-- operators -->[^]*<!-- end of operators -->/,
    () => `<!-- operators -->\n\n${lines.join('\n')}\n\n<!-- end of operators -->`,
  );
  return prettier.format(filled, {
    ...(await prettier.resolveConfig(DOCUMENT)),
    filepath: DOCUMENT,
  });
}

if (import.meta.url === `file://${process.argv[1]}`) {
  writeFileSync(DOCUMENT, await withOperatorList(readFileSync(DOCUMENT, 'utf8')));
}
