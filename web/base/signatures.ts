// Recognizes files of other kinds by their first bytes, and says what to do about each.

import { RequantError, type RequantErrorCode } from './errors.js';

/** The kind of file that a call expects. */
export type Wanted = 'model' | 'module' | 'data';

/** The beginning of a file. */
export interface Head {
  readonly bytes: Uint8Array;
  /** Size of the whole file. */
  readonly size: number;
  /** The bytes as text, without a byte order mark and leading spaces; nonsense for binary files. */
  readonly text: string;
  /** Whether the bytes are text. */
  readonly isText: boolean;
}

/** A kind of file. */
export interface Signature {
  /** The name of the kind, with its article. */
  readonly name: string;
  readonly matches: (head: Head) => boolean;
  /** The remedy if a model was expected. */
  readonly remedy: string;
  /**
   * The remedy also serves where another kind was expected: it is about how files get here, not about their
   * format.
   */
  readonly anywhere?: true;
  /** No file of numbers begins like this by chance. */
  readonly certain?: true;
  /** Errors show the file's first line, which may say what went wrong. */
  readonly quote?: true;
  /** The kind of file that this is right for. */
  readonly fits?: Wanted;
}

const startsWith = (letters: string, at = 0) => {
  const codes = Array.from(letters, (letter) => letter.charCodeAt(0));
  return ({ bytes }: Head) => codes.every((code, index) => bytes[at + index] === code);
};
const reads = (pattern: RegExp) => (head: Head) => pattern.test(head.text);
const readsAsText = (pattern: RegExp) => (head: Head) => head.isText && pattern.test(head.text);

/** Matches a zip one of whose first entries has such a name. Names stand in a zip uncompressed. */
const zipOf =
  (pattern: RegExp) =>
  ({ bytes }: Head) =>
    startsWith('PK\x03\x04')({ bytes } as Head) && pattern.test(latin1(bytes));

const wrongAddress =
  'Check the address, and that the file is deployed: many servers answer with a page where they have no ' +
  'such file. Bundlers copy files as they are from a folder such as public/.';
const tensorflow =
  'Convert it to ONNX: python -m tf2onnx.convert (--saved-model, --keras or --tfjs).';
const pytorch =
  'Export the network itself: torch.onnx.export(network, inputs, "model.onnx") in Python.';
const weightsOnly =
  'It has weights, but no network. Export the network to ONNX where it was made, such as by ' +
  'torch.onnx.export or optimum-cli export onnx.';
const unpack = 'Unpack it first, and give the .onnx file that is in it.';

