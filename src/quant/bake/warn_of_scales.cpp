#include "quant/bake/warn_of_scales.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <string>

#include "base/str_cat.h"

namespace requant {
namespace {

/// Where half of the samples stay within so few steps that hardly anything is left of them: one
/// warning for all values, since outliers spread from each to those behind it. Returns their
/// configs.
std::set<int> WarnOfUselessScales(const std::map<int, Watch>& slots, const QuantizeOptions& options,
                                  QuantizationRecord& record) {
  std::set<int> useless;
  std::string text;
  int more = 0;
  for (const auto& [index, watch] : slots) {
    const TensorQuantizationConfig& config = record.configs[static_cast<size_t>(index)];
    if (options.Gives(config) || config.exponential() || config.bits < 5 ||
        watch.magnitudes.empty())
      continue;
    int64_t all = 0;
    for (const auto& [exponent, found] : watch.magnitudes) all += found.samples;
    int64_t below = 0;
    auto middle = watch.magnitudes.begin();
    while (2 * (below += middle->second.samples) < all) ++middle;
    const double largest = std::ldexp(1.0, middle->first);
    const float step = *std::min_element(config.scale.begin(), config.scale.end());
    if (largest >= 4 * static_cast<double>(step)) continue;
    useless.insert(index);
    if (!text.empty()) {
      ++more;
      continue;
    }
    text = StrCat("value '", config.value, "' stays below ", largest,
                  " in half of the calibration samples, but outliers, as in sample ",
                  watch.magnitudes.rbegin()->second.first, ", made its range ", config.range_min,
                  "..", config.range_max, ", whose steps are ", step);
  }
  if (text.empty()) return useless;
  if (more > 0) text += StrCat(" (", more, " values behind it, too)");
  record.warnings.push_back(
      text + ": remove those samples, or, if they are typical, take observer 'percentile'");
  return useless;
}

/// Values that are hardly more than the noise of their own grid in most samples, without those that
/// are `known`. One warning for all.
void WarnOfLostCodes(const std::map<int, Watch>& slots, const std::set<int>& known,
                     const QuantizeOptions& options, QuantizationRecord& record) {
  constexpr double kLeastDecibels = 10;
  std::string text;
  int more = 0;
  for (const auto& [index, watch] : slots) {
    const TensorQuantizationConfig& config = record.configs[static_cast<size_t>(index)];
    if (options.Gives(config) || config.exponential() || config.bits < 5 || watch.powers.empty() ||
        known.contains(index)) {
      continue;
    }
    int64_t all = 0;
    for (const auto& [power, found] : watch.powers) all += found;
    int64_t below = 0;
    auto middle = watch.powers.begin();
    while (2 * (below += middle->second) < all) ++middle;
    const auto step =
        static_cast<double>(*std::min_element(config.scale.begin(), config.scale.end()));
    // The noise of rounding is step^2 / 12.
    const double decibels =
        10 * std::log10(12 * std::exp2(static_cast<double>(middle->first) / 2) / (step * step));
    if (decibels >= kLeastDecibels) continue;
    if (!text.empty()) {
      ++more;
      continue;
    }
    text = StrCat("value '", config.value,
                  "' has few of its codes in most samples: ", std::round(10 * decibels) / 10,
                  " dB of signal to noise, in steps of ", step, " for a range of ",
                  config.range_min, "..", config.range_max);
  }
  if (text.empty()) return;
  if (more > 0) text += StrCat(" (", more, " other values, too)");
  record.warnings.push_back(text +
                            ": keep the operators that read it in float, or give them more bits");
}

}  // namespace

void WarnOfScales(const std::map<int, Watch>& slots, const QuantizeOptions& options,
                  QuantizationRecord& record) {
  WarnOfLostCodes(slots, WarnOfUselessScales(slots, options, record), options, record);
}

}  // namespace requant
