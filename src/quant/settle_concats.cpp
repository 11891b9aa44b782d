// Between calibration and scales: which Concats have one scale, now that ranges are known.
#include "base/error.h"
#include "base/str_cat.h"
#include "quant/assign/assign.h"
#include "quant/assign/joint.h"
#include "quant/quantizer_impl.h"

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
std::optional<Range> Quantizer::Impl::RangeOf(const Value& value) const {
  if (options.scales.contains(value.name)) return std::nullopt;
  const auto found = watched.find(value.name);
  if (found != watched.end()) {
    const Watch& watch = observers.at(found->second[0]);
    if (watch.channels.size() == 1) return watch.channels[0]->Get();
  }
  const auto alone = around.find(value.name);
  if (alone == around.end()) return std::nullopt;
  return alone->second->Get();
}

void Quantizer::Impl::SettleConcats() {
  const SeenRanges seen{[this](const Value& value) { return RangeOf(value); },
                        [this](const Value& value) {
                          const auto found = by_channel.find(value.name);
                          return found == by_channel.end() ? nullptr : &found->second;
                        }};
  const SeparatedConcats made = SeparateConcats(graph, record, seen);
  if (!made.detail.empty()) {
    QuantizationRecord before = std::move(record);
    record = AssignConfigs(graph, options, made.reasons);
    record.warnings.insert(record.warnings.begin(), before.warnings.begin(), before.warnings.end());
    record.recovery = std::move(before.recovery);
    record.recovery.push_back({"separate_concats", NAN, NAN, made.detail});
    JoinConfigs(graph, record);
    MarkSimulated(graph, record);
    for (const auto& [name, factors] : made.factors) {
      const auto layer = moments.find(name);
      if (layer != moments.end()) layer->second->ScaleChannels(factors);
    }
    JoinConcats(graph, record);
    WatchAnew(before, made);
  } else {
    JoinConcats(graph, record);
  }
  std::erase_if(observers, [this](const auto& entry) {
    return Config(entry.first).state != QuantizationState::kInitial;
  });
}

/// The slots of the new record get what those of the old one with the same values have seen.
void Quantizer::Impl::WatchAnew(const QuantizationRecord& before, const SeparatedConcats& made) {
  const std::map<int, Watch> seen = std::move(observers);
  observers.clear();
  for (size_t i = 0; i < record.configs.size(); ++i) {
    const TensorQuantizationConfig& config = record.configs[i];
    const Value* value = graph.FindValue(config.value);
    if (config.state != QuantizationState::kInitial || value == nullptr || value->is_constant()) {
      continue;
    }
    Watch& watch = observers[static_cast<int>(i)];
    if (options.scales.contains(config.value)) continue;
    const auto derived = made.ranges.find(config.value);
    if (derived != made.ranges.end()) {
      watch.derived = derived->second;
      continue;
    }
    const auto slots = watched.find(config.value);
    const Watch* same = nullptr;
    for (const int index : slots == watched.end() ? std::vector<int>() : slots->second) {
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
