// The usual ranges of pixels (demos/studio/bring/preparation.ts), as an independent list for tests.

export const scalings = {
  unit: { scale: 1 / 255, mean: [0], std: [1] },
  imagenet: { scale: 1 / 255, mean: [0.485, 0.456, 0.406], std: [0.229, 0.224, 0.225] },
  signed: { scale: 1 / 255, mean: [0.5], std: [0.5] },
  caffe: { scale: 1, mean: [123, 117, 104], std: [1] },
  bytes: { scale: 1, mean: [0], std: [1] },
};
