// Finds out whether an engine has relaxed SIMD with exact dot products. It imports nothing of the core, since
// the build uses it, too.

import { moduleFailed } from './modules.js';

// A module (text form below, assembled) that returns 0 when both relaxed dot products give the
// exact result for second operands of seven bits, as the specification promises for those
// (https://github.com/WebAssembly/relaxed-simd). Operands come from memory, so that no compiler
// computes the answer ahead. Does not validate where relaxed SIMD is missing.
//
//   a = 16 bytes at 0 (extremes of int8), b = 16 bytes at 16 (0..127)
//   want = i16x8: (a >> 8) * (b >> 8) + ((a << 8) >> 8) * ((b << 8) >> 8)
//   any(i16x8.relaxed_dot_i8x16_i7x16_s(a, b) != want) |
//   any(i32x4.relaxed_dot_i8x16_i7x16_add_s(a, b, a) != extadd_pairwise_s(want) + a)
const probe =
  'AGFzbQEAAAABBQFgAAF/AwIBAAUDAQABBwkBBXdyb25nAAAKawFpAQN7QQD9AAQAIQBBEP0ABAAhASAAQQj9jAEgAUEI' +
  '/YwB/ZUBIABBCP2LAUEI/YwBIAFBCP2LAUEI/YwB/ZUB/Y4BIQIgACAB/ZICIAL9Lv1TIAAgASAA/ZMCIAL9fiAA/a4B' +
  '/Tj9U3ILCysCAEEACxCAgH9/gH//AQCAAv6AgH9/AEEQCxB/f39/f39/f39/AwR/AH5/';

let relaxed: boolean | undefined;

function probeRelaxedSimd(): boolean {
  const bytes = Uint8Array.from(atob(probe), (letter) => letter.charCodeAt(0));
  if (!WebAssembly.validate(bytes)) return false;
  try {
    const { exports } = new WebAssembly.Instance(new WebAssembly.Module(bytes));
    return (exports['wrong'] as () => number)() === 0;
  } catch (error) {
    // A Content-Security-Policy forbids wasm, which the other modules would not pass either.
    throw moduleFailed('that probes for relaxed SIMD', error);
  }
}

/** Whether this JavaScript engine has relaxed SIMD and computes exactly with it. */
export function hasRelaxedSimd(): boolean {
  return (relaxed ??= probeRelaxedSimd());
}
