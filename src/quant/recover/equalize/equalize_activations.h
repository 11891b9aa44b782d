// Activation equalization: gives the channels of a value similar ranges, so that one scale serves
// them all (the field's SmoothQuant).
#pragma once

#include <map>
#include <string>
#include <vector>

#include "quant/config/record.h"
#include "quant/observers/state_bytes.h"
#include "quant/recover/equalize/scaling_groups.h"

namespace requant {

/// Equalizes by two passes over the samples that precede calibration. The first finds the channels'
/// ranges; the second tries, on the first samples, what each way to equalize does to the layers
/// that read the values. Shards give what one pass gives, to the last bit: ranges have no order,
/// and errors are kept by sample.
class ActivationEqualizer {
 public:
  static constexpr int kPasses = 2;

  /// Apply() changes the graph's constants.
  ActivationEqualizer(Graph& graph, const QuantizationRecord& record);
  ~ActivationEqualizer();
  ActivationEqualizer(const ActivationEqualizer&) = delete;
  ActivationEqualizer& operator=(const ActivationEqualizer&) = delete;
  std::vector<std::string> Values(int pass) const;
  /// Whether that pass needs the sample of that index.
  static bool Wants(int pass, int64_t sample);
  void Observe(int pass, int64_t sample, const std::string& value, const Tensor& tensor);
  /// Writes or reads what is known after that pass.
  void Fields(StateBytes& state, int pass);
  void Merge(const ActivationEqualizer& later, int pass);

  struct Result {
    double before_db = 0, after_db = 0;  // of the outputs of the reading layers, on average
    std::string detail;
    bool idle = false;  // no values could be scaled
  };
  /// Scales the constants. Call it once, after both passes.
  Result Apply();

 private:
  struct Group;
  void ShowRanges(Group& group, const Value* value, const Tensor& tensor);
  void Try(Group& group, const Node& reader, const Tensor& tensor, int64_t sample);

  const QuantizationRecord& record_;
  std::vector<Group> groups_;
};

}  // namespace requant
