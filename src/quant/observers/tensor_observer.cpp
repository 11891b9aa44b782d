#include "quant/observers/tensor_observer.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "base/str_cat.h"
#include "quant/grid/affine.h"
#include "quant/observers/scan.h"

namespace requant {
namespace {

[[noreturn]] void FailUnseen(size_t pass) {
  Fail(ErrorCode::kInvalidArgument, StrCat("pass ", pass, " has seen no tensor"),
       {.value = "pass", .hint = "show every tensor in each pass"});
}

}  // namespace

void ObserveChannels(std::span<const std::unique_ptr<Observer>> channels, int axis, int pass,
                     const Tensor& tensor) {
  const ChannelView view = ViewChannels(tensor.shape(), axis);
  const std::span<const float> values = tensor.values<float>();
  const auto inner = static_cast<size_t>(view.inner);
  for (size_t at = 0; at < values.size(); at += inner) {
    Observer& observer = *channels[at / inner % channels.size()];
    if (pass < observer.passes()) observer.Observe(pass, values.subspan(at, inner), view.inner);
  }
}

TensorObserver::TensorObserver(const TensorSettings& settings) : settings_(settings) {
  CheckSettings(settings, false, "an observer", "options");
  ApplySettings(settings, false, config_);
  const std::unique_ptr<Observer> probe = MakeObserver(config_);
  if (config_.per_channel() && config_.observer == "auto") {
    Fail(ErrorCode::kInvalidArgument, "observer 'auto' is per tensor, for channels",
         {.value = "options.perChannel", .hint = "use mse for activations per channel"});
  }
  seen_.assign(static_cast<size_t>(probe->passes()), 0);
  if (!config_.per_channel()) MakeChannels(1);
}

void TensorObserver::MakeChannels(size_t count) {
  if (channels_.empty()) {
    for (size_t i = 0; i < count; ++i) channels_.push_back(MakeObserver(config_));
  }
  if (channels_.size() == count) return;
  Fail(ErrorCode::kShapeMismatch,
       StrCat("the tensor has ", count, " channels here and ", channels_.size(),
              " in earlier samples"),
       {.value = "tensor", .hint = "quantize it per tensor"});
}

void TensorObserver::Observe(int pass, const Tensor& tensor) {
  if (pass < 0 || pass >= passes()) {
    Fail(ErrorCode::kInvalidArgument, StrCat("there is no pass ", pass),
         {.value = "pass", .hint = StrCat("the passes are 0 to ", passes() - 1)});
  }
  const auto at = static_cast<size_t>(pass);
  if (at + 1 < seen_.size() && seen_[at + 1] > 0) {
    Fail(ErrorCode::kInvalidArgument, StrCat("pass ", pass, " is over"),
         {.value = "pass", .hint = "reset the observer"});
  }
  if (at > 0 && seen_[at - 1] == 0) {
    FailUnseen(at - 1);
  }
  if (tensor.dtype() != DType::kFloat32) {
    Fail(ErrorCode::kTypeMismatch,
         StrCat("the tensor is ", DTypeName(tensor.dtype()), ", not float32"), {.value = "tensor"});
  }
  const std::span<const float> values = tensor.values<float>();
  for (size_t i = 0; i < values.size(); ++i) {
    if (std::isfinite(values[i])) continue;
    Fail(ErrorCode::kInvalidArgument,
         StrCat("the tensor is ", std::isnan(values[i]) ? "NaN" : "infinite", " at index ", i),
         {.value = "tensor", .hint = "remove the sample or repair the model"});
  }
  if (config_.per_channel()) {
    if (config_.axis >= tensor.rank()) {
      Fail(ErrorCode::kShapeMismatch, StrCat("the tensor", " has no axis ", config_.axis),
           {.value = "tensor", .hint = "choose another axis"});
    }
    MakeChannels(static_cast<size_t>(tensor.dim(config_.axis)));
    ObserveChannels(channels_, config_.axis, pass, tensor);
  } else if (!values.empty()) {
    channels_[0]->Observe(pass, values, tensor.rank() == 0 ? 1 : tensor.shape().back());
  }
  for (const auto& channel : channels_) {
    if (pass < channel->passes()) channel->EndSample(pass);
  }
  ++seen_[at];
}

void TensorObserver::Merge(const TensorObserver& later) {
  const auto pass_of = [](const TensorObserver& one) {
    size_t pass = 0;
    while (pass + 1 < one.seen_.size() && one.seen_[pass + 1] > 0) ++pass;
    return pass;
  };
  const size_t pass = pass_of(*this);
  bool same = later.passes() == passes() && config_.policy == later.config_.policy &&
              config_.bits == later.config_.bits && config_.axis == later.config_.axis &&
              config_.quant_min == later.config_.quant_min &&
              config_.quant_max == later.config_.quant_max &&
              config_.rounding == later.config_.rounding &&
              config_.formula == later.config_.formula &&
              config_.small_float.exponent_bits == later.config_.small_float.exponent_bits;
#define REQUANT_OBSERVER_OPTION(type, field, name, standard) \
  same = same && config_.field == later.config_.field;
#include "quant/options.inc"
  if (!same) {
    Fail(ErrorCode::kInvalidArgument, "only observers of the same kind can be merged",
         {.value = "other", .hint = "give them the same options"});
  }
  if (pass != pass_of(later)) {
    Fail(ErrorCode::kInvalidArgument,
         StrCat("the observers are in pass ", pass, " and ", pass_of(later)),
         {.value = "other",
          .hint = "merge the first pass of all observers before the second pass begins"});
  }
  if (later.channels_.empty()) return;
  MakeChannels(later.channels_.size());
  for (size_t i = 0; i < channels_.size(); ++i) {
    channels_[i]->Merge(*later.channels_[i], static_cast<int>(pass));
  }
  seen_[pass] += later.seen_[pass];
}

TensorObserver TensorObserver::Clone() const {
  TensorObserver copy(settings_);
  copy.seen_ = seen_;
  if (channels_.empty()) return copy;
  copy.MakeChannels(channels_.size());
  for (int pass = 0; pass < passes(); ++pass) {
    for (size_t i = 0; i < channels_.size(); ++i) {
      StateBytes out;
      channels_[i]->Fields(out, pass);
      const std::vector<uint8_t> bytes = out.Take();
      StateBytes in(bytes);
      copy.channels_[i]->Fields(in, pass);
    }
  }
  return copy;
}

void TensorObserver::Reset() {
  channels_.clear();
  std::fill(seen_.begin(), seen_.end(), 0);
  if (!config_.per_channel()) MakeChannels(1);
}

void TensorObserver::CheckPasses() const {
  for (size_t pass = 0; pass < seen_.size(); ++pass) {
    if (seen_[pass] > 0) continue;
    FailUnseen(pass);
  }
}

std::vector<Range> TensorObserver::Ranges() const {
  CheckPasses();
  std::vector<Range> ranges;
  for (const auto& channel : channels_) ranges.push_back(channel->Get());
  return ranges;
}

TensorQuantizationConfig TensorObserver::Grid() const {
  TensorQuantizationConfig grid = config_;
  grid.range_min = grid.range_max = 0;
  for (const Range& range : Ranges()) {
    grid.range_min = std::min(grid.range_min, range.min);
    grid.range_max = std::max(grid.range_max, range.max);
    const Affine affine = AffineOfActivation(range.min, range.max, grid);
    grid.scale.push_back(affine.scale);
    grid.offset.push_back(affine.offset);
    grid.threshold = affine.threshold;
  }
  return grid;
}

}  // namespace requant
