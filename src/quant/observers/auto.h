#pragma once

#include <memory>
#include <vector>

#include "quant/observers/histogram.h"

namespace requant {

/// Observer "auto": all candidates, fed together.
class AutoObserver : public Observer {
 public:
  struct Proposal {
    const char* observer;
    Range range;
  };

  explicit AutoObserver(const TensorQuantizationConfig& config);
  const char* kind() const override { return "auto"; }
  int passes() const override { return 2; }
  void Observe(int pass, std::span<const float> values, int64_t row) override;
  void EndSample(int pass) override;
  void Fields(StateBytes& state, int pass) override;
  /// The range of the first proposal.
  Range Get() const override { return parts_[0]->Get(); }
  std::vector<Proposal> Proposals() const;

 protected:
  void MergeSame(const Observer& later, int pass) override;

 private:
  std::vector<std::unique_ptr<Observer>> parts_;
};

}  // namespace requant
