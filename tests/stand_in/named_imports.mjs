// Named imports, a session of bytes, the names of inputs and outputs, several runs.

import { InferenceSession, Tensor, env } from 'onnxruntime-web';

env.wasm.numThreads = 1;
env.logLevel = 'error';
env.debug = false;
env.wasm.simd = true;
env.webgpu.powerPreference = 'high-performance';

export async function main({ readModel }) {
  const buffer = await readModel();
  const session = await InferenceSession.create(buffer, {
    executionProviders: [{ name: 'wasm' }],
    graphOptimizationLevel: 'all',
    executionMode: 'sequential',
    enableCpuMemArena: true,
    enableMemPattern: true,
    enableGraphCapture: false,
    preferredOutputLocation: 'cpu',
    logSeverityLevel: 3,
    logVerbosityLevel: 0,
    extra: { session: { set_denormal_as_zero: '1' } },
  });
  const [input] = session.inputNames;
  const [output] = session.outputNames;
  const digits = [];
  for (let frame = 0; frame < 3; frame++) {
    const pixels = Float32Array.from({ length: 784 }, (_, i) => ((i * (frame + 3)) % 29) / 29);
    const results = await session.run({ [input]: new Tensor(pixels, [1, 1, 28, 28]) });
    const scores = Array.from(await results[output].getData());
    digits.push(scores.indexOf(Math.max(...scores)), ...scores);
    results[output].dispose();
  }
  await session.release();
  return { input, output, digits };
}
