// What the quantizer sees of the samples: observers by slot, moments by layer.
#include "quant/calibrate/calibration.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/str_cat.h"
#include "quant/assign/assign.h"
#include "quant/graph/masks.h"
#include "quant/graph/soi.h"
#include "quant/graph/statistics.h"
#include "quant/grid/affine.h"
#include "quant/observers/tensor_observer.h"
#include "quant/sim/simulator.h"

namespace requant {
namespace {

constexpr int64_t kKeptMegabytes = 96;  // of kept samples that nobody asked for
constexpr int64_t kSamplesOfAnalysis = 8;

/// 4 log2 of the root mean square of what is not 0, over some thousand values; nothing for zeros.
std::optional<int> PowerOf(std::span<const float> values) {
  constexpr size_t kLooks = 4096;
  const size_t step = std::max<size_t>(1, values.size() / kLooks);
  double sum = 0;
  int64_t count = 0;
  for (size_t i = 0; i < values.size(); i += step) {
    const auto x = static_cast<double>(values[i]);
    sum += x * x;
    count += x != 0;
  }
  if (!(sum > 0)) return std::nullopt;
  return static_cast<int>(std::lround(2 * std::log2(sum / static_cast<double>(count))));
}

/// A copy in ONNX's order.
Tensor ChannelsFirst(const Tensor& tensor) {
  Tensor out(tensor.dtype(), tensor.shape());
  if (tensor.count() == 0) return out;
  const float* from = tensor.data<float>();
  const int64_t channels = tensor.dim(1);
  const int64_t plane = tensor.count() / tensor.dim(0) / channels;
  for (int64_t image = 0; image < tensor.dim(0); ++image) {
    float* to = out.data<float>() + image * channels * plane;
    for (int64_t pixel = 0; pixel < plane; ++pixel) {
      for (int64_t c = 0; c < channels; ++c) to[c * plane + pixel] = *from++;
    }
  }
  return out;
}

/// The bytes that kept samples may take.
size_t RoomOfSamples(const QuantizeOptions& options) {
  const int64_t own = options.recover_samples > 0 ? kRecoverMegabytes : kKeptMegabytes;
  const int64_t asked = options.recover_memory;
  return static_cast<size_t>(asked > 0 ? asked : own) << 20;
}

}  // namespace

Calibration::Calibration(Graph& graph, QuantizationRecord& record, const QuantizeOptions& options,
                         const RecoveryMethods& methods)
    : graph_(graph),
      record_(record),
      options_(options),
      methods_(methods),
      lengths_(graph),
      wanted_samples_(methods.samples()) {
  for (const RecoveryRow* row : methods.At(RecoveryStage::kMeasure)) {
    std::unique_ptr<SampleRewriter> rewriter = row->measure(graph, record);
    if (rewriter->passes() == 0) {
      WarnOfIdle(row->name, options, record);
      continue;
    }
    rewritings_.push_back({row, std::move(rewriter), first_pass_});
    first_pass_ = rewritings_.back().end_pass();
  }
  const std::set<const Value*> soi = ShapeOrIndexValues(graph);
  for (const auto& [value, fill] : FindMasks(graph, soi, FindStatistics(graph, soi)).filled) {
    filled_[value->name] = fill;
  }
  PlanObservers();
  PlanMoments();
}

void Calibration::PlanObservers() {
  int passes = 1;
  for (size_t i = 0; i < record_.configs.size(); ++i) {
    const TensorQuantizationConfig& config = record_.configs[i];
    if (config.state != QuantizationState::kInitial) continue;
    const Value* value = graph_.FindValue(config.value);
    if (value == nullptr || value->is_constant()) continue;
    const auto index = static_cast<int>(i);
    Watch& watch = seen_.slots[index];
    watched_[config.value].push_back(index);
    if (Given(index)) continue;
    const auto observer = MakeObserver(config);
    passes = std::max(passes, observer->passes());
    wanted_samples_ = std::max(wanted_samples_, observer->wanted_samples());
    if (!config.per_channel()) MakeChannels(index, watch, 1);
  }
  TensorQuantizationConfig plain;
  const ValuesAroundConcats values = FindValuesAroundConcats(graph_, record_);
  for (const Value* value : values.whole) around_[value->name] = MakeObserver(plain);
  for (const auto& [value, axis] : values.by_channel) {
    by_channel_.emplace(value->name, ChannelRanges(axis));
  }
  if (options_.analyze) wanted_samples_ = std::max(wanted_samples_, kSamplesOfAnalysis);
  if (options_.AsksForNarrow()) wanted_samples_ = std::max(wanted_samples_, kSamplesOfNarrowing);
  samples_.assign(static_cast<size_t>(first_pass_) + static_cast<size_t>(passes), 0);
  for (const auto& [value, fixed] : options_.scales) {
    if (graph_.FindValue(value) == nullptr) {
      record_.warnings.push_back(
          StrCat("a scale was given for '", value, "', which is no value of the network: ignored"));
    }
  }
}

void Calibration::MakeChannels(int index, Watch& watch, size_t count) {
  if (watch.channels.empty()) {
    for (size_t i = 0; i < count; ++i) watch.channels.push_back(MakeObserver(Config(index)));
  }
  if (watch.channels.size() == count) return;
  const std::string& value = Config(index).value;
  Fail(ErrorCode::kShapeMismatch,
       StrCat("value '", value, "' has ", count, " channels here and ", watch.channels.size(),
              " in earlier samples"),
       {.value = value, .hint = "quantize it per tensor"});
}

void Calibration::PlanMoments() {
  if (!methods_.Any(RecoveryStage::kRound) && !methods_.Any(RecoveryStage::kCorrect) &&
      !options_.AsksForNarrow()) {
    return;
  }
  for (const auto& node : graph_.nodes()) {
    const OperatorQuantization& op = record_.operators.at(node->name);
    if (!op.quantized || WeightSlot(*node, op.rule) < 0) continue;
    auto made = std::make_unique<InputMoments>(*node, op.rule);
    moments_of_[node->inputs[0]->name].push_back(made.get());
    seen_.moments[node->name] = std::move(made);
  }
}

void Calibration::CheckPass(int pass) const {
  if (finished_) {  // ranges became scales
    Fail(ErrorCode::kInvalidArgument, "the calibration is finished: it takes no more samples",
         {.hint = "begin another"});
  }
  if (pass >= 0 && static_cast<size_t>(pass) < samples_.size()) return;
  Fail(ErrorCode::kInvalidArgument, StrCat("there is no calibration pass ", pass),
       {.hint = StrCat("the passes are 0 to ", samples_.size() - 1)});
}

void Calibration::CheckSamples() const {
  const bool needless = seen_.moments.empty() && seen_.slots.empty();
  const bool all_given =
      !seen_.slots.empty() && std::all_of(seen_.slots.begin(), seen_.slots.end(),
                                          [this](const auto& slot) { return Given(slot.first); });
  const bool jobs = methods_.Any(RecoveryStage::kChoose) || methods_.Any(RecoveryStage::kLearn);
  for (size_t pass = 0; pass < samples_.size(); ++pass) {
    if (samples_[pass] > 0 || needless || (all_given && !jobs)) continue;
    Fail(ErrorCode::kInvalidArgument, StrCat("calibration pass ", pass, " has seen no sample"),
         {.hint = "give at least one calibration sample; some hundred are better"});
  }
}

Calibration::Rewriting* Calibration::RewritingIn(int pass) {
  for (Rewriting& one : rewritings_) {
    if (pass >= one.first_pass && pass < one.end_pass()) return &one;
  }
  return nullptr;
}

/// By the methods whose passes are over.
void Calibration::RewriteBefore(int pass) {
  bool any = false;
  for (Rewriting& one : rewritings_) {
    if (one.applied || one.end_pass() > pass) continue;
    one.applied = any = true;
    const SampleRewriter::Result result = one.rewriter->Apply();
    record_.recovery.push_back({one.row->name, result.before_db, result.after_db, result.detail});
  }
  if (!any || pass < first_pass_ || seen_.moments.empty() || seen_.samples.empty()) return;
  // Every shard has the first sample: the units of exact sums come from it.
  Simulator simulator(graph_, record_);
  Values values = simulator.Start(seen_.samples[0]);
  simulator.Run(values, SimMode::kFloat, 0, simulator.nodes().size(), false);
  for (const auto& [name, layers] : moments_of_) {
    const auto found = values.find(graph_.FindValue(name));
    if (found == values.end()) continue;
    for (InputMoments* layer : layers) layer->Probe(found->second);
  }
}

bool Calibration::wants_sample(int pass) const {
  CheckPass(pass);
  for (const Rewriting& one : rewritings_) {
    if (pass < one.first_pass || pass >= one.end_pass()) continue;
    return one.rewriter->Wants(pass - one.first_pass,
                               first_sample_ + samples_[static_cast<size_t>(pass)]);
  }
  return true;
}

std::vector<std::string> Calibration::observed_values(int pass) {
  CheckPass(pass);
  RewriteBefore(pass);
  if (const Rewriting* one = RewritingIn(pass)) {
    return one->rewriter->Values(pass - one->first_pass);
  }
  pass -= first_pass_;
  std::vector<std::string> names;
  for (const auto& [name, configs] : watched_) {
    const bool needed = std::any_of(configs.begin(), configs.end(), [&](int config) {
      return !Given(config) && MakeObserver(Config(config))->passes() > pass;
    });
    if (needed) names.push_back(name);
  }
  if (pass == 0) {
    const auto add = [&names](const std::string& name) {
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    };
    for (const auto& [name, layers] : moments_of_) add(name);
    for (const auto& [name, observer] : around_) add(name);
    for (const auto& [name, ranges] : by_channel_) add(name);
  }
  return names;
}

/// Whether somebody looks at more of the value than its range and patches.
bool Calibration::NeedsOrder(int pass, const std::string& value) const {
  if (pass == first_pass_ && by_channel_.contains(value)) return true;
  const auto found = watched_.find(value);
  if (found == watched_.end()) return false;
  return std::any_of(found->second.begin(), found->second.end(), [&](int index) {
    const TensorQuantizationConfig& config = record_.configs[static_cast<size_t>(index)];
    if (Given(index)) return false;
    if (config.per_channel()) return true;
    const Observer& observer = *seen_.slots.at(index).channels[0];
    return pass - first_pass_ < observer.passes() && !observer.takes_range();
  });
}

void Calibration::Watching(int pass, int index, const Tensor& tensor, const Scan& scan) {
  if (Given(index)) return;
  Watch& watch = seen_.slots.at(index);
  const TensorQuantizationConfig& config = Config(index);
  const std::span<const float> values = tensor.values<float>();
  const float largest = std::max(std::fabs(scan.low), std::fabs(scan.high));
  if (pass == 0 && !values.empty() && largest > 0) {
    int exponent = 0;
    std::frexp(largest, &exponent);
    Watch::Magnitude& magnitude = watch.magnitudes[exponent];
    if (magnitude.samples++ == 0)
      magnitude.first = first_sample_ + samples_.at(static_cast<size_t>(first_pass_));
    if (const std::optional<int> power = PowerOf(values)) ++watch.powers[*power];
  }
  const int64_t row = tensor.rank() == 0 ? 1 : tensor.shape().back();
  if (!config.per_channel()) {
    Observer& observer = *watch.channels[0];
    if (pass >= observer.passes() || values.empty()) return;
    if (observer.takes_range()) {
      observer.AddRange({static_cast<double>(scan.low), static_cast<double>(scan.high)});
    } else {
      observer.Observe(pass, values, row);
    }
    return;
  }
  if (config.axis >= tensor.rank()) {
    Fail(ErrorCode::kInvalidQuantization,
         StrCat("value '", config.value, "' has no axis ", config.axis),
         {.node = config.node, .value = config.value, .hint = "choose another axis"});
  }
  MakeChannels(index, watch, static_cast<size_t>(tensor.dim(config.axis)));
  ObserveChannels(watch.channels, config.axis, pass, tensor);
}

void Calibration::Observe(int pass, const std::string& value, const Tensor& given,
                          bool channels_last) {
  CheckPass(pass);
  const auto fill = filled_.find(value);
  Tensor unmasked;
  if (fill != filled_.end()) unmasked = WithoutMasked(given, fill->second);
  const Tensor& tensor = fill != filled_.end() ? unmasked : given;
  const Rewriting* rewriting = RewritingIn(pass);
  const auto watched = watched_.find(value);
  const auto layers = moments_of_.find(value);
  const auto around = around_.find(value);
  const auto by_channel = by_channel_.find(value);
  if (!rewriting && watched == watched_.end() && layers == moments_of_.end() &&
      around == around_.end() && by_channel == by_channel_.end()) {
    Fail(ErrorCode::kInvalidArgument, StrCat("value '", value, "' is not observed"),
         {.value = value, .hint = "pass the values of observed_values()"});
  }
  const int64_t sample = first_sample_ + samples_[static_cast<size_t>(pass)];
  const std::span<const float> values = tensor.values<float>();
  const Scan scan = ScanValues(values);
  if (channels_last && (!scan.finite || rewriting || NeedsOrder(pass, value))) {
    return Observe(pass, value, ChannelsFirst(tensor), false);
  }
  for (size_t i = 0; i < values.size() && !scan.finite; ++i) {
    if (std::isfinite(values[i])) continue;
    Fail(ErrorCode::kInvalidArgument,
         StrCat("value '", value, "' is ", std::isnan(values[i]) ? "NaN" : "infinite", " at index ",
                i, " of calibration sample ", sample),
         {.value = value, .hint = "remove the sample or repair the model"});
  }
  RewriteBefore(pass);
  if (rewriting) {
    if (!probing_)
      rewriting->rewriter->Observe(pass - rewriting->first_pass, sample, value, tensor);
    return;
  }
  pass -= first_pass_;
  if (watched != watched_.end() && !probing_) {
    for (const int config : watched->second) Watching(pass, config, tensor, scan);
  }
  if (pass == 0 && around != around_.end() && !probing_ && !values.empty()) {
    around->second->AddRange({static_cast<double>(scan.low), static_cast<double>(scan.high)});
  }
  if (pass == 0 && by_channel != by_channel_.end() && !probing_) {
    by_channel->second.Observe(tensor);
  }
  if (pass == 0 && layers != moments_of_.end()) {
    for (InputMoments* moments : layers->second) {
      if (probing_) {
        moments->Probe(tensor);
      } else {
        moments->Observe(tensor, static_cast<uint32_t>(sample), channels_last);
      }
    }
  }
}

void Calibration::EndSample(int pass) {
  CheckPass(pass);
  if (probing_) return;
  ++samples_[static_cast<size_t>(pass)];
  pass -= first_pass_;
  if (pass < 0) return;
  for (const auto& [config, watch] : seen_.slots) {
    for (const auto& observer : watch.channels) {
      if (pass < observer->passes()) observer->EndSample(pass);
    }
  }
}

void Calibration::Keep(const TensorMap& feeds) {
  if (!probing_) lengths_.See(feeds);
  if (probing_ || static_cast<int64_t>(seen_.samples.size()) >= wanted_samples_) return;
  size_t bytes = 0;
  for (const auto& [name, tensor] : feeds) bytes += tensor.bytes();
  if (!seen_.samples.empty() && kept_bytes_ + bytes > RoomOfSamples(options_)) return;
  kept_bytes_ += bytes;
  TensorMap copy;
  for (const auto& [name, tensor] : feeds) copy[name] = tensor.Clone();
  seen_.samples.push_back(std::move(copy));
}

Calibrated Calibration::Finish() {
  CheckSamples();
  if (samples_.front() == 1 && !seen_.slots.empty()) {
    record_.warnings.push_back(
        "there was one calibration sample, whose ranges others may exceed: give some hundred");
  }
  const int64_t wanted = std::min({options_.recover_samples, wanted_samples_, samples_.front()});
  const auto kept = static_cast<int64_t>(seen_.samples.size());
  if (kept < wanted) {
    record_.warnings.push_back(StrCat("methods that learn or choose work on ", kept, " of ", wanted,
                                      " samples, which fill the memory for them: give more by "
                                      "recoverMemory"));
  }
  const std::string of_lengths = seen_.slots.empty() ? "" : lengths_.Warning();
  if (!of_lengths.empty()) record_.warnings.push_back(of_lengths);
  RewriteBefore(first_pass_);
  SettleConcats();
  finished_ = true;
  return std::move(seen_);
}

}  // namespace requant
