// Functions of single elements, of one sample or of a batch on all threads, by the kernels of
// gradient/kernel.h.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "gradient/kernel.h"
#include "ir/graph.h"
#include "quant/config/tensor_quantization_config.h"
#include "quant/sim/batch_runner.h"
#include "quant/sim/gradients.h"

namespace requant {

/// The operands of a function, by sample. Those that the function does not have are empty.
struct ElementOperands {
  std::vector<const Tensor*> a, b, c;
};

/// Computes the function of the parameters: float32 tensors of the shapes of `a`, whose other
/// operands have as many elements. Adds what the kernel sums up to `sum`, in the order of the
/// samples. `runner` null: on this thread.
std::vector<Tensor> MapElements(BatchRunner* runner, gradient::ElementParams params,
                                const ElementOperands& operands, double* sum = nullptr);

/// The addresses of tensors.
std::vector<const Tensor*> PointersTo(std::span<const Tensor> tensors);

/// Every sample on the grid of the config, as FakeQuantize() rounds single elements.
std::vector<Tensor> FakeQuantizeBatch(BatchRunner* runner, std::span<const Tensor> batch,
                                      const TensorQuantizationConfig& config);
/// The grid of one sample.
Tensor FakeQuantizeTensor(const Tensor& x, const TensorQuantizationConfig& config);

/// The outputs of a float32 Relu, Clip or Add of equal shapes, whose operands are given by sample
/// and slot; nullopt for other operators.
std::optional<std::vector<Tensor>> EvaluateElements(
    BatchRunner* runner, const Node& node, std::span<const std::vector<const Tensor*>> inputs);

/// The gradients of such an operator, or of any Clip, by its inputs, by sample and slot, as
/// OperatorGradients::Backward() returns them; nullopt for other operators. Both operands of an Add
/// have the same tensor. `inputs` and `outputs` are those of the samples, `dy` the gradients of
/// their first outputs.
std::optional<std::vector<std::vector<Tensor>>> ElementGradients(
    BatchRunner* runner, const Node& node, std::span<const std::vector<Tensor>> inputs,
    std::span<const std::vector<Tensor>> outputs, std::span<const std::vector<Tensor>> dy,
    const std::vector<bool>& wanted);

/// d loss / d x of samples on a grid, from d loss / d y; samples without a gradient (empty in `dy`)
/// stay without one. Adds d loss / d log(scale) to `step`, if it is not null.
std::vector<Tensor> GridGradients(BatchRunner* runner, const GridRange& grid,
                                  const std::vector<const Tensor*>& x, std::vector<Tensor> dy,
                                  double* step);

}  // namespace requant
