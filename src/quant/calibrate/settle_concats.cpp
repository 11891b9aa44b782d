// Between calibration and scales: which Concats have one scale, now that ranges are known.
#include "base/error.h"
#include "base/str_cat.h"
#include "quant/assign/assign.h"
#include "quant/assign/joint.h"
#include "quant/calibrate/calibration.h"
#include "quant/lower/simulated.h"

namespace requant {
namespace {

/// What the observers of a slot have seen, for another slot of the same value.
Watch Copy(const Watch& from, const TensorQuantizationConfig& config) {
  Watch to;
  to.magnitudes = from.magnitudes;
  to.powers = from.powers;
  to.derived = from.derived;
  for (const auto& seen : from.channels) {
    auto observer = MakeObserver(config);
    for (int pass = 0; pass < observer->passes(); ++pass) observer->Merge(*seen, pass);
    to.channels.push_back(std::move(observer));
  }
  return to;
}

}  // namespace

/// Nothing for a value with given scales, and for one that no slot decides for.
std::optional<Range> Calibration::RangeOf(const Value& value) const {
  if (options_.scales.contains(value.name)) return std::nullopt;
  const auto found = watched_.find(value.name);
  if (found != watched_.end()) {
    if (Given(found->second[0])) return std::nullopt;
    const Watch& watch = seen_.slots.at(found->second[0]);
    if (watch.channels.size() == 1) return watch.channels[0]->Get();
  }
  const auto alone = around_.find(value.name);
  if (alone == around_.end()) return std::nullopt;
  return alone->second->Get();
}

void Calibration::SettleConcats() {
  const SeenRanges seen{[this](const Value& value) { return RangeOf(value); },
                        [this](const Value& value) {
                          const auto found = by_channel_.find(value.name);
                          return found == by_channel_.end() ? nullptr : &found->second;
                        }};
  const SeparatedConcats made = SeparateConcats(graph_, record_, seen);
  if (!made.detail.empty()) {
    QuantizationRecord before = std::move(record_);
    record_ = AssignConfigs(graph_, options_, made.reasons);
    record_.warnings.insert(record_.warnings.begin(), before.warnings.begin(),
                            before.warnings.end());
    record_.recovery = std::move(before.recovery);
    record_.recovery.push_back({"separate_concats", NAN, NAN, made.detail});
    JoinConfigs(graph_, record_);
    MarkSimulated(graph_, record_);
    for (const auto& [name, factors] : made.factors) {
      const auto layer = seen_.moments.find(name);
      if (layer != seen_.moments.end()) layer->second->ScaleChannels(factors);
    }
    JoinConcats(graph_, record_);
    WatchAnew(before, made);
  } else {
    JoinConcats(graph_, record_);
  }
  std::erase_if(seen_.slots, [this](const auto& entry) {
    return Config(entry.first).state != QuantizationState::kInitial;
  });
}

/// The slots of the new record get what those of the old one with the same values have seen.
void Calibration::WatchAnew(const QuantizationRecord& before, const SeparatedConcats& made) {
  const std::map<int, Watch> seen = std::move(seen_.slots);
  seen_.slots.clear();
  for (size_t i = 0; i < record_.configs.size(); ++i) {
    const TensorQuantizationConfig& config = record_.configs[i];
    const Value* value = graph_.FindValue(config.value);
    if (config.state != QuantizationState::kInitial || value == nullptr || value->is_constant()) {
      continue;
    }
    Watch& watch = seen_.slots[static_cast<int>(i)];
    if (options_.Gives(config)) continue;
    const auto derived = made.ranges.find(config.value);
    if (derived != made.ranges.end()) {
      watch.derived = derived->second;
      continue;
    }
    const auto slots = watched_.find(config.value);
    const Watch* same = nullptr;
    for (const int index : slots == watched_.end() ? std::vector<int>() : slots->second) {
      const TensorQuantizationConfig& other = before.configs[static_cast<size_t>(index)];
      if (other.observer == config.observer && other.per_channel() == config.per_channel()) {
        same = &seen.at(index);
      }
    }
    if (same != nullptr) {
      watch = Copy(*same, config);
      continue;
    }
    watch.derived = RangeOf(*value);
    if (watch.derived) continue;
    Fail(ErrorCode::kInternal, StrCat("value '", config.value, "' was not observed"),
         {.node = config.node, .value = config.value});
  }
}

}  // namespace requant
