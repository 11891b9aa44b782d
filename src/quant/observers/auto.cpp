// Several observers at once; which of them is right for this slot is decided after calibration, by
// the error of the operators that read it (bake/choose_ranges.cpp). By itself it proposes the
// least squared error.
#include <memory>
#include <string_view>
#include <vector>

#include "quant/observers/histogram.h"

namespace requant {
namespace {

constexpr int64_t kSamples = 64;  // that are kept to choose by

struct Candidate {
  const char* observer;
  double percentile;
};

constexpr Candidate kCandidates[] = {
    {"mse", 99.99},        {"minmax", 99.99},    {"moving_average", 99.99},
    {"percentile", 99.99}, {"percentile", 99.9}, {"percentile", 99.0},
    {"kl", 99.99},
};

/// Percentiles are read from the histogram of the first candidate, which has the same bins.
bool Watches(const Observer& part, int pass) {
  return pass < part.passes() && std::string_view(part.kind()) != "percentile";
}

/// All candidates of observer "auto", fed together.
class AutoObserver : public Observer {
 public:
  explicit AutoObserver(const TensorQuantizationConfig& config);
  const char* kind() const override { return "auto"; }
  int passes() const override { return 2; }
  void Observe(int pass, std::span<const float> values, int64_t row) override;
  void EndSample(int pass) override;
  void Fields(StateBytes& state, int pass) override;
  /// The first proposal.
  Range Get() const override { return parts_[0]->Get(); }
  int64_t wanted_samples() const override { return kSamples; }
  std::vector<RangeProposal> Proposals() const override;

 protected:
  void MergeSame(const Observer& later, int pass) override;

 private:
  std::vector<std::unique_ptr<Observer>> parts_;
};

AutoObserver::AutoObserver(const TensorQuantizationConfig& config) {
  for (const Candidate& candidate : kCandidates) {
    TensorQuantizationConfig own = ObservedSettings(config);
    own.observer = candidate.observer;
    own.percentile = candidate.percentile;
    parts_.push_back(MakeObserver(own));
  }
}

void AutoObserver::Observe(int pass, std::span<const float> values, int64_t row) {
  for (const auto& part : parts_) {
    if (Watches(*part, pass)) part->Observe(pass, values, row);
  }
}

void AutoObserver::EndSample(int pass) {
  for (const auto& part : parts_) {
    if (Watches(*part, pass)) part->EndSample(pass);
  }
}

void AutoObserver::Fields(StateBytes& state, int pass) {
  for (const auto& part : parts_) {
    if (Watches(*part, pass)) part->Fields(state, pass);
  }
}

void AutoObserver::MergeSame(const Observer& later, int pass) {
  const auto& other = static_cast<const AutoObserver&>(later);
  for (size_t i = 0; i < parts_.size(); ++i) {
    if (Watches(*parts_[i], pass)) parts_[i]->Merge(*other.parts_[i], pass);
  }
}

std::vector<RangeProposal> AutoObserver::Proposals() const {
  std::vector<RangeProposal> out;
  for (const auto& part : parts_) {
    if (!Watches(*part, 0)) {
      static_cast<HistogramObserver&>(*part).CopyCounts(
          static_cast<const HistogramObserver&>(*parts_[0]));
    }
    out.push_back({part->kind(), part->Get()});
  }
  return out;
}

}  // namespace

std::unique_ptr<Observer> MakeAuto(const TensorQuantizationConfig& config) {
  return std::make_unique<AutoObserver>(config);
}

}  // namespace requant
