#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "quant/observers/observer.h"

namespace requant {

/// The common part of observers with two passes: the range in pass 0, counts over it in pass 1. It
/// has 4096 bins, since ONNX Runtime's default of 128 is too coarse for 8-bit decisions.
class HistogramObserver : public Observer {
 public:
  static constexpr int kBins = 4096;

  int passes() const override { return 2; }
  void Observe(int pass, std::span<const float> values, int64_t row) override;
  void Fields(StateBytes& state, int pass) override;
  /// Copies everything that `other` saw, instead of observing it again.
  void CopyCounts(const HistogramObserver& other);

 protected:
  void MergeSame(const Observer& later, int pass) override;
  double width() const { return (max_ - min_) / kBins; }

  bool seen_ = false;
  double min_ = 0, max_ = 0;
  std::vector<uint64_t> counts_;
  uint64_t total_ = 0;
};

/// The range with the least expected squared error of quantize-dequantize (mse.cpp).
Range LeastSquaresRange(double min, double max, std::span<const uint64_t> counts,
                        const TensorQuantizationConfig& config);

/// The settings of a config that observers use, which stay valid when the config moves.
TensorQuantizationConfig ObservedSettings(const TensorQuantizationConfig& config);

}  // namespace requant
