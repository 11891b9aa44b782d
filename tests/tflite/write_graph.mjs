// Builds the small graphs of write_cases.mjs.

import { Random } from './net.mjs';

const product = (dims) => dims.reduce((a, b) => a * b, 1);
const real = (value) => {
  const text = Math.fround(value).toPrecision(9);
  return /[.e]/.test(text) ? text : `${text}.0`;
};

export function graph(name, inputs, body, constants = {}, options = {}) {
  const random = new Random([...name].reduce((sum, c) => sum * 31 + c.charCodeAt(0), 7) % 99991);
  const lines = [`graph "g" opset ${options.opset ?? 18}`];
  for (const [key, dims] of Object.entries(inputs)) {
    lines.push(`input %${key}: ${options.types?.[key] ?? 'float32'}[${dims.join(', ')}]`);
  }
  for (const [key, given] of Object.entries(constants)) {
    if (Array.isArray(given)) {
      const values = Array.from({ length: product(given) }, () => real(random.real(-1, 1)));
      lines.push(`const %${key}: float32[${given.join(', ')}] = {${values.join(', ')}}`);
    } else {
      const { type = 'int64', dims = [given.values.length], values } = given;
      const texts = values.map((value) => (type === 'float32' ? real(value) : String(value)));
      lines.push(`const %${key}: ${type}[${dims.join(', ')}] = {${texts.join(', ')}}`);
    }
  }
  const steps = [body].flat();
  for (const step of steps) {
    const equals = step.indexOf(' = ');
    const right = step.slice(equals + 3);
    const results = step
      .slice(0, equals)
      .split(',')
      .map((one) => {
        const [value, type = 'float32'] = one.trim().split(':');
        return `%${value}: ${type}[...]`;
      });
    lines.push(`${results.join(', ')} = ${right}`);
  }
  for (const output of options.outputs ?? ['y']) lines.push(`output %${output}`);
  return { name, text: lines.join('\n'), inputs, quantize: options.quantize ?? true, ...options };
}

export const ints = (...values) => ({ values });
export const image = { x: [1, 4, 9, 7] };
export const float = { quantize: false };
