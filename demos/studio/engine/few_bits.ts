// Whether a file of few bits is smaller than one of bytes.

import type { QuantizationRecord } from 'requant';

/** Whether layers have weights of 4 bits or fewer, which QDQ files of opset 21 pack. */
export const hasFewBits = ({ operators }: QuantizationRecord): boolean =>
  operators
    .flatMap(({ inputs }) => inputs)
    .some((slot) => slot?.state === 'BAKED' && slot.bits !== undefined && slot.bits <= 4);
