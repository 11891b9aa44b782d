// Observer "auto". Which range is best depends on what reads the value: a clipped outlier may
// matter or not, and small values may be drowned by large weights. So every proposal is tried on
// some samples: the slot alone goes through its grid, and the operators that read it (with the
// clamp they compute) are compared with float, and so is the value itself where the network puts it
// out. The sum of their relative squared errors decides.
#include "quant/bake/choose_ranges.h"

#include <algorithm>
#include <cmath>

#include "quant/grid/affine.h"
#include "quant/sim/elements.h"
#include "quant/sim/simulator.h"

namespace requant {
namespace {

/// The first proposal, least squares, has seen all samples; others have to be clearly better on
/// these.
constexpr double kMargin = 0.9;
/// A difference of scales that no error shows: less than half a step over 255.
constexpr float kSameScale = 0.001f;

/// Squared errors by proposal and reader, powers by reader.
struct Trial {
  std::vector<std::vector<double>> noise;
  std::vector<double> signal;
  std::vector<bool> alive;

  void Add(size_t proposal, size_t reader, const Tensor& wanted, const Tensor& got) {
    if (signal.size() <= reader) signal.resize(reader + 1);
    if (noise[proposal].size() <= reader) noise[proposal].resize(reader + 1);
    const float* a = wanted.data<float>();
    const float* b = got.data<float>();
    double power = 0;
    double sum = 0;
    for (int64_t i = 0; i < wanted.count(); ++i) {
      const auto x = static_cast<double>(a[i]);
      const double error = x - static_cast<double>(b[i]);
      power += x * x;
      sum += error * error;
    }
    noise[proposal][reader] += sum;
    if (proposal == 0) signal[reader] += power;
  }
  double Error(size_t proposal) const {
    double sum = 0;
    for (size_t i = 0; i < noise[proposal].size(); ++i) {
      sum += noise[proposal][i] / (signal[i] + 1e-30);
    }
    return sum;
  }
  size_t Best() const {
    size_t best = 0;
    for (size_t i = 1; i < noise.size(); ++i) {
      const double limit = best == 0 ? kMargin * Error(0) : Error(best);
      if (alive[i] && Error(i) < limit) best = i;
    }
    return best;
  }
};

class Chooser : public RangeChooser {
 public:
  Chooser(const Graph& graph, QuantizationRecord& record,
          std::map<int, std::vector<RangeProposal>> proposals, std::span<const TensorMap> samples)
      : record_(record),
        proposals_(std::move(proposals)),
        samples_(samples),
        simulator_(graph, record) {
    for (const auto& [index, list] : proposals_) {
      Trial& trial = trials_[index];
      trial.noise.resize(list.size());
      trial.alive.assign(list.size(), true);
      // What is all but the same grid as an earlier proposal's needs no trial of its own.
      for (size_t i = 1; i < list.size(); ++i) {
        for (size_t earlier = 0; earlier < i; ++earlier) {
          if (trial.alive[earlier] && SameGrid(index, list[earlier], list[i])) {
            trial.alive[i] = false;
          }
        }
      }
    }
  }

  FinishProgress Step() override {
    const size_t count = samples_.size();
    if (shown_ < count) Show(samples_[shown_]);
    if (shown_ < count) {
      return {"auto", static_cast<int64_t>(shown_), static_cast<int64_t>(count), false};
    }
    Choose();
    return {"auto", static_cast<int64_t>(count), static_cast<int64_t>(count), true};
  }

 private:
  void Show(const TensorMap& feeds) {
    Values values = simulator_.Start(feeds);
    simulator_.Run(values, SimMode::kFloat, 0, simulator_.nodes().size(), false);
    for (const auto& [config, list] : proposals_) Try(config, list, values);
    ++shown_;
    // The further off, the sooner it is given up.
    const double most = shown_ == 2 ? 3 : shown_ == 4 ? 1.6 : shown_ % 8 == 0 ? 1.3 : 0;
    if (most == 0) return;
    for (auto& [config, trial] : trials_) {
      const double least = trial.Error(trial.Best());
      for (size_t i = 1; i < trial.noise.size(); ++i) {
        if (trial.alive[i] && trial.Error(i) > most * least) trial.alive[i] = false;
      }
    }
  }

  bool SameGrid(int index, const RangeProposal& a, const RangeProposal& b) const {
    const TensorQuantizationConfig& config = record_.configs[static_cast<size_t>(index)];
    const Affine first = AffineFromRange(a.range.min, a.range.max, config);
    const Affine second = AffineFromRange(b.range.min, b.range.max, config);
    return first.offset == second.offset && std::fabs(second.scale / first.scale - 1) <= kSameScale;
  }

  void Choose() {
    for (const auto& [index, list] : proposals_) {
      const Trial& trial = trials_.at(index);
      const size_t best = trial.Best();
      TensorQuantizationConfig& config = record_.configs[static_cast<size_t>(index)];
      if (best > 0) {
        config.ranges_tried = static_cast<int32_t>(list.size());
        config.error_percent =
            static_cast<int32_t>(std::lround(100 * trial.Error(best) / trial.Error(0)));
      }
      config.observer = list[best].observer;
      config.range_min = list[best].range.min;
      config.range_max = list[best].range.max;
    }
  }

  void Try(int index, const std::vector<RangeProposal>& list, const Values& values) {
    const Value* value =
        simulator_.graph().FindValue(record_.configs[static_cast<size_t>(index)].value);
    const auto held = values.find(value);
    if (held == values.end()) return;
    const Tensor& real = held->second;
    Trial& trial = trials_.at(index);
    if (std::count(trial.alive.begin(), trial.alive.end(), true) == 1) return;
    for (size_t i = 0; i < list.size(); ++i) {
      if (!trial.alive[i]) continue;
      TensorQuantizationConfig config = record_.configs[static_cast<size_t>(index)];
      const Affine affine = AffineFromRange(list[i].range.min, list[i].range.max, config);
      affine.PutInto(config);
      Tensor rounded = FakeQuantizeTensor(real, config);
      if (config.threshold != 0) {  // biases add the mean that such signs lack
        for (int64_t at = 0; at < rounded.count(); ++at) rounded.data<float>()[at] += affine.scale;
      }
      size_t reading = 0;
      for (const Node* reader : value->consumers) {
        const OperatorQuantization* op = record_.Find(reader->name);
        if (op == nullptr || !op->quantized || op->rule == QuantRule::kPassive) continue;
        AddReader(trial, i, reading++, *reader, *op, value, rounded, values);
      }
      if (reading == 0 || simulator_.graph().IsOutput(value)) trial.Add(i, reading, real, rounded);
    }
  }

  void AddReader(Trial& trial, size_t proposal, size_t reading, const Node& reader,
                 const OperatorQuantization& op, const Value* value, const Tensor& rounded,
                 const Values& values) {
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
    if (got.dtype() == DType::kFloat32) trial.Add(proposal, reading, values.at(result), got);
  }

  QuantizationRecord& record_;
  std::map<int, std::vector<RangeProposal>> proposals_;
  std::span<const TensorMap> samples_;
  Simulator simulator_;
  std::map<int, Trial> trials_;  // by config
  size_t shown_ = 0;
};

}  // namespace

std::unique_ptr<RangeChooser> MakeRangeChooser(const Graph& graph, QuantizationRecord& record,
                                               std::map<int, std::vector<RangeProposal>> proposals,
                                               std::span<const TensorMap> samples) {
  return std::make_unique<Chooser>(graph, record, std::move(proposals), samples);
}

}  // namespace requant
