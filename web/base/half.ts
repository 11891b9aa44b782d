// Numbers of 16 and 8 bits as JavaScript has them: bit patterns, except where the engine has Float16Array.

/** The elements of a float16 tensor: a Float16Array where the engine has it, else bit patterns. */
export type Float16Data =
  | Uint16Array
  | (typeof globalThis extends { Float16Array: { readonly prototype: infer T } } ? T : never);

/** The engine's Float16Array, or the array of bit patterns. */
export const float16Array =
  (globalThis as { Float16Array?: typeof Uint16Array }).Float16Array ?? Uint16Array;

/** Types of few bits: bits of the exponent and the mantissa, and how float8 types deviate from IEEE 754. */
interface SmallFloat {
  exponent: number;
  mantissa: number;
  /** The exponent's bias. */
  bias: number;
  /** fn: no infinities, NaN is all ones. fnuz: no infinities and no negative zero, whose code is NaN. */
  form: 'ieee' | 'fn' | 'fnuz';
}

const smallFloats = {
  float16: { exponent: 5, mantissa: 10, bias: 15, form: 'ieee' },
  bfloat16: { exponent: 8, mantissa: 7, bias: 127, form: 'ieee' },
  float8e4m3fn: { exponent: 4, mantissa: 3, bias: 7, form: 'fn' },
  float8e4m3fnuz: { exponent: 4, mantissa: 3, bias: 8, form: 'fnuz' },
  float8e5m2: { exponent: 5, mantissa: 2, bias: 15, form: 'ieee' },
  float8e5m2fnuz: { exponent: 5, mantissa: 2, bias: 16, form: 'fnuz' },
} as const satisfies Record<string, SmallFloat>;

/** The types whose tensors hold bit patterns. */
export type SmallFloatType = keyof typeof smallFloats;

export function isSmallFloat(type: string): type is SmallFloatType {
  return Object.hasOwn(smallFloats, type);
}

function numberOf({ exponent, mantissa, bias, form }: SmallFloat, code: number): number {
  const steps = 2 ** mantissa;
  const top = 2 ** exponent - 1;
  const sign = code >= steps * 2 ** exponent ? -1 : 1;
  const field = Math.floor(code / steps) % (top + 1);
  const fraction = code % steps;
  if (form === 'fnuz' && sign < 0 && field === 0 && fraction === 0) return NaN;
  if (form === 'fn' && field === top && fraction === steps - 1) return NaN;
  if (form === 'ieee' && field === top) return fraction > 0 ? NaN : sign * Infinity;
  const significand = field > 0 ? steps + fraction : fraction;
  return sign * significand * 2 ** (Math.max(field, 1) - bias - mantissa);
}

/** The numbers that bit patterns of a type stand for. */
export function toNumbers(type: SmallFloatType, codes: Uint16Array | Uint8Array): Float32Array {
  const format = smallFloats[type];
  return Float32Array.from(codes, (code) => numberOf(format, code));
}

/** The bit pattern of the nearest float16 or bfloat16, ties to even. */
export function toHalf(type: 'float16' | 'bfloat16', value: number): number {
  const { exponent, mantissa, bias } = smallFloats[type];
  const infinity = (2 ** exponent - 1) * 2 ** mantissa;
  const sign = value < 0 || Object.is(value, -0) ? 2 ** (exponent + mantissa) : 0;
  if (Number.isNaN(value)) return infinity + 2 ** (mantissa - 1);
  const magnitude = Math.abs(value);
  let power = Math.max(Math.floor(Math.log2(magnitude)), 1 - bias);
  // The logarithm of a number just below a power of two may be that power's.
  if (magnitude < 2 ** power && power > 1 - bias) power--;
  const scaled = magnitude / 2 ** (power - mantissa);
  const floor = Math.floor(scaled);
  const up = scaled - floor > 0.5 || (scaled - floor === 0.5 && floor % 2 === 1);
  // A mantissa that overflows carries into the exponent.
  const code = (power + bias - 1) * 2 ** mantissa + floor + (up ? 1 : 0);
  return sign + (code < infinity ? code : infinity);
}
