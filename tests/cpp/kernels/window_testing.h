#pragma once
// Random operands for convolution tests. Buffers have exactly the size of the contract, so that the
// address sanitizer sees every access outside.
#include <cstdint>
#include <random>
#include <vector>

#include "kernels/geometry.h"

namespace requant::window_testing {

inline ConvGeometry Geometry(int32_t h, int32_t w, int32_t in_c, int32_t out_c, int32_t kernel_h,
                             int32_t kernel_w, int32_t stride, int32_t pad, int32_t dilation = 1,
                             int32_t groups = 1, int32_t batch = 1) {
  ConvGeometry g;
  g.batch = batch;
  g.in_h = h;
  g.in_w = w;
  g.in_c = in_c;
  g.out_c = out_c;
  g.kernel_h = kernel_h;
  g.kernel_w = kernel_w;
  g.stride_h = g.stride_w = stride;
  g.dilation_h = g.dilation_w = dilation;
  g.pad_top = g.pad_left = pad;
  g.groups = groups;
  g.out_h = (h + 2 * pad - (kernel_h - 1) * dilation - 1) / stride + 1;
  g.out_w = (w + 2 * pad - (kernel_w - 1) * dilation - 1) / stride + 1;
  g.input_stride = in_c;
  g.output_stride = out_c;
  return g;
}

/// The elements of a tensor of `pixels` pixels; it ends with the last channel of the last pixel.
inline size_t Elements(int32_t pixels, int32_t stride, int32_t channels) {
  return static_cast<size_t>(pixels - 1) * stride + channels;
}

/// Packs codes from `lo` on as one plane of bits; the number of channels is a multiple of 8.
inline std::vector<uint8_t> PlaneOf(const std::vector<uint8_t>& codes, int32_t pixels,
                                    int32_t stride, int32_t channels, int32_t lo,
                                    int32_t spread = 0) {
  std::vector<uint8_t> bits(static_cast<size_t>(pixels) * channels / 8);
  for (int32_t i = 0; i < pixels; ++i) {
    for (int32_t c = 0; c < channels; ++c) {
      const uint8_t code = codes[static_cast<size_t>(i) * stride + c];
      const int32_t bit = static_cast<uint8_t>(code - static_cast<uint8_t>(lo)) >> spread;
      bits[(static_cast<size_t>(i) * channels + c) / 8] |= static_cast<uint8_t>(bit << c % 8);
    }
  }
  return bits;
}

enum class Fill { kRandom, kLowest, kHighest };

inline std::vector<uint8_t> Bytes(std::mt19937& random, size_t n, Fill fill, bool is_signed) {
  std::vector<uint8_t> bytes(n);
  for (uint8_t& b : bytes) {
    switch (fill) {
      case Fill::kRandom:
        b = static_cast<uint8_t>(random());
        break;
      case Fill::kLowest:
        b = is_signed ? 0x80 : 0;
        break;
      case Fill::kHighest:
        b = is_signed ? 0x7F : 0xFF;
        break;
    }
  }
  return bytes;
}

inline std::vector<float> Floats(std::mt19937& random, size_t n) {
  std::vector<float> values(n);
  for (float& v : values) v = static_cast<float>(random() % 2001) / 1000.0f - 1.0f;
  return values;
}

/// Cuts [0, rows) into ranges.
inline std::vector<int32_t> Cuts(std::mt19937& random, int32_t rows) {
  std::vector<int32_t> cuts = {0};
  while (cuts.back() < rows) {
    const int32_t step = 1 + static_cast<int32_t>(random() % static_cast<uint32_t>(rows));
    cuts.push_back(std::min(rows, cuts.back() + step));
  }
  return cuts;
}

/// Runs a row of a kernel table on the ranges between cuts, each with a workspace of its own.
template <typename Kernel, typename Params>
void RunRanges(const Kernel& kernel, Params p, const std::vector<int32_t>& cuts) {
  for (size_t i = 0; i + 1 < cuts.size(); ++i) {
    std::vector<uint8_t> workspace(kernel.workspace_size(p.geometry), 0xCC);
    p.workspace = workspace.data();
    p.row_begin = cuts[i];
    p.row_end = cuts[i + 1];
    kernel.run(&p);
  }
}

}  // namespace requant::window_testing
