// Files that a user takes away.

import { zip } from 'fflate';
import { htmlReport } from 'requant/report';
import type { OnnxFormat } from 'requant';
import { recipeOf } from '../choose/recipes.js';
import { engine, held } from '../engine/engine.js';
import { hasFewBits } from '../engine/few_bits.js';
import { model, result } from '../state/store.js';
import { runJob } from '../watch/job.js';
import { StudioError } from '../watch/problems.js';

/** The model's name without its ending. */
export const stem = (): string => model.value!.name.replace(/\.(onnx|ort|tflite)$/i, '');

function download(name: string, parts: BlobPart, type: string): void {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(new Blob([parts], { type }));
  link.download = name;
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

const BYTES = 'application/octet-stream';

/** Endings of the names of ONNX files, by their format. */
const endings: Readonly<Record<OnnxFormat, string>> = {
  qdq: 'qdq',
  qoperator: 'qoperator',
  qonnx: 'qonnx',
};

function save(title: string, work: () => Promise<void>): void {
  void runJob(title, [{ name: title, weight: 1 }], work);
}

function quantized() {
  if (held.quantized) return held.quantized;
  throw new StudioError('There is no quantized model any more.', 'Quantize once more');
}

/** Saves the model as an ONNX file; few bits are packed where the format can say so. */
export function saveOnnx(format: OnnxFormat): void {
  save('Writing the ONNX file', async () => {
    const own = quantized();
    const few = 'config' in own && hasFewBits(own.config);
    const packed = format === 'qdq' && few ? { format, int4: true } : { format };
    const bytes = 'config' in own ? await own.toOnnx(packed) : await own.toOnnx();
    const ending = 'config' in own ? endings[format] : 'weights';
    download(`${stem()}.${ending}.onnx`, bytes, BYTES);
  });
}

/** Saves the model for LiteRT. */
export function saveTflite(): void {
  save('Writing the .tflite file', async () => {
    const { bytes } = await quantized().toTflite({ shapes: openShapes() });
    download(`${stem()}.tflite`, bytes, BYTES);
  });
}

/** Shapes of the inputs that the model leaves open, with 1 for what is not known. */
function openShapes(): Record<string, number[]> {
  const open = model.value!.info.inputs.filter(({ dims }) =>
    dims.some((dim) => typeof dim !== 'number'),
  );
  return Object.fromEntries(
    open.map(({ name, dims }) => [name, dims.map((dim) => (typeof dim === 'number' ? dim : 1))]),
  );
}

/** Saves the plan: chosen kernels, packed weights and the layout of memory, for engines like this one. */
export function savePlan(): void {
  save('Planning', async () => {
    const own = quantized();
    const integers = 'config' in own ? await own.integerModel() : own;
    try {
      const requantize = 'config' in own ? ('fixed' as const) : ('float' as const);
      const bytes = await integers.toPlan({ shapes: openShapes(), requantize, numThreads: 1 });
      download(`${stem()}.plan`, bytes, BYTES);
    } finally {
      if (integers !== own) await integers.dispose();
    }
  });
}

/** Saves the network as C99 in an archive. */
export function saveC(): void {
  save('Writing C', async () => {
    const worker = await engine();
    const name =
      stem()
        .replace(/\W+/g, '_')
        .replace(/^(?=\d)/, '_') || 'model';
    const shapes = openShapes();
    const { source, header } = await worker.generateC(quantized(), { name, shapes });
    const encoder = new TextEncoder();
    const files = {
      [`${name}.c`]: encoder.encode(source),
      [`${name}.h`]: encoder.encode(header),
    };
    const bytes = await new Promise<Uint8Array>((resolve, reject) =>
      zip(files, (error, packed) => (error ? reject(error) : resolve(packed))),
    );
    download(`${name}.c.zip`, bytes as BlobPart, 'application/zip');
  });
}

/** Saves the config that `requant quantize` and quantize() take. */
export function saveConfig(): void {
  const text = `${JSON.stringify(result.value!.config ?? {}, null, 2)}\n`;
  download(`${stem()}.config.json`, text, 'application/json');
}

/** Saves the record of all decisions. */
export function saveRecord(): void {
  const text = `${JSON.stringify(result.value!.record, null, 1)}\n`;
  download(`${stem()}.record.json`, text, 'application/json');
}

/** Saves the report as a page. */
export function saveReport(): void {
  const { report, recipe } = result.value!;
  const title = `${stem()}: ${recipeOf(recipe).name}`;
  download(`${stem()}.report.html`, htmlReport(report!, { title }), 'text/html');
}
