// Gradients of elementwise operators, and of rounding to a grid while steps learn: which elements
// stay off the grid, and what the others pass on. Rounding passes gradients straight through inside
// its range (Bengio et al. 2013); steps learn as in LSQ (Esser et al. 2020, arXiv 1902.08153).
// Signs of activations pass them on within one standard deviation of their threshold, as in
// XNOR-Net (Rastegari et al. 2016, arXiv 1603.05279).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "gradient/kernel.h"
#include "quant/config/tensor_quantization_config.h"
#include "tensor/shape.h"

namespace requant {

/// A grid with one scale: integers low..high, less the offset; or bipolar, -1 and 1.
struct GridRange {
  float scale, low, high;
  bool bipolar = false;
  float threshold = 0;  // of bipolar codes, in steps
  float window = 0;     // of bipolar codes: steps from the threshold within which gradients pass
};

/// The grid of an activation's config.
GridRange ActivationGrid(const TensorQuantizationConfig& config);
/// The grid of a channel of weights. Bipolar ones pass on all gradients, as in DoReFa-Net (Zhou et
/// al. 2016, arXiv 1606.06160).
GridRange WeightGrid(const TensorQuantizationConfig& config, size_t channel);

/// Restores half of the elements to their values before the grid (QDrop: Wei et al. 2022, arXiv
/// 2203.05740); `mix` determines which.
void KeepDropped(uint32_t mix, const float* before, int64_t count, float* values);

/// What the kernel of GridGradient() takes for a grid that is not bipolar.
gradient::ElementParams ParamsOfGrid(const GridRange& grid);

/// Writes d loss / d x to `dx`, from d loss / d y of y = x on its grid. With `mix`, elements that
/// KeepDropped() kept off the grid pass everything on. Returns d loss / d log(scale), or 0 without
/// step_learns.
double GridGradient(const float* x, const float* dy, int64_t count, const GridRange& grid,
                    std::optional<uint32_t> mix, bool step_learns, float* dx);

/// to += factor * from
void AddGradient(const float* from, float factor, int64_t count, float* to);

/// For every element of the result, the index of its element in a broadcast operand.
std::vector<int64_t> BroadcastIndex(const Shape& from, const Shape& to);

}  // namespace requant
