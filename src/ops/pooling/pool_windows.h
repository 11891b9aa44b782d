// Helpers that the references of pools share: walks over windows, float and integer.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "ops/op.h"
#include "ops/shape_rules.h"

namespace requant {

/// The taps [first, last) of a window that lie in [low, high), for a window starting at `start`.
inline Range InsideTaps(int64_t start, int64_t kernel, int64_t dilation, int64_t low,
                        int64_t high) {
  const int64_t first = start >= low ? 0 : (low - start + dilation - 1) / dilation;
  const int64_t last =
      start >= high ? 0 : std::min(kernel, (high - start + dilation - 1) / dilation);
  return {std::min(first, kernel), std::max(std::min(first, kernel), last)};
}

/// Calls `body(taps, starts, index)` for every output of a plane: the taps inside the input, the
/// window's first element along each dimension (maybe negative), and the output's index.
template <typename Body>
void ForEachWindow(const Geometry& g, Body&& body) {
  std::array<Range, 3> taps;
  std::array<int64_t, 3> start;
  const auto place = [&](size_t axis, int64_t output) {
    start[axis] = output * g.stride[axis] - g.pad_begin[axis];
    taps[axis] = InsideTaps(start[axis], g.kernel[axis], g.dilation[axis], 0, g.input[axis]);
  };
  int64_t index = 0;
  for (int64_t d = 0; d < g.output[0]; ++d) {
    place(0, d);
    for (int64_t h = 0; h < g.output[1]; ++h) {
      place(1, h);
      for (int64_t w = 0; w < g.output[2]; ++w) {
        place(2, w);
        body(taps, start, index++);
      }
    }
  }
}

/// Calls `body(offset)` for every input element of a window.
template <typename Body>
void ForEachTap(const Geometry& g, const std::array<Range, 3>& taps,
                const std::array<int64_t, 3>& start, Body&& body) {
  for (int64_t kd = taps[0].first; kd < taps[0].last; ++kd) {
    const int64_t d = start[0] + kd * g.dilation[0];
    for (int64_t kh = taps[1].first; kh < taps[1].last; ++kh) {
      const int64_t line = d * g.input[1] + start[1] + kh * g.dilation[1];
      for (int64_t kw = taps[2].first; kw < taps[2].last; ++kw) {
        body(line * g.input[2] + start[2] + kw * g.dilation[2]);
      }
    }
  }
}

/// The number of taps by which AveragePool divides: those inside the input or, with include_pad,
/// inside the padded input (an overhang of ceil_mode never counts; AveragePool-19, as PyTorch).
inline double AverageDivisor(const Geometry& g, const std::array<Range, 3>& taps,
                             const std::array<int64_t, 3>& start, bool include_pad) {
  double divisor = 1;
  for (size_t axis = 0; axis < 3; ++axis) {
    Range range = taps[axis];
    if (include_pad) {
      range = InsideTaps(start[axis], g.kernel[axis], g.dilation[axis], -g.pad_begin[axis],
                         g.input[axis] + g.pad_end[axis]);
    }
    divisor *= static_cast<double>(range.last - range.first);
  }
  return divisor;
}

/// Whether every window of a pool contains an element of its input, as far as that is known.
bool WindowsHoldData(const AttributeMap& attributes, const std::optional<SymbolicShape>& x);

/// The data of an evaluation: the output tensor, the geometry and the number of planes.
struct PoolJob {
  Tensor out;
  Geometry geometry;
  int64_t planes;
};
PoolJob StartPool(const EvalContext& context);

/// Calls `reduce(first element, count)` for every plane and stores the results.
template <typename T, typename Reduce>
Tensor ReducePlanes(const Tensor& x, Reduce&& reduce) {
  const ValueType type{x.dtype(), GlobalPoolOutputShape(ToSymbolic(x.shape()))};
  Tensor out(x.dtype(), type.StaticShape());
  const int64_t area = out.count() > 0 ? x.count() / out.count() : 0;
  for (int64_t i = 0; i < out.count(); ++i) {
    out.data<T>()[i] = reduce(x.data<T>() + i * area, area);
  }
  return out;
}

/// Inference of float pools: over windows, and over whole planes.
void InferFloatPool(InferContext& context);
void InferGlobalFloat(InferContext& context);

}  // namespace requant
