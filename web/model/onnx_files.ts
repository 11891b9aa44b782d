// The files that hold a model: one, or two where weights lie apart.

import { type RequantError, invalidArgument } from '../base/errors.js';
import { checkKind, checkOptions } from '../base/options.js';
import { saveBytes } from '../base/save.js';
import type { CoreModel } from '../core.js';
import type { Handle } from '../engine/heap.js';
import { joinParts, piecesOf, sizeOfParts, writeModel } from '../engine/written_model.js';

/** What {@link Model.toOnnxFiles} makes, in the form that {@link loadModel} takes. */
export interface OnnxFiles {
  /** The ONNX file with the graph. */
  bytes: Uint8Array<ArrayBuffer>;
  /** The file with the weights, under its name. */
  externalData: Record<string, Uint8Array<ArrayBuffer>>;
}

/** Options of {@link Model.save}. */
export interface SaveOptions {
  /** Name of a second file for the weights, beside the first; without it there is one file, of less than 2 GB. */
  externalData?: string;
}

function checkDataName(name: string, argument: string): void {
  checkKind(name, 'string', argument);
  // A reader refuses a location that leaves the folder.
  if (name === '' || name === '.' || name === '..' || /[/\\:\0]/.test(name)) {
    throw invalidArgument(
      `${argument} is ${JSON.stringify(name)}, which is no name of a file`,
      argument,
      'Give a name without folders: the file lies beside the model.',
    );
  }
}

/** @internal See {@link Model.toOnnxFiles}. */
export function onnxFilesOf({ core, object }: Handle<CoreModel>, dataName: string): OnnxFiles {
  checkDataName(dataName, 'dataName');
  const { written, free } = writeModel(core, object, dataName);
  try {
    return {
      bytes: joinParts(core, written.model),
      externalData: { [dataName]: joinParts(core, written.data) },
    };
  } finally {
    free();
  }
}

/** @internal The bytes of a model's file, or of its two files where one would exceed the 2 GB of ONNX. */
export function sizeOfOnnx({ core, object }: Handle<CoreModel>): { bytes: number; files: 1 | 2 } {
  const sizeWith = (dataName: string) => {
    const { written, free } = writeModel(core, object, dataName);
    free();
    return sizeOfParts(written.model) + sizeOfParts(written.data);
  };
  try {
    return { bytes: sizeWith(''), files: 1 };
  } catch (error) {
    if ((error as RequantError).code !== 'UNSUPPORTED') throw error;
    return { bytes: sizeWith('data'), files: 2 };
  }
}

/** @internal The name of the data file and that of the model, whose folder it shares. */
export function dataFileOf(
  name: string,
  options: SaveOptions,
): { name: string; path: string } | undefined {
  checkKind(name, 'string', 'name');
  checkOptions(options, { externalData: 'string' }, 'options');
  const { externalData } = options;
  if (externalData === undefined) return undefined;
  checkDataName(externalData, 'options.externalData');
  const path = name.replace(/[^/\\]*$/, '') + externalData;
  if (path === name) {
    throw invalidArgument(
      `options.externalData is "${externalData}", the name of the model itself`,
      'options.externalData',
    );
  }
  return { name: externalData, path };
}

/** @internal See {@link Model.save}. */
export async function saveOnnx(
  { core, object }: Handle<CoreModel>,
  name: string,
  options: SaveOptions,
): Promise<void> {
  const data = dataFileOf(name, options);
  const { written, free } = writeModel(core, object, data?.name ?? '');
  try {
    await saveBytes(name, piecesOf(core, written.model));
    if (data) await saveBytes(data.path, piecesOf(core, written.data));
  } finally {
    free();
  }
}
