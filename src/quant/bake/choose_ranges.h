// Which of several proposed ranges a slot gets.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <vector>

#include "interpret/interpreter.h"
#include "quant/config/record.h"
#include "quant/observers/observer.h"
#include "quant/recover/recovery.h"

namespace requant {

/// Finds of each slot the proposal with the least error of the operators that read it, one sample
/// in each step. The last step fills the configs' ranges and observers.
class RangeChooser {
 public:
  virtual ~RangeChooser() = default;
  virtual FinishProgress Step() = 0;
};

/// `proposals`: by config.
std::unique_ptr<RangeChooser> MakeRangeChooser(const Graph& graph, QuantizationRecord& record,
                                               std::map<int, std::vector<RangeProposal>> proposals,
                                               std::span<const TensorMap> samples);

}  // namespace requant
