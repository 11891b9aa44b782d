#include "quant/observers/moments.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/checked_math.h"
#include "base/error.h"
#include "base/lcg.h"
#include "base/str_cat.h"
#include "ops/convolution/convolve.h"
#include "ops/infer_util.h"

namespace requant {
namespace {

constexpr int64_t kLargestFullK = 1200;
constexpr int64_t kLargestFullElements = int64_t{1} << 22;
/// The first samples contribute more patches, so that few samples suffice.
constexpr uint32_t kFirstSamples = 32;
/// The largest value of the first sample has 2^12 units: few enough to add up many products in 32
/// bits, while rounding to a unit is far below what is added to make matrices positive definite
/// (round_weights.cpp).
constexpr int kUnitBits = 12;

bool IsFull(const WeightMatrix& view) {
  return view.k <= kLargestFullK && view.groups * view.k * view.k <= kLargestFullElements;
}

/// Picks positions by the high bits of random numbers.
class PositionPicker {
 public:
  explicit PositionPicker(uint32_t seed) : random_{seed * 2654435761u + 12345u} {}
  int64_t Below(int64_t bound) {
    const uint32_t high = random_.Next() >> 8;
    const uint64_t wide = (static_cast<uint64_t>(high) << 24) | (random_.Next() >> 8);  // 48 bits
    return static_cast<int64_t>(wide % static_cast<uint64_t>(bound));
  }

