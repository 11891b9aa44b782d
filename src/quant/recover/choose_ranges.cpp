// Observer "auto". Which range is best depends on what reads the value: a clipped outlier may
// matter or not, and small values may be drowned by large weights. So every proposal is tried on
// some samples: the slot alone goes through its grid, and the operators that read it (with the
// clamp they compute) are compared with float. The sum of their relative squared errors decides.
#include <algorithm>

#include "quant/affine.h"
#include "quant/recover/recovery.h"
#include "quant/sim/simulator.h"

namespace requant {
namespace {

class Chooser {
 public:
  Chooser(const Graph& graph, QuantizationRecord& record,
          const std::map<int, std::vector<RangeProposal>>& proposals)
      : record_(record), proposals_(proposals), simulator_(graph, record) {
    for (const auto& [config, list] : proposals) errors_[config].assign(list.size(), 0);
  }

  void Show(const TensorMap& feeds) {
    Values values = simulator_.Start(feeds);
    simulator_.Run(values, SimMode::kFloat, 0, simulator_.nodes().size(), false);
    for (const auto& [config, list] : proposals_) Try(config, list, values);
  }

  void Choose() {
    for (const auto& [index, list] : proposals_) {
      const std::vector<double>& errors = errors_.at(index);
      const auto best =
          static_cast<size_t>(std::min_element(errors.begin(), errors.end()) - errors.begin());
      TensorQuantizationConfig& config = record_.configs[static_cast<size_t>(index)];
      config.observer = list[best].observer;
      config.range_min = list[best].range.min;
      config.range_max = list[best].range.max;
    }
  }

 private:
  void Try(int index, const std::vector<RangeProposal>& list, const Values& values) {
    const Value* value =
        simulator_.graph().FindValue(record_.configs[static_cast<size_t>(index)].value);
    const auto held = values.find(value);
    if (held == values.end()) return;
    const Tensor& real = held->second;
    std::vector<double>& errors = errors_.at(index);
    for (size_t i = 0; i < list.size(); ++i) {
      TensorQuantizationConfig config = record_.configs[static_cast<size_t>(index)];
      const Affine affine = AffineFromRange(list[i].range.min, list[i].range.max, config);
      config.scale = {affine.scale};
      config.offset = {affine.offset};
      const Tensor rounded = FakeQuantizeTensor(real, config);
      bool read = false;
      for (const Node* reader : value->consumers) {
        const OperatorQuantization* op = record_.Find(reader->name);
        if (op == nullptr || !op->quantized || op->rule == QuantRule::kPassive) continue;
        errors[i] += ErrorOf(*reader, *op, value, rounded, values);
        read = true;
      }
      if (!read) errors[i] += Relative(real, rounded);
    }
  }

  static double Relative(const Tensor& wanted, const Tensor& got) {
    double signal = 1e-30;
    double noise = 0;
    const float* a = wanted.data<float>();
    const float* b = got.data<float>();
    for (int64_t i = 0; i < wanted.count(); ++i) {
      const auto x = static_cast<double>(a[i]);
      const double error = x - static_cast<double>(b[i]);
      signal += x * x;
      noise += error * error;
    }
    return noise / signal;
  }

  double ErrorOf(const Node& reader, const OperatorQuantization& op, const Value* value,
                 const Tensor& rounded, const Values& values) {
    std::vector<const Tensor*> inputs;
    for (const Value* input : reader.inputs) {
      inputs.push_back(input == nullptr       ? nullptr
                       : input == value       ? &rounded
                       : input->is_constant() ? &input->constant
                                              : &values.at(input));
    }
    Tensor got = simulator_.Evaluate(reader, inputs, nullptr, nullptr)[0];
    const Value* result = reader.outputs[0];
    if (!op.activation.empty()) {
      const Node* clamp = simulator_.graph().FindNode(op.activation);
      inputs = {&got};
      for (size_t slot = 1; slot < clamp->inputs.size(); ++slot) {
        inputs.push_back(clamp->constant(slot));
      }
      Tensor clamped = simulator_.Evaluate(*clamp, inputs, nullptr, nullptr)[0];
      got = std::move(clamped);
      result = clamp->outputs[0];
    }
    if (got.dtype() != DType::kFloat32) return 0;
    return Relative(values.at(result), got);
  }

  QuantizationRecord& record_;
  const std::map<int, std::vector<RangeProposal>>& proposals_;
  Simulator simulator_;
  std::map<int, std::vector<double>> errors_;
};

}  // namespace

void ChooseRanges(const Graph& graph, QuantizationRecord& record,
                  const std::map<int, std::vector<RangeProposal>>& proposals,
                  std::span<const TensorMap> samples) {
  Chooser chooser(graph, record, proposals);
  for (const TensorMap& sample : samples) chooser.Show(sample);
  chooser.Choose();
}

}  // namespace requant
