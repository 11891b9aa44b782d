#include "quant/recover/moments.h"

#include <algorithm>
#include <cmath>

#include "base/checked_math.h"
#include "base/error.h"
#include "base/str_cat.h"
#include "ops/infer_util.h"

namespace requant {
namespace {

constexpr int64_t kLargestFullK = 1200;
constexpr int64_t kLargestFullElements = int64_t{1} << 22;
/// So many samples are looked at, and of those behind them one in so many: by then sums hardly
/// change, and gathering patches costs more than running the network.
constexpr uint32_t kEverySample = 32;
constexpr uint32_t kThenOneIn = 8;

/// Numerical Recipes' 32-bit LCG; the high bits are good enough to pick positions.
class Lcg {
 public:
  explicit Lcg(uint32_t seed) : state_(seed * 2654435761u + 12345u) {}
  int64_t Below(int64_t bound) {
    state_ = state_ * 1664525u + 1013904223u;
    const uint32_t high = state_ >> 8;
    state_ = state_ * 1664525u + 1013904223u;
    const uint64_t wide = (static_cast<uint64_t>(high) << 24) | (state_ >> 8);  // 48 bits
    return static_cast<int64_t>(wide % static_cast<uint64_t>(bound));
  }

 private:
  uint32_t state_;
};

/// All of [0, total), or `wanted` pseudo-random ones.
std::vector<int64_t> PickPositions(int64_t total, int64_t wanted, uint32_t seed) {
  std::vector<int64_t> positions;
  if (total <= wanted) {
    for (int64_t i = 0; i < total; ++i) positions.push_back(i);
    return positions;
  }
  Lcg random(seed);
  for (int64_t i = 0; i < wanted; ++i) positions.push_back(random.Below(total));
  return positions;
}

}  // namespace

InputMoments::InputMoments(const Node& node, QuantRule rule)
    : node_(node), rule_(rule), view_(ViewWeights(node, rule)) {
  const size_t elements =
      CheckedMul(static_cast<size_t>(view_.groups), static_cast<size_t>(view_.k));
  full_ = view_.k <= kLargestFullK && view_.groups * view_.k * view_.k <= kLargestFullElements;
  // The work per sample is patches * k^2: fewer patches of long ones.
  per_sample_ = view_.k <= 256 ? 64 : (view_.k <= 600 ? 32 : 16);
  full_limit_ = std::max<int64_t>(4096, 4 * view_.k);
  sum_.assign(elements, 0);
  squares_.assign(elements, 0);
  if (full_) {
    full_sum_.assign(elements, 0);
    full_matrix_.assign(CheckedMul(elements, static_cast<size_t>(view_.k)), 0);
  }
}

void InputMoments::Observe(const Tensor& input, uint32_t seed) {
  if (seed >= kEverySample && seed % kThenOneIn != 0) return;
  patches_.clear();
  if (rule_ == QuantRule::kConv) {
    GatherConv(input, seed);
  } else {
    Gather(input, seed);
  }
  if (sum_unit_ == 0) SetUnits();
  if (!probing_) Accumulate(seed);
}

void InputMoments::Probe(const Tensor& input) {
  probing_ = true;
  Observe(input, 0);
  probing_ = false;
}

/// 2^-34 of the largest sum of one sample: sums of 2^19 such samples stay exact.
void InputMoments::SetUnits() {
  double largest = 0;
  for (const float x : patches_) largest = std::max(largest, std::fabs(static_cast<double>(x)));
  int exponent = 0;
  if (largest > 0) std::frexp(largest * static_cast<double>(per_sample_), &exponent);
  sum_unit_ = std::ldexp(1.0, exponent - 34);
  if (largest > 0) std::frexp(largest * largest * static_cast<double>(per_sample_), &exponent);
  square_unit_ = std::ldexp(1.0, exponent - 34);
}

void InputMoments::Merge(const InputMoments& later) {
  if (later.count_ == 0) return;
  if (count_ > 0 && later.sum_unit_ != sum_unit_) {
    Fail(ErrorCode::kInvalidArgument, "the shards have not probed the same first sample",
         {.node = node_.name, .hint = "probe sample 0 in every shard that does not begin with it"});
  }
  sum_unit_ = later.sum_unit_;
  square_unit_ = later.square_unit_;
  const auto add = [](std::vector<double>& to, const std::vector<double>& from) {
    for (size_t i = 0; i < to.size(); ++i) to[i] += from[i];
  };
  add(sum_, later.sum_);
  add(squares_, later.squares_);
  add(full_sum_, later.full_sum_);
  add(full_matrix_, later.full_matrix_);
  count_ += later.count_;
  full_count_ += later.full_count_;
}

void InputMoments::Fields(StateBytes& state) {
  state.Value(count_);
  state.Value(full_count_);
  state.Value(sum_unit_);
  state.Value(square_unit_);
  const size_t elements = sum_.size();
  const size_t matrix = full_matrix_.size();
  state.List(sum_);
  state.List(squares_);
  state.List(full_sum_);
  state.List(full_matrix_);
  if (sum_.size() != elements || squares_.size() != elements || full_matrix_.size() != matrix) {
    Fail(ErrorCode::kInvalidArgument, "the calibration state is that of another network",
         {.node = node_.name});
  }
}

void InputMoments::Gather(const Tensor& input, uint32_t seed) {
  const int64_t k = view_.k;
  if (input.rank() == 0 || input.shape().back() != k) {
    Fail(ErrorCode::kShapeMismatch,
         StrCat("the layer takes rows of ", k, " elements, not ", ShapeToString(input.shape())),
         {.node = node_.name});
  }
  const float* data = input.data<float>();
  for (const int64_t row : PickPositions(k == 0 ? 0 : input.count() / k, per_sample_, seed)) {
    patches_.insert(patches_.end(), data + row * k, data + (row + 1) * k);
  }
}

void InputMoments::GatherConv(const Tensor& input, uint32_t seed) {
  const Tensor& weights = node_.inputs[1]->constant;
  const size_t spatial = static_cast<size_t>(weights.rank()) - 2;
  const int64_t channels = view_.groups * weights.dim(1);
  if (input.rank() != weights.rank() || input.dim(1) != channels) {
    Fail(ErrorCode::kShapeMismatch,
         StrCat("the layer takes ", channels, " channels, not ", ShapeToString(input.shape())),
         {.node = node_.name});
  }
  const Window window =
      ReadWindow(node_.attributes, {weights.shape().begin() + 2, weights.shape().end()});
  std::vector<int64_t> outputs, begins, strides(spatial, 1);
  int64_t positions = input.dim(0);
  int64_t plane = 1;
  for (size_t axis = 0; axis < spatial; ++axis) {
    const int64_t size = input.dim(static_cast<int64_t>(axis) + 2);
    const WindowAxis placed = PlaceWindow(window, axis, size);
    outputs.push_back(placed.output);
    begins.push_back(placed.pad_begin);
    positions = CheckedMul64(positions, placed.output);
    plane = CheckedMul64(plane, size);
  }
  for (size_t axis = spatial - 1; axis > 0; --axis) {
    strides[axis - 1] = strides[axis] * input.dim(static_cast<int64_t>(axis) + 2);
  }
  const int64_t taps = weights.dim(1) == 0 ? 0 : view_.k / weights.dim(1);
  const float* data = input.data<float>();
  std::vector<int64_t> offsets(static_cast<size_t>(taps));
  for (int64_t position : PickPositions(positions, per_sample_, seed)) {
    std::vector<int64_t> corner(spatial);
    for (size_t axis = spatial; axis-- > 0;) {
      corner[axis] = (position % outputs[axis]) * window.strides[axis] - begins[axis];
      position /= outputs[axis];
    }
    for (int64_t tap = 0; tap < taps; ++tap) {
      int64_t rest = tap;
      int64_t offset = 0;
      for (size_t axis = spatial; axis-- > 0;) {
        const int64_t at = corner[axis] + (rest % window.kernel[axis]) * window.dilations[axis];
        rest /= window.kernel[axis];
        const bool inside = at >= 0 && at < input.dim(static_cast<int64_t>(axis) + 2);
        if (!inside) offset = -1;
        if (offset >= 0) offset += at * strides[axis];
      }
      offsets[static_cast<size_t>(tap)] = offset;
    }
    const float* image = data + position * channels * plane;
    size_t to = patches_.size();
    patches_.resize(to + static_cast<size_t>(channels * taps));
    for (int64_t channel = 0; channel < channels; ++channel, image += plane) {
      for (const int64_t offset : offsets) patches_[to++] = offset < 0 ? 0.0f : image[offset];
    }
  }
}

void InputMoments::Accumulate(uint32_t sample) {
  const auto k = static_cast<size_t>(view_.k);
  const auto groups = static_cast<size_t>(view_.groups);
  if (k == 0) return;
  const size_t length = groups * k;
  const size_t patches = patches_.size() / length;
  const double per_sum = 1 / sum_unit_;
  const double per_square = 1 / square_unit_;
  std::vector<double> sums(length), squares(length);
  for (size_t p = 0; p < patches; ++p) {
    const float* patch = patches_.data() + p * length;
    for (size_t i = 0; i < length; ++i) {
      const double x = static_cast<double>(patch[i]);
      sums[i] += x;
      squares[i] += x * x;
    }
  }
  for (size_t i = 0; i < length; ++i) {
    sum_[i] += std::nearbyint(sums[i] * per_sum);
    squares_[i] += std::nearbyint(squares[i] * per_square);
  }
  count_ += static_cast<int64_t>(patches);
  // By the sample's index, not by what this shard has seen.
  const uint32_t earlier =
      sample < kEverySample ? sample : kEverySample + (sample - kEverySample) / kThenOneIn;
  if (!full_ || static_cast<int64_t>(earlier * patches) >= full_limit_) return;
  full_count_ += static_cast<int64_t>(patches);
  std::vector<float> row(k);
  for (size_t group = 0; group < groups; ++group) {
    double* matrix = full_matrix_.data() + group * k * k;
    for (size_t i = 0; i < k; ++i) {
      std::fill(row.begin() + static_cast<std::ptrdiff_t>(i), row.end(), 0.0f);
      bool any = false;
      for (size_t p = 0; p < patches; ++p) {
        const float* patch = patches_.data() + p * length + group * k;
        const float x = patch[i];
        if (x == 0) continue;  // most are, behind a Relu
        any = true;
        for (size_t j = i; j < k; ++j) row[j] += x * patch[j];
      }
      if (!any) continue;
      double* to = matrix + i * k;
      for (size_t j = i; j < k; ++j) {
        to[j] += std::nearbyint(static_cast<double>(row[j]) * per_square);
      }
      full_sum_[group * k + i] += std::nearbyint(sums[group * k + i] * per_sum);
    }
  }
}

std::vector<double> InputMoments::Mean(int64_t group) const {
  std::vector<double> mean(static_cast<size_t>(view_.k));
  if (count_ == 0) return mean;
  for (size_t i = 0; i < mean.size(); ++i) {
    mean[i] = sum_unit_ * sum_[static_cast<size_t>(group) * mean.size() + i] /
              static_cast<double>(count_);
  }
  return mean;
}

std::vector<double> InputMoments::Diagonal(int64_t group, bool centered) const {
  std::vector<double> diagonal(static_cast<size_t>(view_.k));
  if (count_ == 0) return diagonal;
  const auto n = static_cast<double>(count_);
  for (size_t i = 0; i < diagonal.size(); ++i) {
    const size_t at = static_cast<size_t>(group) * diagonal.size() + i;
    const double mean = centered ? sum_unit_ * sum_[at] / n : 0;
    diagonal[i] = std::max(0.0, square_unit_ * squares_[at] / n - mean * mean);
  }
  return diagonal;
}

std::vector<double> InputMoments::Matrix(int64_t group, bool centered) const {
  const auto k = static_cast<size_t>(view_.k);
  std::vector<double> out(k * k);
  if (!full_ || full_count_ == 0) return out;
  const auto n = static_cast<double>(full_count_);
  const double* matrix = full_matrix_.data() + static_cast<size_t>(group) * k * k;
  const double* sum = full_sum_.data() + static_cast<size_t>(group) * k;
  for (size_t i = 0; i < k; ++i) {
    for (size_t j = i; j < k; ++j) {
      double value = square_unit_ * matrix[i * k + j] / n;
      if (centered) value -= (sum_unit_ * sum[i] / n) * (sum_unit_ * sum[j] / n);
      out[i * k + j] = out[j * k + i] = value;
    }
  }
  return out;
}

}  // namespace requant