 private:
  Lcg random_;
};

/// All of [0, total), or one pseudo-random position in each of `wanted` equal parts.
std::vector<int64_t> PickPositions(int64_t total, int64_t wanted, uint32_t seed) {
  std::vector<int64_t> positions;
  wanted = std::min(total, wanted);
  PositionPicker random(seed);
  for (int64_t i = 0; i < wanted; ++i) {
    const int64_t first = total / wanted * i + total % wanted * i / wanted;
    const int64_t end = total / wanted * (i + 1) + total % wanted * (i + 1) / wanted;
    positions.push_back(first + random.Below(end - first));
  }
  return positions;
}

/// One column of four patches: the address of its elements, channel by channel.
struct Column {
  std::array<const float*, 4> at;
  std::array<int64_t, 4> step;  // 0 for padding
};

constexpr float kPadding = 0;

}  // namespace

InputMoments::InputMoments(const Node& node, QuantRule rule)
    : node_(node),
      rule_(rule),
      view_(ViewWeights(node, rule)),
      full_(IsFull(view_)),
      sums_(view_.groups, view_.k, full_),
      quad_(CheckedMul(CheckedMul(static_cast<size_t>(view_.groups), static_cast<size_t>(view_.k)),
                       4)) {}

/// The number of patches to take from the sample, a multiple of four. Products cost patches * k^2
/// and gathering costs patches * k, so that small matrices get more patches for the same time. The
/// matrices of groups are small, but many.
int64_t InputMoments::PatchesOf(uint32_t sample) const {
  const int64_t k = view_.k;
  const int64_t most = view_.groups > 1 ? 16
                       : k <= 64        ? 256
                       : k <= 160       ? 128
                       : k <= 300       ? 64
                       : k <= 600       ? 32
                                        : 16;
  return sample < kFirstSamples ? most : most / 4;
}

void InputMoments::Observe(const Tensor& input, uint32_t sample, bool channels_last) {
  if (view_.k == 0) return;
  if (unit_ == 0) Probe(input);
  if (rule_ == QuantRule::kConv) {
    GatherConv(input, sample, channels_last);
  } else {
    Gather(input, sample);
  }
}

void InputMoments::Probe(const Tensor& input) {
  float largest = 0;
  for (const float x : input.values<float>()) largest = std::max(largest, std::fabs(x));
  int exponent = 0;
  if (largest > 0) std::frexp(largest, &exponent);
  // The reciprocal must be a float as well.
  unit_ = std::ldexp(1.0, std::max(exponent - kUnitBits, -120));
}

void InputMoments::Merge(const InputMoments& later) {
  if (later.count() == 0) return;
  if (count() > 0 && later.unit_ != unit_) {
    Fail(ErrorCode::kInvalidArgument, "the shards have not probed the same first sample",
         {.node = node_.name, .hint = "probe sample 0 in every shard that does not begin with it"});
  }
  unit_ = later.unit_;
  sums_.Add(later.sums_);
}

void InputMoments::Fields(StateBytes& state) {
  state.Value(unit_);
  try {
    sums_.Fields(state);
  } catch (Error& error) {
    error.AddNode(node_.name);
    throw;
  }
}

void InputMoments::Gather(const Tensor& input, uint32_t sample) {
  const int64_t k = view_.k;
  if (input.rank() == 0 || input.shape().back() != k) {
    Fail(ErrorCode::kShapeMismatch,
         StrCat("the layer takes rows of ", k, " elements, not ", ShapeToString(input.shape())),
         {.node = node_.name});
  }
  const std::vector<int64_t> rows = PickPositions(input.count() / k, PatchesOf(sample), sample);
  for (size_t first = 0; first < rows.size(); first += 4) {
    const size_t count = std::min<size_t>(4, rows.size() - first);
    std::fill(quad_.begin(), quad_.end(), 0.0f);
    for (size_t lane = 0; lane < count; ++lane) {
      const float* row = input.data<float>() + rows[first + lane] * k;
      for (size_t i = 0; i < static_cast<size_t>(k); ++i) quad_[i * 4 + lane] = row[i];
    }
    sums_.Add(quad_, static_cast<int>(count), static_cast<float>(1 / unit_));
  }
}

/// One spatial dimension of a layer: output o and tap k read the input at (o * stride + k *
/// dilation - begin) / divisor, if that is an integer and inside. The dilation of a ConvTranspose
/// is negative.
struct InputMoments::Axis {
  int64_t input, output, kernel, stride, dilation, begin, divisor;
};

std::vector<InputMoments::Axis> InputMoments::AxesOf(const Tensor& input) const {
  const Shape& weights = node_.inputs[1]->constant.shape();
  std::vector<Axis> axes(weights.size() - 2);
  if (node_.Is(Op::kConvTranspose)) {
    const Geometry g = TransposedGeometry(node_.attributes, input.shape(), weights);
    for (size_t axis = 0; axis < axes.size(); ++axis) {
      const size_t at = 3 - axes.size() + axis;
      axes[axis] = {g.input[at],     g.output[at],     g.kernel[at], 1,
                    -g.dilation[at], -g.pad_begin[at], g.stride[at]};
    }
    return axes;
  }
  const Window window = ReadWindow(node_.attributes, {weights.begin() + 2, weights.end()});
  for (size_t axis = 0; axis < axes.size(); ++axis) {
    const int64_t size = input.dim(static_cast<int64_t>(axis) + 2);
    const WindowAxis placed = PlaceWindow(window, axis, size);
    axes[axis] = {size,
                  placed.output,
                  window.kernel[axis],
                  window.strides[axis],
                  window.dilations[axis],
                  placed.pad_begin,
                  1};
  }
  return axes;
}

void InputMoments::GatherConv(const Tensor& input, uint32_t sample, bool channels_last) {
  const auto spatial = static_cast<size_t>(node_.inputs[1]->constant.rank()) - 2;
  const int64_t channels = view_.groups * (view_.k / view_.taps);
  if (input.rank() != static_cast<int64_t>(spatial) + 2 || input.dim(1) != channels) {
    Fail(ErrorCode::kShapeMismatch,
         StrCat("the layer takes ", channels, " channels, not ", ShapeToString(input.shape())),
         {.node = node_.name});
  }
  const std::vector<Axis> axes = AxesOf(input);
  std::vector<int64_t> strides(spatial, 1);
  int64_t positions = input.dim(0);
  int64_t plane = 1;
  for (const Axis& axis : axes) {
    positions = CheckedMul64(positions, axis.output);
    plane = CheckedMul64(plane, axis.input);
  }
  for (size_t axis = spatial - 1; axis > 0; --axis) {
    strides[axis - 1] = strides[axis] * input.dim(static_cast<int64_t>(axis) + 2);
  }
  const auto taps = static_cast<size_t>(view_.taps);
  const int64_t pixel = channels_last ? channels : 1;  // distance of neighboring pixels
  const int64_t channel_step = channels_last ? 1 : plane;
  const std::vector<int64_t> picked = PickPositions(positions, PatchesOf(sample), sample);
  std::vector<int64_t> corner(spatial);
  std::vector<Column> columns(taps);
  for (size_t first = 0; first < picked.size(); first += 4) {
    const size_t count = std::min<size_t>(4, picked.size() - first);
    for (Column& column : columns) column = {{&kPadding, &kPadding, &kPadding, &kPadding}, {}};
    for (size_t lane = 0; lane < count; ++lane) {
      int64_t position = picked[first + lane];
      for (size_t axis = spatial; axis-- > 0;) {
        corner[axis] = (position % axes[axis].output) * axes[axis].stride - axes[axis].begin;
        position /= axes[axis].output;
      }
      const float* image = input.data<float>() + position * channels * plane;
      for (size_t tap = 0; tap < taps; ++tap) {
        auto rest = static_cast<int64_t>(tap);
        int64_t offset = 0;
        bool inside = true;
        for (size_t axis = spatial; axis-- > 0;) {
          const Axis& along = axes[axis];
          const int64_t at = corner[axis] + (rest % along.kernel) * along.dilation;
          rest /= along.kernel;
          inside = inside && at >= 0 && at % along.divisor == 0 && at / along.divisor < along.input;
          offset += at / along.divisor * strides[axis];
        }
        if (!inside) continue;
        columns[tap].at[lane] = image + offset * pixel;
        columns[tap].step[lane] = channel_step;
      }
    }
    for (size_t tap = 0; tap < taps; ++tap) {
      const Column column = columns[tap];
      float* to = quad_.data() + tap * 4;
      for (int64_t channel = 0; channel < channels; ++channel, to += taps * 4) {
        for (size_t lane = 0; lane < 4; ++lane) {
          to[lane] = column.at[lane][channel * column.step[lane]];
        }
      }
    }
    sums_.Add(quad_, static_cast<int>(count), static_cast<float>(1 / unit_));
  }
}

double InputMoments::FactorOf(int64_t group, int64_t column) const {
  if (factors_.empty()) return 1;
  return factors_[static_cast<size_t>(group * (view_.k / view_.taps) + column / view_.taps)];
}

std::vector<double> InputMoments::Mean(int64_t group) const {
  std::vector<double> mean(static_cast<size_t>(view_.k));
  if (count() == 0) return mean;
  for (size_t i = 0; i < mean.size(); ++i) {
    const auto at = static_cast<int64_t>(i);
    mean[i] = FactorOf(group, at) * (unit_ * sums_.Sum(group, at) / static_cast<double>(count()));
  }
  return mean;
}

std::vector<double> InputMoments::Diagonal(int64_t group, bool centered) const {
  std::vector<double> diagonal(static_cast<size_t>(view_.k));
  if (count() == 0) return diagonal;
  const auto n = static_cast<double>(count());
  for (size_t i = 0; i < diagonal.size(); ++i) {
    const auto at = static_cast<int64_t>(i);
    const double factor = FactorOf(group, at);
    const double mean = centered ? unit_ * sums_.Sum(group, at) / n : 0;
    const double square = unit_ * unit_ * sums_.Square(group, at) / n - mean * mean;
    diagonal[i] = factor * factor * std::max(0.0, square);
  }
  return diagonal;
}

std::vector<double> InputMoments::Matrix(int64_t group, bool centered) const {
  const auto k = static_cast<size_t>(view_.k);
  std::vector<double> out(k * k);
  if (!full_ || count() == 0) return out;
  const auto n = static_cast<double>(count());
  const std::vector<double> mean = centered ? Mean(group) : std::vector<double>(k);
  for (size_t i = 0; i < k; ++i) {
    const double row = FactorOf(group, static_cast<int64_t>(i));
    for (size_t j = i; j < k; ++j) {
      const double factor = row * FactorOf(group, static_cast<int64_t>(j));
      const double product = sums_.Product(group, static_cast<int64_t>(i), static_cast<int64_t>(j));
      out[i * k + j] = out[j * k + i] = factor * (unit_ * unit_ * product / n) - mean[i] * mean[j];
    }
  }
  return out;
}

}  // namespace requant
