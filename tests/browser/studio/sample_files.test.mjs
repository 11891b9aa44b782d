// How the studio reads sounds, tables and texts, by files whose contents are known.

import assert from 'node:assert/strict';
import test, { after, before } from 'node:test';
import { createServer } from 'vite';
import { studioConfig } from '../../../web/scripts/studio.mjs';

let server;
const load = (name) => server.ssrLoadModule(`/bring/${name}.ts`);

before(async () => {
  server = await createServer({
    ...studioConfig(),
    logLevel: 'error',
    appType: 'custom',
    server: { middlewareMode: true, watch: null, ws: false },
    optimizeDeps: { noDiscovery: true },
  });
});

after(() => server?.close());

/** A WAV file of these samples, of two channels. */
function wav(kind, bits, values, write) {
  const bytes = Buffer.alloc(44 + 2 * values.length * (bits / 8));
  bytes.write('RIFF', 0);
  bytes.writeUInt32LE(bytes.length - 8, 4);
  bytes.write('WAVEfmt ', 8);
  bytes.writeUInt32LE(16, 16);
  bytes.writeUInt16LE(kind, 20);
  bytes.writeUInt16LE(2, 22);
  bytes.writeUInt32LE(16000, 24);
  bytes.writeUInt16LE(bits, 34);
  bytes.write('data', 36);
  bytes.writeUInt32LE(bytes.length - 44, 40);
  values.forEach((value, at) => {
    write(bytes, value, 44 + (2 * at * bits) / 8);
    write(bytes, value, 44 + ((2 * at + 1) * bits) / 8);
  });
  return new Uint8Array(bytes);
}

const file = (name, text) => ({ path: name, file: new File([text], name) });
const input = (name, type, dims) => ({ name, type, dims });

test('WAV files of integers and floats', async () => {
  const { parseWav } = await load('audio');
  const values = [0, 0.5, -0.25, -1];
  const forms = [
    [1, 8, (bytes, value, at) => bytes.writeUInt8(Math.min(255, 128 + 128 * value), at)],
    [1, 16, (bytes, value, at) => bytes.writeInt16LE(32768 * value, at)],
    [1, 24, (bytes, value, at) => bytes.writeIntLE(8388608 * value, at, 3)],
    [1, 32, (bytes, value, at) => bytes.writeInt32LE(2147483648 * value, at)],
    [3, 32, (bytes, value, at) => bytes.writeFloatLE(value, at)],
    [3, 64, (bytes, value, at) => bytes.writeDoubleLE(value, at)],
  ];
  for (const [kind, bits, write] of forms) {
    const { rate, data } = parseWav(wav(kind, bits, values, write));
    assert.deepEqual([rate, [...data]], [16000, values], `${kind} ${bits}`);
  }
  assert.equal(parseWav(new Uint8Array(100)), undefined);
});

test('sounds become windows, and other inputs zeros or the rate', async () => {
  const { fromSounds } = await load('audio');
  const values = Array.from({ length: 1200 }, (_, at) => at / 2048);
  const bytes = wav(1, 16, values, (out, value, at) => out.writeInt16LE(32768 * value, at));
  const info = {
    inputs: [
      input('input', 'float32', [1, 512]),
      input('state', 'float32', [2, 1, 4]),
      input('sr', 'int64', []),
    ],
  };
  const samples = await fromSounds([file('a.wav', bytes)], info);
  assert.equal(samples.count, 2);
  const feeds = await samples.feeds(1);
  assert.deepEqual(feeds.input.dims, [1, 512]);
  assert.equal(feeds.input.data[0], 512 / 2048);
  assert.deepEqual([...feeds.sr.data, feeds.state.size], [16000n, 8]);
  const louder = await samples.sound.with({ rate: 16000, full: 32768 });
  assert.equal((await louder.feeds(1)).input.data[0], 512 * 16);
  await assert.rejects(
    fromSounds([file('a.wav', bytes)], { inputs: [input('x', 'float32', [1, 3, 8, 8])] }),
    /row of samples/,
  );
});

test('tables with names, classes and quotes', async () => {
  const { fromTable, cellsOf } = await load('table');
  assert.deepEqual(cellsOf('1,"a,""b",3', ','), ['1', 'a,"b', '3']);
  const info = { inputs: [input('x', 'float32', ['N', 3])] };
  const named = await fromTable(file('a.csv', 'a,b,c,label\n1,2,3,dog\n4,5,6,cat\n'), info);
  assert.deepEqual([named.count, named.labels, named.classes], [2, [1, 0], ['cat', 'dog']]);
  const { x } = await named.feeds(1);
  assert.deepEqual(
    [[...x.data], x.dims],
    [
      [4, 5, 6],
      [1, 3],
    ],
  );
  const plain = await fromTable(file('a.tsv', '1\t2\t3\t7\n4\t5\t6\t0\n'), info);
  assert.deepEqual([plain.count, plain.labels], [2, [7, 0]]);
  await assert.rejects(fromTable(file('a.csv', '1,2\n'), info), /row 1/);
});

test('texts become tokens', async () => {
  const { fromTexts } = await load('text');
  const tokenizer = {
    version: '1.0',
    added_tokens: [],
    normalizer: { type: 'Lowercase' },
    pre_tokenizer: { type: 'Whitespace' },
    post_processor: null,
    decoder: null,
    model: { type: 'WordLevel', vocab: { '[UNK]': 0, small: 5, networks: 6 }, unk_token: '[UNK]' },
  };
  const info = {
    inputs: [
      input('input_ids', 'int64', ['N', 'L']),
      input('attention_mask', 'int64', ['N', 'L']),
      input('token_type_ids', 'int64', ['N', 'L']),
    ],
  };
  const files = [
    file('a.txt', 'Small networks\n\nlarge networks small\n'),
    file('tokenizer.json', JSON.stringify(tokenizer)),
    file('tokenizer_config.json', '{}'),
  ];
  const samples = await fromTexts(files, info);
  assert.equal(samples.count, 2);
  const feeds = await samples.feeds(1);
  assert.deepEqual([...feeds.input_ids.data], [0n, 6n, 5n]);
  assert.deepEqual([...feeds.attention_mask.data], [1n, 1n, 1n]);
  assert.deepEqual([...feeds.token_type_ids.data], [0n, 0n, 0n]);
  const fixed = { inputs: info.inputs.map((one) => ({ ...one, dims: [1, 4] })) };
  const padded = await (await fromTexts(files, fixed)).feeds(0);
  assert.deepEqual([...padded.input_ids.data], [5n, 6n, 0n, 0n]);
  assert.deepEqual([...padded.attention_mask.data], [1n, 1n, 0n, 0n]);
  await assert.rejects(fromTexts(files.slice(0, 1), info), /tokenizer/);
});
