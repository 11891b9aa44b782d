#include "api/requant.h"

namespace requant {

Calibrator::Calibrator(const Graph& float_graph, const QuantizeOptions& options,
                       ParallelRunner* runner)
    : graph_([&float_graph] {
        if (IsQuantized(float_graph)) {
          Fail(ErrorCode::kInvalidArgument, "the model is already quantized",
               {.hint = "quantize the float model it was made from"});
        }
        return std::make_shared<Graph>(OptimizedFloat(float_graph));
      }()),
      quantizer_(*graph_, options),
      runner_(runner) {}

void Calibrator::Add(int pass, const TensorMap& feeds) {
  if (pass == 0) quantizer_.Keep(feeds);
  Show(pass, feeds);
}

void Calibrator::Probe(const TensorMap& feeds, int64_t first_sample) {
  quantizer_.SetProbing(true);
  Show(0, feeds);
  quantizer_.SetProbing(false);
  quantizer_.SetFirstSample(first_sample);
}

void Calibrator::Show(int pass, const TensorMap& feeds) {
  if (pass < 0 || pass >= quantizer_.passes()) {
    Fail(ErrorCode::kInvalidArgument, "no such calibration pass");
  }
  if (pass != session_pass_) {
    session_.reset();
    observed_ = quantizer_.observed_values(pass);
    SessionOptions options;
    options.runner = runner_;
    session_ = std::make_unique<Session>(WithTaps(quantizer_.graph(), observed_), options);
    session_pass_ = pass;
  }
  if (!quantizer_.wants_sample(pass)) return quantizer_.EndSample(pass);
  const std::vector<Tensor> results = session_->Run(feeds);
  const std::vector<Value*>& outputs = session_->graph().outputs();
  for (const std::string& name : observed_) {
    const auto feed = feeds.find(name);
    if (feed != feeds.end()) {
      quantizer_.Observe(pass, name, feed->second);
      continue;
    }
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (outputs[i]->name == name) quantizer_.Observe(pass, name, results[i]);
    }
  }
  quantizer_.EndSample(pass);
}

}  // namespace requant
