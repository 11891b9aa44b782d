// The quantizer: decides how every operator slot is quantized, calibrates, recovers accuracy, and
// expresses the result in integer operators or as Q/DQ.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "interpret/interpreter.h"
#include "ir/graph.h"
#include "quant/config/record.h"
#include "quant/config/settings.h"
#include "quant/lower/lower.h"
#include "quant/recover/recovery.h"
#include "quant/stages.h"
#include "tensor/tensor.h"

namespace requant {

/// Usage: for each pass p in [0, passes()), show every sample: run graph(), Observe() each of
/// observed_values(p), then EndSample(p). Then call Finish().
///
/// Sharded: every shard shows its own part of the samples. SetFirstSample() tells it the index of
/// its first sample; before that, every shard but the first shows sample 0 while SetProbing(true).
/// After a pass the shards' SaveState() are combined in the order of their samples: LoadState() of
/// the first, MergeState() of the others. The next pass of every shard starts with LoadState() of
/// the whole. The result is that of one quantizer that saw all samples, to the last bit.
class Quantizer {
 public:
  /// Throws kInvalidArgument (bad options), kInvalidQuantization (contradicting policies).
  Quantizer(FloatModel model, const QuantizeOptions& options);
  ~Quantizer();
  Quantizer(Quantizer&&) noexcept;
  Quantizer& operator=(Quantizer&&) noexcept;

  /// The network that samples are shown to: the given one, perhaps equalized.
  const Graph& graph() const;
  /// How often the calibration data must be shown: 1, or 2 when an observer needs a histogram; 2
  /// more for "equalize_activations".
  int passes() const;
  /// False while the next sample of that pass need not be run, so that EndSample() is enough.
  bool wants_sample(int pass) const;
  /// The float values to tap in that pass (graph inputs may be among them), each once.
  std::vector<std::string> observed_values(int pass) const;
  /// Observes a value. Throws kInvalidArgument, naming value and index, for NaN or infinity, and
  /// for a value that was not asked for; kTypeMismatch for a tensor that is not float32. With
  /// channels_last the elements are in that order; the shape is ONNX's.
  void Observe(int pass, const std::string& value, const Tensor& float_tensor,
               bool channels_last = false);
  void EndSample(int pass);
  /// Copies the feeds of a sample, in pass 0, while a method wants samples and memory allows.
  void Keep(const TensorMap& feeds);

  void SetFirstSample(int64_t index);
  /// While on, observed values set the units of exact sums and nothing else.
  void SetProbing(bool probing);
  std::vector<uint8_t> SaveState(int pass);
  /// Load and merge states. Throw kInvalidArgument for bytes of another model, other options or
  /// another pass.
  void LoadState(int pass, std::span<const uint8_t> bytes);
  void MergeState(int pass, std::span<const uint8_t> bytes);

  /// Runs one slice of finishing. The first call throws kInvalidArgument when no sample was shown.
  FinishProgress Step();
  /// Runs all remaining steps. After it, Step() and Finish() throw kInvalidArgument.
  QuantizedModel Finish();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// The float graph with QuantizeLinear / DequantizeLinear around quantized operators; weights are
/// int8 and biases int32 constants behind DequantizeLinear. Fewer than 8 bits are 8-bit integers
/// that a Clip limits. With `narrowest` 4, 4-bit integers are ONNX's own int4 and uint4, which
/// raises the graph to opset 21; with 2, 2-bit integers are also int2 and uint2, of opset 25.
/// Throws kUnsupported for simulated operators, which Q/DQ cannot express, and for operators whose
/// form changes on the way to opset 21.
Graph ToQdq(const QuantizedModel& model, int narrowest = 8);

/// LowerToInteger without Lut: the QOperator form that ONNX Runtime runs. Throws kUnsupported for
/// simulated operators.
Graph ToQOperator(const QuantizedModel& model);

/// The float graph with QONNX's Quant and BipolarQuant nodes, which express 1 to 8 bits exactly;
/// biases are floats. Throws kUnsupported for simulated operators.
Graph ToQonnx(const QuantizedModel& model);

/// Reads a graph with Q/DQ nodes into a float graph and a record that lower to the same integers;
/// operators that are not surrounded by Q/DQ stay float. nullopt when there is no Q/DQ pair to
/// read. With keep_weights false the float weights of integer operators are placeholders, which
/// suffice to lower.
std::optional<QuantizedModel> FromQdq(const Graph& graph, bool keep_weights = true);

/// Reads bits and codes of the parameters of our own exports, after FromQdq. Does not change what
/// is computed; entries that contradict the integers are ignored.
void ReadFileCodes(QuantizedModel& model);

}  // namespace requant
