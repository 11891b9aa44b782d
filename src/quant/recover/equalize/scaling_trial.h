// Values whose channels are scaled together (scaling_groups.h): the factors that may be chosen, and
// what each choice makes of the layers that read the values.
#pragma once

#include <algorithm>
#include <iterator>
#include <map>
#include <vector>

#include "quant/config/record.h"
#include "quant/recover/equalize/scaling_groups.h"

namespace requant {

/// Exponents of SmoothQuant's formula (equalize_activations.cpp) that are tried. The first: as it
/// is.
inline constexpr double kExponents[] = {0, 0.25, 0.5, 0.75, 1};
inline constexpr size_t kChoices = std::size(kExponents);

/// The power of a reading layer's outputs on one sample, and the noise of every choice in them.
struct ChoiceErrors {
  int64_t sample = 0;
  uint64_t reader = 0;
  double power = 0;
  double noise[kChoices] = {};
};

struct ScalingTrial {
  ScalingGroup scaling;
  std::vector<const Value*> watched;
  std::vector<float> low, high;  // by channel
  std::vector<ChoiceErrors> errors;
  std::vector<std::vector<float>> factors;  // by choice; computed when ranges are complete
  struct Reader {
    // by choice, rounded to their grid and divided by the factors
    std::vector<std::vector<float>> weights;
  };
  std::map<const Node*, Reader> readers;

  const TensorQuantizationConfig& InputOf(const QuantizationRecord& record,
                                          const Node& node) const {
    return record.Root(record.operators.at(node.name).inputs[0]);
  }
  void FindFactors();
  void PrepareReader(const QuantizationRecord& record, const Node& node);
};

/// Calls body(index of the element, channel) for every weight that meets an input channel.
template <typename Body>
void ForWeights(const Node& node, int64_t channels, Body body) {
  const Tensor& weights = *node.constant(1);
  if (node.Is(Op::kConv)) {
    const int64_t per_group = weights.dim(1);
    const int64_t groups = std::max<int64_t>(1, node.attributes.Int("group", 1));
    const int64_t rows = weights.dim(0) / groups;
    const int64_t taps = weights.count() / std::max<int64_t>(1, weights.dim(0) * per_group);
    for (int64_t i = 0; i < weights.count(); ++i) {
      const int64_t row = i / (per_group * taps);
      body(i, row / rows * per_group + i / taps % per_group);
    }
    return;
  }
  const bool transposed = node.attributes.Int("transB", 0) != 0;
  const int64_t inner = transposed ? 1 : weights.dim(1);
  for (int64_t i = 0; i < weights.count(); ++i) body(i, i / inner % channels);
}

}  // namespace requant
