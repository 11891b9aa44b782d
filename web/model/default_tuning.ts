// Made by tests/bench/default_tuning.mjs: by kind of device and shape of a step, the kernel that was faster
// there, twice and by 5 % or more, than the one that is usual for such shapes.

/** @internal Kernels by steps' `tuning`, by deviceKind(). */
export const defaultKernels: Record<string, Record<string, string>> = {
  'relaxed, x64': {
    'conv_f32 1x74x32x24 to 72x32x24, window 3x1 stride 1x1 dilation 1x1 groups 1':
      'conv_f32_lines',
    'conv_f32 1x36x16x24 to 36x16x48, window 1x3 stride 1x1 dilation 1x1 groups 1':
      'conv_f32_lines',
    'conv_f32 1x36x16x48 to 34x16x48, window 3x1 stride 1x1 dilation 1x1 groups 1':
      'conv_f32_lines',
    'conv_f32 1x34x16x48 to 34x16x48, window 1x3 stride 1x1 dilation 1x1 groups 1':
      'conv_f32_lines',
    'conv_f32 1x34x16x48 to 32x16x48, window 3x1 stride 1x1 dilation 1x1 groups 1':
      'conv_f32_lines',
    'conv_f32 1x14x4x72 to 14x4x96, window 1x3 stride 1x1 dilation 1x1 groups 1': 'conv_f32_lines',
    'conv_f32 1x14x4x96 to 12x4x96, window 3x1 stride 1x1 dilation 1x1 groups 1': 'conv_f32_lines',
    'conv_f32 1x12x4x96 to 12x4x96, window 1x3 stride 1x1 dilation 1x1 groups 1': 'conv_f32_lines',
    'conv_f32 1x12x4x96 to 10x4x96, window 3x1 stride 1x1 dilation 1x1 groups 1': 'conv_f32_lines',
    'conv_f32 1x3x1x96 to 1x1x96, window 3x1 stride 1x1 dilation 1x1 groups 1': 'conv_f32_lines',
    'conv_q8 1x49x10x1 to 25x5x64, window 10x4 stride 2x2 dilation 1x1 groups 1, codes -128 to 127, weights of 8 bits':
      'conv_q8_vector',
    'conv_q8 1x32x32x16 to 16x16x32, window 1x1 stride 2x2 dilation 1x1 groups 1, codes -128 to 127, weights of 8 bits':
      'conv_q8_lines',
    'conv_f32 1x32x32x16 to 16x16x32, window 1x1 stride 2x2 dilation 1x1 groups 1':
      'conv_f32_lines',
    'conv_f32 1x16x16x32 to 8x8x64, window 3x3 stride 2x2 dilation 1x1 groups 1': 'conv_f32_lines',
    'conv_f32 1x8x8x64 to 8x8x64, window 3x3 stride 1x1 dilation 1x1 groups 1': 'conv_f32_lines',
  },
};
