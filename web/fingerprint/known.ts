// The fingerprint of this version. `requant fingerprint --json` prints the values; a change of those of kernels is a
// fault, and those of the quantizer change only with its methods.

/** The hash of each case, by its name. */
export const known: Readonly<Record<string, string>> = {
  'convolution, 3x3': 'a10e88d3487cb789',
  'convolution, 3x3, stride 2': '9a7710727383ae76',
  'convolution, 1x1': '29aba4c93cac8b3c',
  'convolution, 5x5 in groups': 'd15100d1f7821342',
  'depthwise convolution': '6d61038699ef8f2a',
  'matrix product': '5a2a05ee0d7db5d0',
  'sum of two grids': '860e5593974d076e',
  'product of two grids': '686ce7a7b4223859',
  average: '352ea6816b18b330',
  'function as a table': '71c0d04f681a3bfd',
  'quantize(), 8 bits': 'ed474711dc005c85',
  'quantize(), 16-bit activations': '35a906ea28bba9c4',
  'quantize(), 4 bits': 'dc8b1b35e3c5f380',
  'quantize(), 2 bits': '1269771e4b369dd1',
  'quantize(), 1 bit': 'af70112f9fe63a73',
  'train(), 2 and 4 bits': 'b4fd6ee4b8d32f47',
};
