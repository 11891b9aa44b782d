// Fake quantization as an object: the forward and the backward step that training takes on a grid.
#pragma once

#include <optional>
#include <vector>

#include "quant/config/settings.h"
#include "quant/observers/tensor_observer.h"
#include "tensor/tensor.h"

namespace requant {

class FakeQuantizer {
 public:
  /// Settings of an activation. With `given` scales the grid is fixed; without, the observer of the
  /// settings follows what Forward() sees, as training with observed scales does. Throws what
  /// TensorObserver throws; kInvalidArgument for an observer of two passes, which cannot follow;
  /// kInvalidQuantization for scales that the grid cannot have (WhyNoScales).
  FakeQuantizer(const TensorSettings& settings, const FixedScale& given);

  /// The tensor on the grid: quantized and dequantized. Observes it first until Freeze(). Throws
  /// what TensorObserver::Observe throws, and kShapeMismatch for another number of channels.
  Tensor Forward(const Tensor& x);
  struct Gradients {
    Tensor input;               // d loss / d x
    std::vector<double> scale;  // d loss / d scale; empty where it is not known
  };
  /// The gradients of the latest Forward(), from d loss / d its result: straight through inside of
  /// the range and 0 outside (Bengio et al. 2013), and to the scale as in LSQ (arXiv 1902.08153),
  /// without LSQ's factor. Scales have gradients on integers of at most 16 bits that round half to
  /// even; small floats pass all gradients on. Throws kInvalidArgument before Forward(), and
  /// kShapeMismatch for another shape.
  Gradients Backward(const Tensor& gradient) const;
  /// Stops observing.
  void Freeze() { observer_.reset(); }

  /// The grid. Throws kInvalidArgument before the first observed tensor.
  const TensorQuantizationConfig& grid() const;

 private:
  void CheckChannels(const Tensor& x) const;

  TensorQuantizationConfig config_;
  std::optional<TensorObserver> observer_;
  Tensor seen_;
};

}  // namespace requant
