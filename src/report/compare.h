// Compares an integer network with its float reference: task metric, output error, and the error of
// every layer, both with all layers quantized (graphwise) and with one at a time (layerwise).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "report/affine_values.h"
#include "report/metrics.h"
#include "report/output_parts.h"
#include "session/session.h"
#include "session/taps.h"

namespace requant {

struct CompareOptions {
  RequantizeMode requantize = RequantizeMode::kUpward;
  bool layerwise = true;
  /// How many samples are also measured one layer at a time, by slow references.
  int alone_samples = 2;
  /// Bytes of the two model files, for the report.
  size_t float_bytes = 0;
  size_t candidate_bytes = 0;
  /// The wall clock in milliseconds.
  double (*now)() = nullptr;
  /// As in SessionOptions.
  ParallelRunner* runner = nullptr;
};

/// The results of one sample.
struct SampleResult {
  int64_t float_top1 = -1;
  int64_t candidate_top1 = -1;
  double float_ms = 0;
  double candidate_ms = 0;
};

class Comparer {
 public:
  /// Takes both graphs ready to run (optimized, lowered), with inputs and outputs of the same
  /// names. Throws kInvalidArgument when the outputs differ.
  Comparer(PreparedModel reference, PreparedModel candidate, CompareOptions options);
  ~Comparer();

  /// Runs both on one sample. label < 0: unknown. Latency is that of untapped sessions.
  SampleResult Add(const TensorMap& feeds, int64_t label);
  /// The JSON described in bindings/README.md.
  std::string Report() const;

 private:
  struct Layer {
    std::string name, op, value;  // `value` belongs to the float graph
    const Node* node = nullptr;   // of the candidate graph
    std::string candidate_value;
    bool tables = false;  // only tables read the value
    ErrorMetrics graphwise, alone;
  };
  struct Output {
    std::string name;
    ErrorMetrics error;
    OutputParts parts;  // of the float model's output
    std::vector<ErrorMetrics> errors_of_parts;
  };

  void FindLayers();
  void CompareLayers(const TensorMap& feeds, bool alone);
  void MeasureAlone(Layer& layer, const TensorMap& taps);
  /// The float values of the layer. A value that only tables read is clamped where all tables are
  /// flat (the quantizer's flat_ends.h), so that values beyond its codes count as the outermost
  /// ones.
  Tensor Wanted(const Layer& layer, const Tensor& expected) const;

  CompareOptions options_;
  PreparedModel reference_, candidate_;
  std::map<std::string, ValueAffine> affine_;
  std::unique_ptr<Session> float_session_, candidate_session_;  // untapped, for timing
  std::unique_ptr<Session> float_tapped_, candidate_tapped_;
  std::vector<Layer> layers_;
  std::vector<Output> outputs_;
  int64_t samples_ = 0, rows_ = 0, labelled_ = 0;
  int64_t float_right_ = 0, candidate_right_ = 0, agree_ = 0;
  std::vector<double> float_ms_, candidate_ms_;
};

}  // namespace requant
