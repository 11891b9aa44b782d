// Quantizes the shipped Fashion-MNIST network in a few lines, and compares the result with the float original
// on 1,000 test images.
//
//   npm run demo

import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { compare, engineInfo, loadModel, quantize } from 'requant';
import { feedsOf, imageSamples, readIdxImages } from 'requant/dataset';
import { formatReport, htmlReport } from 'requant/report';

const DEMOS = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '..');
const ROOT = path.dirname(DEMOS);
const data = (name) => readFileSync(path.join(DEMOS, 'data', name));

// `imageSamples` divides pixels by 255 by default.
const calibration = imageSamples(await readIdxImages(data('calibration-images-idx3-ubyte')), {
  input: 'image',
});
const test = imageSamples(
  await readIdxImages(data('test-images-idx3-ubyte'), data('test-labels-idx1-ubyte')),
  { input: 'image' },
);

const start = performance.now();
const model = await loadModel(path.join(DEMOS, 'models/fashion_mnist.onnx'));
console.log(`${model.summary()}\n`);

const quantized = await quantize(model, { calibration: feedsOf(calibration) });
const seconds = ((performance.now() - start) / 1000).toFixed(1);
const { operators, warnings } = quantized.config;
const count = operators.filter((operator) => operator.quantized).length;
console.log(
  `${count} of ${operators.length} operators quantized, calibrated on ${calibration.length} images, in ${seconds} s`,
);
for (const warning of warnings) console.log(`warning: ${warning}`);

const report = await compare(model, quantized, { dataset: test, layerwise: true });
console.log(`\n${formatReport(report)}\n`);

const build = path.join(ROOT, 'build');
mkdirSync(build, { recursive: true });
const page = path.join(build, 'demo-report.html');
const small = path.join(build, 'fashion_mnist.int8.onnx');
const subtitle = 'fashion_mnist.onnx in float and in 8 bits';
writeFileSync(page, htmlReport(report, { title: 'Requant demo', subtitle }));
writeFileSync(small, quantized.toOnnx({ format: 'qdq' }));
const { variant } = await engineInfo();
console.log(`Engine: ${variant}. Took ${((performance.now() - start) / 1000).toFixed(1)} s.`);
console.log(`The quantized model: ${path.relative(process.cwd(), small)}`);
console.log(`The report with charts: ${path.relative(process.cwd(), page)}`);
quantized.dispose();
model.dispose();

// The demo fails if quantization has lost too much accuracy.
if (report.top1.float < 0.92 || report.top1.agreement < 0.97) {
  console.error('The quantized network is not as good as it should be.');
  process.exitCode = 1;
}
