#pragma once
// The tables of convolution kernels: explicit rows, the reference first.
#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/conv/kernel.h"
#include "kernels/half_weights.h"

namespace requant {

/// How to read the weights that the model holds. Strides (in elements) make OIHW, OHWI and the [K,
/// N] or [N, K] matrix of a Gemm readable without a transposition. Sizes: out_c = groups * (out
/// channels per group); in_c_per_group inputs per output.
struct ConvWeightsLayout {
  int32_t out_c = 1, in_c_per_group = 1, kernel_h = 1, kernel_w = 1, groups = 1;
  int64_t stride_o = 0, stride_i = 0, stride_h = 0, stride_w = 0;
};

/// The layout of a dense ONNX weight tensor [out_c, in_c / groups, kernel_h, kernel_w].
ConvWeightsLayout OihwLayout(int32_t out_c, int32_t in_c_per_group, int32_t kernel_h,
                             int32_t kernel_w, int32_t groups);

struct ConvF32Weights {
  ConvWeightsLayout layout;
  const float* data =
      nullptr;  ///< null where `half` has the weights; rows that take no halves get it
  const float* bias = nullptr;  ///< out_c values or null
  HalfWeights half = {};
};

struct ConvQ8Facts;  // kernels/conv/facts.h

struct ConvQ8Weights {
  ConvWeightsLayout layout;
  const void* data = nullptr;
  bool is_signed = true;                 ///< int8, else uint8
  const int32_t* zero_points = nullptr;  ///< out_c values, or null for 0
  const int32_t* bias = nullptr;         ///< out_c values or null
  /// The codes that the input can hold, including its zero point (the padding).
  int32_t input_lo = -128, input_hi = 255;
  bool dynamic = false;  ///< weights change at run time, so packed values must allow any codes
  /// The facts by which rows are chosen where `data` is null; null where rows read the weights.
  const ConvQ8Facts* facts = nullptr;
};

namespace conv {
/// Packs finite weights of 16 bits (HalvesFit).
void HalvesF32Pack(const ConvF32Weights& weights, void* packed);
/// Whether all weights are finite.
bool HalvesFit(const HalfWeights& weights);

/// Writes the one tensor of the weights, as the model holds it, from its packed form.
using F32Unpack = void (*)(const ConvF32Weights& weights, const void* packed, size_t, void* to);
/// The inverse of a function that packs; nullptr for the reference row's, which nobody needs.
F32Unpack UnpackOf(void (*pack_weights)(const ConvF32Weights& weights, void* packed));

/// As F32Unpack, for codes. Of the pointers in `weights` it reads the zero points.
using Q8Unpack = void (*)(const ConvQ8Weights& weights, const void* packed, void* to);
/// The inverse of a function that packs; nullptr for rows of lines, of Winograd's tiles and of few
/// bits, and for the reference row.
Q8Unpack UnpackOf(void (*pack_weights)(const ConvQ8Weights& weights, void* packed));
}  // namespace conv

/// The order in which a row visits the output pixels.
enum class ConvWalk : int32_t {
  kRows,       ///< one row after the other
  kPanels,     ///< in panels: windows of ConvGeometry::panel_rows rows are gathered at a time
  kTwoLines,   ///< in tiles of two lines
  kFourLines,  ///< in tiles of four lines
};

struct ConvF32Kernel {
  const char* name;
  const char* isa;  ///< "scalar" or "simd128"
  bool (*supports)(const ConvGeometry& geometry);
  bool (*is_preferred)(const ConvGeometry& geometry);  ///< as in ConvQ8Kernel
  ConvWalk walk;
  size_t (*packed_size)(const ConvF32Weights& weights);
  void (*pack_weights)(const ConvF32Weights& weights, void* packed);  ///< 16-byte aligned
  size_t (*workspace_size)(const ConvGeometry& geometry);
  void (*run)(const ConvF32Params* params);
  /// Whether the row packs ConvF32Weights::half as they are (float/halves.h).
  bool takes_halves() const { return pack_weights == conv::HalvesF32Pack; }
  /// The inverse of pack_weights, or nullptr. It reads no pointers of the weights.
  conv::F32Unpack unpack_weights() const { return conv::UnpackOf(pack_weights); }
};

struct ConvQ8Kernel {
  const char* name;
  /// "scalar", "simd128", or "relaxed": exact everywhere, fast only with relaxed SIMD
  const char* isa;
  /// names what this machine lacks for the row, or gives null; a null pointer lacks nothing
  const char* (*missing)();
  /// Whether the row supports the weights and geometry and, where it does, whether it is usually
  /// faster than the rows before it. A supported row that is not preferred runs only when it is
  /// forced or tuned.
  bool (*supports)(const ConvQ8Weights& weights, const ConvGeometry& geometry);
  bool (*is_preferred)(const ConvQ8Weights& weights, const ConvGeometry& geometry);
  ConvWalk walk;
  size_t (*packed_size)(const ConvQ8Weights& weights);
  void (*pack_weights)(const ConvQ8Weights& weights, void* packed);  ///< 16-byte aligned
  size_t (*workspace_size)(const ConvGeometry& geometry);
  void (*run)(const ConvQ8Params* params);
  /// The inverse of pack_weights, or nullptr.
  conv::Q8Unpack unpack_weights() const { return conv::UnpackOf(pack_weights); }
};

/// The rows of the tables. Sizes are in bytes; packed_size and workspace_size throw Error when they
/// overflow.
std::span<const ConvF32Kernel> ConvF32Kernels();
std::span<const ConvQ8Kernel> ConvQ8Kernels();

/// Bits that distinguish the weights less their zero points: 1 for {-1, 1}, 4 for -8..7; at most 8.
int32_t ConvQ8WeightBits(const ConvQ8Weights& weights);

/// The largest |accumulator| of each output channel, bias included, for inputs that less their zero
/// point are at most max_abs_input: the `bounds` of PrepareRequantize.
void ConvQ8AccumulatorBounds(const ConvQ8Weights& weights, int32_t max_abs_input, int64_t* bounds);

}  // namespace requant
