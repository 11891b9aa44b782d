// Activation equalization: channels of one value get similar ranges, so that one scale serves them
// all.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "quant/observers/state_bytes.h"
#include "quant/record.h"
#include "quant/recover/scaling_groups.h"

namespace requant {

/// Two passes over the samples come before calibration: the channels' ranges, then, on the first
/// samples, what each way to equalize does to the layers that read the values. Shards give what one
/// pass gives, to the last bit: ranges have no order, and errors are kept by sample.
class ActivationEqualizer {
 public:
  static constexpr int kPasses = 2;

  /// Changes the graph's constants in Apply().
  ActivationEqualizer(Graph& graph, const QuantizationRecord& record);
  ~ActivationEqualizer();
  ActivationEqualizer(const ActivationEqualizer&) = delete;
  ActivationEqualizer& operator=(const ActivationEqualizer&) = delete;
  std::vector<std::string> Values(int pass) const;
  /// Whether the sample of that index says anything in that pass.
  static bool Wants(int pass, int64_t sample);
  void Observe(int pass, int64_t sample, const std::string& value, const Tensor& tensor);
  /// What is known after that pass, whoever asks later.
  void Fields(StateBytes& state, int pass);
  void Merge(const ActivationEqualizer& later, int pass);

  struct Result {
    double before_db = 0, after_db = 0;  // of the outputs of the layers that read, on average
    std::string detail;
    bool idle = false;  // no values could be scaled
  };
  /// Scales the constants. Once, after both passes.
  Result Apply();

 private:
  struct Group;
  void ShowRanges(Group& group, const Value* value, const Tensor& tensor);
  void Try(Group& group, const Node& reader, const Tensor& tensor, int64_t sample);

  const QuantizationRecord& record_;
  std::vector<Group> groups_;
};

}  // namespace requant
