// Inputs beside the one that samples fill.

import type { ModelInfo, Tensor } from 'requant';

const RATE_NAME = /^(sr|rate|sample_?rate|sampling_?rate)$/i;

/** Zeros for the other inputs, such as states; an input that is named like a rate gets the rate. */
export async function otherInputs(
  { inputs }: ModelInfo,
  without: string,
  rate: number,
): Promise<Record<string, Tensor>> {
  const { Tensor: Made } = await import('requant');
  return Object.fromEntries(
    inputs
      .filter(({ name }) => name !== without)
      .map(({ name, type, dims }) => {
        const shape = dims.map((dim) => (typeof dim === 'number' ? dim : 1));
        const size = shape.reduce((product, dim) => product * dim, 1);
        const value = RATE_NAME.test(name) ? rate : 0;
        const wide = type === 'int64' || type === 'uint64';
        const values = wide
          ? Array<bigint>(size).fill(BigInt(value))
          : Array<number>(size).fill(value);
        return [name, new Made(type, values, shape) as Tensor];
      }),
  );
}