/** The kinds of files; the first that matches counts. */
export const signatures: readonly Signature[] = [
  {
    name: 'an empty file',
    matches: ({ size }) => size === 0,
    remedy: 'The download or copy failed: check the address and the file.',
    anywhere: true,
    certain: true,
  },
  {
    name: 'a web page (HTML)',
    matches: reads(
      /^(<!--[^]*?-->\s*|<\?xml[^>]*>\s*)*<(!do|htm|head\b|body\b|title\b|meta\b|script\b)/i,
    ),
    remedy: wrongAddress,
    anywhere: true,
    certain: true,
  },
  {
    name: 'a pointer of Git LFS',
    matches: reads(/^version https:\/\/(git-lfs|hawser)/i),
    remedy:
      'The file itself is in the large file storage: run "git lfs pull", or download it from an address ' +
      'that resolves pointers (of GitHub media.githubusercontent.com/media/..., of Hugging Face .../resolve/...).',
    anywhere: true,
    certain: true,
  },
  {
    name: 'a network of OpenVINO (XML)',
    matches: reads(/^(<\?xml[^>]*>\s*)?<net\s/i),
    remedy: 'Give the ONNX file that it was converted from.',
    certain: true,
  },
  {
    name: 'an XML document',
    matches: reads(/^<(\?xml|error>|listbucketresult|svg)/i),
    remedy:
      'A storage service answers like this where a file is missing or must not be read: check the address and the rights.',
    anywhere: true,
    certain: true,
    quote: true,
  },
  {
    name: 'a model of TensorFlow.js (JSON)',
    matches: readsAsText(
      /^\{[^]*"(modelTopology|weightsManifest|format)"\s*:\s*("(graph|layers)-model"|\{|\[)/,
    ),
    remedy: tensorflow,
  },
  {
    name: 'JSON',
    matches: readsAsText(/^(\{\s*("|\}|$)|\[\s*(["{[\d\]-]|$))/),
    remedy: 'Check the address: servers report errors like this.',
    anywhere: true,
    quote: true,
  },
  {
    name: 'a TFLite model',
    matches: startsWith('TFL3', 4),
    remedy: 'Check the address.',
    fits: 'model',
  },
  {
    name: 'a model in the format of ONNX Runtime (.ort)',
    matches: startsWith('ORTM', 4),
    remedy: 'Give the .onnx file that it was made from.',
  },
  {
    name: 'gzip',
    matches: startsWith('\x1f\x8b'),
    remedy:
      'Unpack it first, here by new Response(response.body.pipeThrough(new DecompressionStream("gzip"))); or ' +
      'let the server send it with Content-Encoding: gzip.',
    anywhere: true,
  },
  { name: 'Zstandard', matches: startsWith('\x28\xb5\x2f\xfd'), remedy: unpack, anywhere: true },
  { name: 'xz', matches: startsWith('\xfd7zXZ\0'), remedy: unpack, anywhere: true },
  {
    name: 'bzip2',
    matches: (head) => startsWith('BZh')(head) && startsWith('1AY&SY', 4)(head),
    remedy: unpack,
    anywhere: true,
  },
  { name: '7z', matches: startsWith("7z\xbc\xaf'\x1c"), remedy: unpack, anywhere: true },
  {
    name: 'a tar archive',
    matches: startsWith('ustar', 257),
    remedy: unpack,
    anywhere: true,
  },
  {
    name: 'a PyTorch file (the zip of torch.save or torch.jit.save)',
    matches: zipOf(/[/](data\.pkl|byteorder|constants\.pkl|\.format_version|\.storage_alignment)/),
    remedy: pytorch,
  },
  {
    name: 'a Keras model (.keras)',
    matches: zipOf(/PK\x03\x04[^]{26}(metadata\.json|config\.json|model\.weights\.h5)/),
    remedy: tensorflow,
  },
  {
    name: 'a NumPy archive (.npz)',
    matches: zipOf(/PK\x03\x04[^]{26}[^/]*\.npy/),
    remedy: 'Arrays are samples, not a model: read them by requant/dataset.',
  },
  {
    name: 'a zip archive',
    matches: startsWith('PK\x03\x04'),
    remedy: unpack,
    anywhere: true,
  },
  {
    name: 'an empty zip archive',
    matches: startsWith('PK\x05\x06'),
    remedy: unpack,
    anywhere: true,
  },
  {
    name: 'a Python pickle (as torch.save of PyTorch wrote it before 1.6)',
    // Pickle: a protocol, then the opcode of a frame, a number, an import or a container.
    matches: ({ bytes }) =>
      bytes[0] === 0x80 &&
      bytes[1]! >= 2 &&
      bytes[1]! <= 5 &&
      /^[\x8a\x95ckK\]}()]/.test(latin1(bytes.subarray(2, 3))),
    remedy: pytorch,
  },
  {
    name: 'a safetensors file',
    matches: ({ bytes }) => {
      if (bytes.length < 10 || bytes[8] !== 0x7b || !/^\{\s*["}]/.test(latin1(bytes.subarray(8)))) {
        return false;
      }
      // The header of JSON has this size; the format allows 100 MB.
      const header = new DataView(bytes.buffer, bytes.byteOffset).getBigUint64(0, true);
      return header >= 2n && header <= 100_000_000n;
    },
    remedy: weightsOnly,
  },
  { name: 'a GGUF file', matches: startsWith('GGUF'), remedy: weightsOnly },
  {
    name: 'a file of GGML',
    matches: ({ bytes }) => /^(lmgg|fmgg|tjgg|algg)/.test(latin1(bytes.subarray(0, 4))),
    remedy: weightsOnly,
  },
  {
    name: 'an HDF5 file (as Keras writes .h5)',
    matches: startsWith('\x89HDF\r\n\x1a\n'),
    remedy: tensorflow,
  },
  {
    name: 'a NumPy array (.npy)',
    matches: startsWith('\x93NUMPY'),
    remedy: 'Arrays are samples, not a model: read them by requant/dataset.',
  },
  {
    name: 'an engine of TensorRT',
    matches: (head) => startsWith('ftrt')(head) || startsWith('ptrt')(head),
    remedy: 'Give the ONNX file that it was built from.',
  },
  {
    name: 'a picture',
    matches: (head) =>
      ['\x89PNG\r\n', '\xff\xd8\xff', 'GIF8'].some((letters) => startsWith(letters)(head)) ||
      (startsWith('RIFF')(head) && startsWith('WEBP', 8)(head)),
    remedy: 'Pictures are samples, not a model: read them by requant/dataset.',
  },
  {
    name: 'a WebAssembly module',
    matches: startsWith('\0asm'),
    remedy: 'Check the address: this is no model.',
    fits: 'module',
  },
  {
    name: 'a saved plan of a session',
    matches: startsWith('\x93RQPLAN\n'),
    remedy: 'Give it to InferenceSession.create.',
  },
  {
    // A SavedModel has schema version 1, then a graph; a GraphDef has a node. Both begin with a message.
    name: 'a graph of TensorFlow (.pb)',
    matches: ({ bytes }) =>
      /^(\x08\x01\x12|\x0a)[\x80-\xff]{0,4}[\0-\x7f]\x0a/.test(latin1(bytes.subarray(0, 16))),
    remedy: tensorflow,
  },
  {
    // The specification version, then the description, which begins with that of an input.
    name: 'a Core ML model',
    matches: ({ bytes }) =>
      /^\x08[\x02-\x1f]\x12[\x80-\xff]{0,4}[\0-\x7f]\x0a/.test(latin1(bytes.subarray(0, 16))),
    remedy: 'Give the ONNX file that it was converted from.',
  },
  {
    name: 'an ONNX model',
    // ModelProto: ir_version, then the number of one of its fields.
    matches: ({ bytes }) =>
      bytes[0] === 0x08 &&
      bytes[1]! >= 1 &&
      bytes[1]! < 32 &&
      [0x12, 0x1a, 0x22, 0x28, 0x32, 0x3a, 0x42].includes(bytes[2]!),
    remedy: 'Check the address.',
    fits: 'model',
  },
  {
    name: 'a model as text (protobuf)',
    matches: readsAsText(
      /^(#[^\n]*\s*)*(ir_version|producer_name|opset_import|graph|node|layer|input|name|model_version|domain)\s*[:{]/,
    ),
    remedy:
      'Write it as bytes: onnx.save(onnx.load("model.textproto", format="textproto"), "model.onnx") in Python.',
  },
  {
    name: 'a file of zeros',
    matches: ({ bytes, size }) => size >= 16 && bytes.every((byte) => byte === 0),
    remedy: 'The download or copy was not finished: fetch it again.',
  },
  {
    name: 'text',
    matches: ({ isText }) => isText,
    remedy: 'Check the address: servers report errors like this.',
    anywhere: true,
    quote: true,
  },
];

/** Bytes of a file that are examined. */
const HEAD = 1024;

/** The bytes as text, each as the character of its number. */
function latin1(bytes: Uint8Array): string {
  return String.fromCharCode(...bytes);
}

function headOf(file: Uint8Array): Head {
  // TextDecoder does not read memory that threads share, so the head is copied.
  const bytes = Uint8Array.from(file.subarray(0, HEAD));
  const wide = bytes[0] === 0xff && bytes[1] === 0xfe;
  const turned = bytes[0] === 0xfe && bytes[1] === 0xff;
  const decoded = new TextDecoder(wide ? 'utf-16le' : turned ? 'utf-16be' : 'utf-8').decode(bytes);
  const text = decoded.replace(/^[\ufeff\s]+/, '');
  // The last character may be incomplete.
  const isText =
    text !== '' &&
    !/[\0-\x08\x0e-\x1a\x1c-\x1f\x7f\ufffd]/.test(text.slice(0, -3)) &&
    text.length > 3;
  return { bytes, size: file.length, text, isText };
}

function quoted(text: string): string {
  const line = Array.from(
    text
      .slice(0, 200)
      .replace(/[\s\x1b\ufffd]+/g, ' ')
      .trim(),
  );
  return line.length > 80 ? `${line.slice(0, 79).join('')}…` : line.join('');
}

const kinds: Record<Wanted, { name: string; code: RequantErrorCode; otherwise: string }> = {
  model: { name: 'an ONNX model', code: 'INVALID_MODEL', otherwise: '' },
  module: {
    name: 'a WebAssembly module',
    code: 'LOAD_FAILED',
    otherwise:
      "Check where the package's wasm files are: env.wasm.wasmPaths, or the options whose names end in Binary.",
  },
  data: {
    name: "a model's external data",
    code: 'LOAD_FAILED',
    otherwise: "Give the file that was written beside the model, under the model's name for it.",
  },
};

/**
 * The error for a file of another kind than was expected; undefined where its kind is unknown or right.
 *
 * @param place The file's name or address, for the message.
 * @param certain Whether only kinds count that cannot be anything else, for files that may begin with any
 * bytes.
 */
export function insteadOf(
  wanted: Wanted,
  file: Uint8Array,
  place?: string,
  { certain = false, cause }: { certain?: boolean; cause?: unknown } = {},
): RequantError | undefined {
  const head = headOf(file);
  const found = signatures.find(({ matches }) => matches(head));
  if (!found || found.fits === wanted || (certain && !found.certain)) return undefined;
  const { name, code, otherwise } = kinds[wanted];
  const hint = wanted === 'model' || found.anywhere ? found.remedy : otherwise;
  const says = found.quote ? ` (${quoted(head.text)})` : '';
  return new RequantError(code, `${place ?? 'this'} is ${found.name}${says} and not ${name}`, {
    ...(place === undefined ? {} : { value: place }),
    hint,
    cause,
  });
}

/** Describes a file of unknown kind by its size and first bytes. */
export function describe(file: Uint8Array): string {
  const first = Array.from(file.subarray(0, 8), (byte) => byte.toString(16).padStart(2, '0'));
  return `${file.length} bytes that begin with ${first.join(' ')}`;
}
