// A calibration as bytes, and the bytes of shards put together.
#include <utility>

#include "base/error.h"
#include "base/str_cat.h"
#include "quant/calibrate/calibration.h"

namespace requant {
namespace {

constexpr uint32_t kStateMagic = 0x53715233;  // "3RqS"

/// FNV-1a.
void Hash(uint64_t& hash, std::string_view text) {
  for (const char c : text) hash = (hash ^ static_cast<uint8_t>(c)) * 1099511628211u;
  hash = (hash ^ 0xff) * 1099511628211u;
}

}  // namespace

void Calibration::Fields(int pass, StateBytes& state) {
  uint64_t hash = 14695981039346656037u;
  for (const auto& [index, watch] : seen_.slots) {
    const TensorQuantizationConfig& config = Config(index);
    Hash(hash, config.value);
    Hash(hash, StrCat(config.policy, config.bits));
#define REQUANT_OBSERVER_OPTION(type, field, name, standard) Hash(hash, StrCat(config.field));
#include "quant/options.inc"
  }
  for (const auto& [name, layer] : seen_.moments) Hash(hash, name);
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
  state.Value(samples_[static_cast<size_t>(pass)]);
  for (const Rewriting& one : rewritings_) {
    if (pass >= one.first_pass) one.rewriter->Fields(state, pass - one.first_pass);
  }
  if (pass == 0) {
    lengths_.Fields(state);
    KeptFields(state);
  } else if (pass < first_pass_) {
    // A shard of the next pass needs the first sample (RewriteBefore).
    std::vector<TensorMap> all = std::move(seen_.samples);
    seen_.samples.clear();
    if (!state.reading() && !all.empty()) seen_.samples.push_back(all[0]);
    KeptFields(state);
    if (!all.empty()) seen_.samples = std::move(all);
  }
  if (pass < first_pass_) return;
  if (state.reading()) RewriteBefore(pass);
  SlotFields(pass - first_pass_, state);
}

void Calibration::SlotFields(int pass, StateBytes& state) {
  for (auto& [index, watch] : seen_.slots) {
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
  for (const auto& [name, observer] : around_) observer->Fields(state, pass);
  for (auto& [name, ranges] : by_channel_) ranges.Fields(state);
  for (const auto& [name, layer] : seen_.moments) layer->Fields(state);
}

void Calibration::KeptFields(StateBytes& state) {
  uint64_t count = seen_.samples.size();
  state.Value(count);
  for (uint64_t i = 0; i < count; ++i) {
    if (state.reading()) seen_.samples.emplace_back();
    TensorMap& sample = seen_.samples[static_cast<size_t>(i)];
    for (const Value* input : graph_.inputs()) {
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

std::vector<uint8_t> Calibration::SaveState(int pass) {
  CheckPass(pass);
  StateBytes state;
  Fields(pass, state);
  return state.Take();
}

void Calibration::LoadState(int pass, std::span<const uint8_t> bytes) {
  CheckPass(pass);
  StateBytes state(bytes);
  if (pass == 0) seen_.samples.clear();
  Fields(pass, state);
}

void Calibration::MergeState(int pass, std::span<const uint8_t> bytes) {
  CheckPass(pass);
  RewriteBefore(pass);
  Graph graph = graph_.Clone();
  QuantizationRecord record = record_;
  Calibration later(graph, record, options_, methods_);
  for (size_t i = 0; i < rewritings_.size(); ++i) {
    later.rewritings_[i].applied = rewritings_[i].applied;
  }
  StateBytes state(bytes);
  later.Fields(pass, state);
  samples_[static_cast<size_t>(pass)] += later.samples_[static_cast<size_t>(pass)];
  if (pass == 0) {
    lengths_.Merge(later.lengths_);
    for (const TensorMap& sample : later.seen_.samples) Keep(sample);
  }
  if (const Rewriting* one = RewritingIn(pass)) {
    one->rewriter->Merge(*later.RewritingIn(pass)->rewriter, pass - one->first_pass);
    return;
  }
  MergeSlots(later, pass - first_pass_);
}

void Calibration::MergeSlots(const Calibration& later, int pass) {
  for (auto& [index, watch] : seen_.slots) {
    const Watch& other = later.seen_.slots.at(index);
    for (const auto& [exponent, found] : other.magnitudes) {
      Watch::Magnitude& magnitude = watch.magnitudes[exponent];
      if (magnitude.samples == 0) magnitude.first = found.first;
      magnitude.samples += found.samples;
    }
    for (const auto& [power, found] : other.powers) watch.powers[power] += found;
    if (other.channels.empty()) continue;
    MakeChannels(index, watch, other.channels.size());
    for (size_t i = 0; i < watch.channels.size(); ++i) {
      if (pass < watch.channels[i]->passes()) {
        watch.channels[i]->Merge(*other.channels[i], pass);
      }
    }
  }
  if (pass > 0) return;
  for (const auto& [name, observer] : around_) observer->Merge(*later.around_.at(name), pass);
  for (auto& [name, ranges] : by_channel_) ranges.Merge(later.by_channel_.at(name));
  for (const auto& [name, layer] : seen_.moments) layer->Merge(*later.seen_.moments.at(name));
}

}  // namespace requant
