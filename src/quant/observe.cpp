// What the quantizer sees of the samples: observers by slot, moments by layer, their states.
#include <algorithm>
#include <cmath>
#include <optional>

#include "base/error.h"
#include "base/str_cat.h"
#include "quant/assign/assign.h"
#include "quant/graph/masks.h"
#include "quant/graph/soi.h"
#include "quant/graph/statistics.h"
#include "quant/grid/affine.h"
#include "quant/quantizer_impl.h"
#include "quant/sim/simulator.h"

namespace requant {
namespace {

constexpr size_t kKeptBytes = size_t{96} << 20;
constexpr uint32_t kStateMagic = 0x53715232;  // "2RqS"

/// FNV-1a.
void Hash(uint64_t& hash, std::string_view text) {
  for (const char c : text) hash = (hash ^ static_cast<uint8_t>(c)) * 1099511628211u;
  hash = (hash ^ 0xff) * 1099511628211u;
}

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

}  // namespace

/// Whether somebody looks at more of the value than its range and patches.
bool Quantizer::Impl::NeedsOrder(int pass, const std::string& value) const {
  if (pass == first_pass && by_channel.contains(value)) return true;
  const auto found = watched.find(value);
  if (found == watched.end()) return false;
  return std::any_of(found->second.begin(), found->second.end(), [&](int index) {
    const TensorQuantizationConfig& config = record.configs[static_cast<size_t>(index)];
    if (options.scales.contains(value)) return false;
    if (config.per_channel()) return true;
    const Observer& observer = *observers.at(index).channels[0];
    return pass - first_pass < observer.passes() && !observer.takes_range();
  });
}

void Quantizer::Impl::FindFilled() {
  const std::set<const Value*> soi = ShapeOrIndexValues(graph);
  for (const auto& [value, fill] : FindMasks(graph, soi, FindStatistics(graph, soi)).filled) {
    filled[value->name] = fill;
  }
}

void Quantizer::Impl::PlanObservers() {
  int passes = 1;
  for (size_t i = 0; i < record.configs.size(); ++i) {
    const TensorQuantizationConfig& config = record.configs[i];
    if (config.state != QuantizationState::kInitial) continue;
    const Value* value = graph.FindValue(config.value);
    if (value == nullptr || value->is_constant()) continue;
    const auto index = static_cast<int>(i);
    Watch& watch = observers[index];
    watched[config.value].push_back(index);
    if (Fixed(index)) continue;
    const auto observer = MakeObserver(config);
    passes = std::max(passes, observer->passes());
    wants_auto = wants_auto || config.observer == "auto";
    if (!config.per_channel()) MakeChannels(index, watch, 1);
  }
  TensorQuantizationConfig plain;
  const ValuesAroundConcats values = FindValuesAroundConcats(graph, record);
  for (const Value* value : values.whole) around[value->name] = MakeMinMax(plain);
  for (const auto& [value, axis] : values.by_channel) {
    by_channel.emplace(value->name, ChannelRanges(axis));
  }
  if (options.analyze) wanted_samples = std::max<int64_t>(wanted_samples, 8);
  if (wants_auto) wanted_samples = std::max(wanted_samples, kSamplesOfAuto);
  samples.assign(static_cast<size_t>(first_pass) + static_cast<size_t>(passes), 0);
  for (const auto& [value, fixed] : options.scales) {
    if (graph.FindValue(value) == nullptr) {
      record.warnings.push_back(
          StrCat("a scale was given for '", value, "', which is no value of the network: ignored"));
    }
  }
}

void Quantizer::Impl::MakeChannels(int index, Watch& watch, size_t count) {
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

void Quantizer::Impl::PlanMoments() {
  if (!round_weights && !bias_correction) return;
  for (const auto& node : graph.nodes()) {
    const OperatorQuantization& op = record.operators.at(node->name);
    if (!op.quantized || WeightSlot(*node, op.rule) < 0) continue;
    auto made = std::make_unique<InputMoments>(*node, op.rule);
    moments_of[node->inputs[0]->name].push_back(made.get());
    moments[node->name] = std::move(made);
  }
}

int Quantizer::passes() const { return static_cast<int>(impl_->samples.size()); }

/// Between the passes of the equalizer and those of calibration.
void Quantizer::Impl::Equalize() {
  if (!equalizer || equalized) return;
  equalized = true;
  const ActivationEqualizer::Result result = equalizer->Apply();
  record.recovery.push_back(
      {"equalize_activations", result.before_db, result.after_db, result.detail});
  if (result.idle) WarnOfIdle("equalize_activations");
  if (moments.empty() || kept.empty()) return;
  // Every shard has the first sample: the units of exact sums come from it.
  Simulator simulator(graph, record);
  Values values = simulator.Start(kept[0]);
  simulator.Run(values, SimMode::kFloat, 0, simulator.nodes().size(), false);
  for (const auto& [name, layers] : moments_of) {
    const auto found = values.find(graph.FindValue(name));
    if (found == values.end()) continue;
    for (InputMoments* layer : layers) layer->Probe(found->second);
  }
}

void Quantizer::Impl::CheckPass(int pass) const {
  if (started) {  // ranges became scales
    Fail(ErrorCode::kInvalidArgument, "the calibration is finished: it takes no more samples",
         {.hint = "begin another"});
  }
  if (pass >= 0 && static_cast<size_t>(pass) < samples.size()) return;
  Fail(ErrorCode::kInvalidArgument, StrCat("there is no calibration pass ", pass),
       {.hint = StrCat("the passes are 0 to ", samples.size() - 1)});
}

bool Quantizer::wants_sample(int pass) const {
  impl_->CheckPass(pass);
  return !impl_->Equalizing(pass) ||
         ActivationEqualizer::Wants(
             pass, impl_->first_sample + impl_->samples[static_cast<size_t>(pass)]);
}

std::vector<std::string> Quantizer::observed_values(int pass) const {
  impl_->CheckPass(pass);
  if (impl_->Equalizing(pass)) return impl_->equalizer->Values(pass);
  impl_->Equalize();
  pass -= impl_->first_pass;
  std::vector<std::string> names;
  for (const auto& [name, configs] : impl_->watched) {
    const bool needed = std::any_of(configs.begin(), configs.end(), [&](int config) {
      return !impl_->Fixed(config) && MakeObserver(impl_->Config(config))->passes() > pass;
    });
    if (needed) names.push_back(name);
  }
  if (pass == 0) {
    const auto add = [&names](const std::string& name) {
      if (!Contains(names, name)) names.push_back(name);
    };
    for (const auto& [name, layers] : impl_->moments_of) add(name);
    for (const auto& [name, observer] : impl_->around) add(name);
    for (const auto& [name, ranges] : impl_->by_channel) add(name);
  }
  return names;
}

void Quantizer::Impl::Watching(int pass, int index, const Tensor& tensor, const Scan& scan) {
  if (Fixed(index)) return;
  Watch& watch = observers.at(index);
  const TensorQuantizationConfig& config = Config(index);
  const std::span<const float> values = tensor.values<float>();
  const float largest = std::max(std::fabs(scan.low), std::fabs(scan.high));
  if (pass == 0 && !values.empty() && largest > 0) {
    int exponent = 0;
    std::frexp(largest, &exponent);
    Watch::Magnitude& magnitude = watch.magnitudes[exponent];
    if (magnitude.samples++ == 0)
      magnitude.first = first_sample + samples.at(static_cast<size_t>(first_pass));
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
  const ChannelView view = ViewChannels(tensor.shape(), config.axis);
  MakeChannels(index, watch, static_cast<size_t>(view.channels));
  for (size_t at = 0; at < values.size(); at += static_cast<size_t>(view.inner)) {
    const size_t channel = at / static_cast<size_t>(view.inner) % watch.channels.size();
    Observer& observer = *watch.channels[channel];
    if (pass < observer.passes()) {
      observer.Observe(pass, values.subspan(at, static_cast<size_t>(view.inner)), view.inner);
    }
  }
}

void Quantizer::Observe(int pass, const std::string& value, const Tensor& seen,
                        bool channels_last) {
  impl_->CheckPass(pass);
  const auto fill = impl_->filled.find(value);
  Tensor unmasked;
  if (fill != impl_->filled.end()) unmasked = WithoutMasked(seen, fill->second);
  const Tensor& tensor = fill != impl_->filled.end() ? unmasked : seen;
  const bool equalizing = impl_->Equalizing(pass);
  const auto watched = impl_->watched.find(value);
  const auto layers = impl_->moments_of.find(value);
  const auto around = impl_->around.find(value);
  const auto by_channel = impl_->by_channel.find(value);
  if (!equalizing && watched == impl_->watched.end() && layers == impl_->moments_of.end() &&
      around == impl_->around.end() && by_channel == impl_->by_channel.end()) {
    Fail(ErrorCode::kInvalidArgument, StrCat("value '", value, "' is not observed"),
         {.value = value, .hint = "pass the values of observed_values()"});
  }
  const int64_t sample = impl_->first_sample + impl_->samples[static_cast<size_t>(pass)];
  const std::span<const float> values = tensor.values<float>();
  const Scan scan = ScanValues(values);
  if (channels_last && (!scan.finite || equalizing || impl_->NeedsOrder(pass, value))) {
    return Observe(pass, value, ChannelsFirst(tensor));
  }
  for (size_t i = 0; i < values.size() && !scan.finite; ++i) {
    if (std::isfinite(values[i])) continue;
    Fail(ErrorCode::kInvalidArgument,
         StrCat("value '", value, "' is ", std::isnan(values[i]) ? "NaN" : "infinite", " at index ",
                i, " of calibration sample ", sample),
         {.value = value, .hint = "remove the sample or repair the model"});
  }
  if (equalizing) {
    if (!impl_->probing) impl_->equalizer->Observe(pass, sample, value, tensor);
    return;
  }
  impl_->Equalize();
  pass -= impl_->first_pass;
  if (watched != impl_->watched.end() && !impl_->probing) {
    for (const int config : watched->second) impl_->Watching(pass, config, tensor, scan);
  }
  if (pass == 0 && around != impl_->around.end() && !impl_->probing && !values.empty()) {
    around->second->AddRange({static_cast<double>(scan.low), static_cast<double>(scan.high)});
  }
  if (pass == 0 && by_channel != impl_->by_channel.end() && !impl_->probing) {
    by_channel->second.Observe(tensor);
  }
  if (pass == 0 && layers != impl_->moments_of.end()) {
    for (InputMoments* moments : layers->second) {
      if (impl_->probing) {
        moments->Probe(tensor);
      } else {
        moments->Observe(tensor, static_cast<uint32_t>(sample), channels_last);
      }
    }
  }
}

void Quantizer::EndSample(int pass) {
  impl_->CheckPass(pass);
  if (impl_->probing) return;
  ++impl_->samples[static_cast<size_t>(pass)];
  pass -= impl_->first_pass;
  if (pass < 0) return;
  for (const auto& [config, watch] : impl_->observers) {
    for (const auto& observer : watch.channels) {
      if (pass < observer->passes()) observer->EndSample(pass);
    }
  }
}

void Quantizer::Keep(const TensorMap& feeds) {
  if (impl_->probing || static_cast<int64_t>(impl_->kept.size()) >= impl_->wanted_samples) return;
  size_t bytes = 0;
  for (const auto& [name, tensor] : feeds) bytes += tensor.bytes();
  if (!impl_->kept.empty() && impl_->kept_bytes + bytes > kKeptBytes) return;
  impl_->kept_bytes += bytes;
  TensorMap copy;
  for (const auto& [name, tensor] : feeds) copy[name] = tensor.Clone();
  impl_->kept.push_back(std::move(copy));
}

void Quantizer::SetFirstSample(int64_t index) { impl_->first_sample = index; }
void Quantizer::SetProbing(bool probing) { impl_->probing = probing; }

void Quantizer::Impl::Fields(int pass, StateBytes& state) {
  uint64_t hash = 14695981039346656037u;
  for (const auto& [index, watch] : observers) {
    const TensorQuantizationConfig& config = Config(index);
    Hash(hash, config.value);
    Hash(hash, StrCat(config.policy, config.bits));
#define REQUANT_OBSERVER_OPTION(type, field, name, standard) Hash(hash, StrCat(config.field));
#include "quant/options.inc"
  }
  for (const auto& [name, layer] : moments) Hash(hash, name);
  uint32_t magic = kStateMagic;
  int32_t its_pass = pass;
  uint64_t its_hash = hash;
  state.Value(magic);
  state.Value(its_pass);
  state.Value(its_hash);
  if (magic != kStateMagic || its_hash != hash || its_pass != pass) {
    Fail(ErrorCode::kInvalidArgument,
         magic != kStateMagic ? "this is no calibration state"
         : its_pass != pass   ? StrCat("the calibration state is one of pass ", its_pass)
                              : "the calibration state is one of another network or other options",
         {.hint = "shards need the same model, the same options and the same pass"});
  }
  state.Value(samples[static_cast<size_t>(pass)]);
  if (equalizer) equalizer->Fields(state, pass);
  if (pass == 0) {
    KeptFields(state);
  } else if (Equalizing(pass)) {
    // A shard of the next pass needs the first sample (Equalize).
    std::vector<TensorMap> all = std::move(kept);
    kept.clear();
    if (!state.reading() && !all.empty()) kept.push_back(all[0]);
    KeptFields(state);
    if (!all.empty()) kept = std::move(all);
  }
  if (Equalizing(pass)) return;
  if (state.reading()) Equalize();
  CalibrationFields(pass - first_pass, state);
}

void Quantizer::Impl::CalibrationFields(int pass, StateBytes& state) {
  for (auto& [index, watch] : observers) {
    std::vector<int64_t> magnitudes;  // in threes
    for (const auto& [exponent, found] : watch.magnitudes) {
      magnitudes.insert(magnitudes.end(), {exponent, found.samples, found.first});
    }
    if (pass == 0) state.List(magnitudes);
    for (size_t i = 0; state.reading() && i + 2 < magnitudes.size(); i += 3) {
      watch.magnitudes[static_cast<int>(magnitudes[i])] = {magnitudes[i + 1], magnitudes[i + 2]};
    }
    std::vector<int64_t> powers;  // in twos
    for (const auto& [power, found] : watch.powers) powers.insert(powers.end(), {power, found});
    if (pass == 0) state.List(powers);
    for (size_t i = 0; state.reading() && i + 1 < powers.size(); i += 2) {
      watch.powers[static_cast<int>(powers[i])] = powers[i + 1];
    }
    uint64_t channels = watch.channels.size();
    state.Value(channels);
    if (state.reading() && channels > 0) MakeChannels(index, watch, static_cast<size_t>(channels));
    for (const auto& observer : watch.channels) {
      if (pass < observer->passes()) observer->Fields(state, pass);
    }
  }
  if (pass > 0) return;
  for (const auto& [name, observer] : around) observer->Fields(state, pass);
  for (auto& [name, ranges] : by_channel) ranges.Fields(state);
  for (const auto& [name, layer] : moments) layer->Fields(state);
}

void Quantizer::Impl::KeptFields(StateBytes& state) {
  uint64_t count = kept.size();
  state.Value(count);
  for (uint64_t i = 0; i < count; ++i) {
    if (state.reading()) kept.emplace_back();
    TensorMap& sample = kept[static_cast<size_t>(i)];
    for (const Value* input : graph.inputs()) {
      Tensor& tensor = sample[input->name];
      auto dtype = static_cast<uint8_t>(tensor.dtype());
      std::vector<int64_t> shape = tensor.shape();
      state.Value(dtype);
      state.List(shape);
      if (dtype == 0) continue;
      if (state.reading()) tensor = Tensor(static_cast<DType>(dtype), shape);
      state.Raw(tensor.raw(), tensor.bytes());
    }
  }
}

std::vector<uint8_t> Quantizer::SaveState(int pass) {
  impl_->CheckPass(pass);
  StateBytes state;
  impl_->Fields(pass, state);
  return state.Take();
}

void Quantizer::LoadState(int pass, std::span<const uint8_t> bytes) {
  impl_->CheckPass(pass);
  StateBytes state(bytes);
  if (pass == 0) impl_->kept.clear();
  impl_->Fields(pass, state);
}

void Quantizer::MergeState(int pass, std::span<const uint8_t> bytes) {
  Impl& own = *impl_;
  own.CheckPass(pass);
  if (!own.Equalizing(pass)) own.Equalize();
  Impl other;
  other.graph = own.graph.Clone();
  other.record = own.record;
  other.options = own.options;
  other.round_weights = own.round_weights;
  other.bias_correction = own.bias_correction;
  other.first_pass = own.first_pass;
  if (own.equalizer) {
    other.equalizer = std::make_unique<ActivationEqualizer>(other.graph, other.record);
    other.equalized = true;  // nothing is computed with it
  }
  other.PlanObservers();
  other.PlanMoments();
  StateBytes state(bytes);
  other.Fields(pass, state);
  own.samples[static_cast<size_t>(pass)] += other.samples[static_cast<size_t>(pass)];
  if (pass == 0) {
    for (TensorMap& sample : other.kept) Keep(sample);
  }
  if (own.Equalizing(pass)) {
    own.equalizer->Merge(*other.equalizer, pass);
    return;
  }
  pass -= own.first_pass;
  for (auto& [index, watch] : own.observers) {
    const Watch& later = other.observers.at(index);
    for (const auto& [exponent, found] : later.magnitudes) {
      Watch::Magnitude& magnitude = watch.magnitudes[exponent];
      if (magnitude.samples == 0) magnitude.first = found.first;
      magnitude.samples += found.samples;
    }
    for (const auto& [power, found] : later.powers) watch.powers[power] += found;
    if (later.channels.empty()) continue;
    own.MakeChannels(index, watch, later.channels.size());
    for (size_t i = 0; i < watch.channels.size(); ++i) {
      if (pass < watch.channels[i]->passes()) {
        watch.channels[i]->Merge(*later.channels[i], pass);
      }
    }
  }
  if (pass > 0) return;
  for (const auto& [name, observer] : own.around) observer->Merge(*other.around.at(name), pass);
  for (auto& [name, ranges] : own.by_channel) ranges.Merge(other.by_channel.at(name));
  for (const auto& [name, layer] : own.moments) layer->Merge(*other.moments.at(name));
}

}  // namespace requant
