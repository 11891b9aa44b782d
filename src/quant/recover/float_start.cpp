// The first operators stay in float where the noise of 8 bits comes from them. Behind an image,
// channels are a small signal on a large mean (a range of 0..6, of which most pixels use a
// twentieth), and narrow layers multiply what rounding them costs: in MobileNets more than half of
// the noise of the outputs comes from the first three values. Their layers are few, and with three
// input channels integers are hardly faster there.
//
// Before: every operator on its grids
// After:  the first n operators in float, their result is quantized where the others read it
// Conditions: what is computed together is not divided; at most kMostShare of the network's
//   products become float.
// Formula: n has the largest (signal to noise of the outputs in dB) - kPrice * (share of the
//   products in float), over some samples; it must gain kLeastGain, or everything stays quantized.
#include <algorithm>
#include <cmath>

#include "base/str_cat.h"
#include "quant/assign.h"
#include "quant/recover/recovery.h"
#include "quant/recover/switch_off.h"
#include "quant/sim/simulator.h"

namespace requant {
namespace {

constexpr size_t kSamples = 16;
constexpr double kMostShare = 0.2;
constexpr double kPrice = 5;  // dB for all products of the network
constexpr double kLeastGain = 0.5;

/// "The first `nodes` nodes in float".
struct Cut {
  size_t nodes = 0;
  double products = 0;
  SnrMeter meter;
};

class FloatStart : public RecoveryJob {
 public:
  explicit FloatStart(const RecoveryContext& context)
      : context_(context), simulator_(context.graph, context.record) {
    for (auto& [name, bias] : context_.biases) {
      simulator_.SetWeights(context_.graph.FindNode(name), &bias);
    }
    count_ = std::min(kSamples, context_.samples.size());
    if (count_ == 0) {
      context_.record.warnings.push_back("float_start had no samples to measure with: skipped");
      return;
    }
    FindCuts();
  }

  FinishProgress Step() override {
    const auto total = static_cast<int64_t>(count_ * cuts_.size());
    if (at_ < count_ * cuts_.size()) {
      Measure(context_.samples[at_ / cuts_.size()], cuts_[at_ % cuts_.size()]);
      ++at_;
    }
    const bool finished = at_ >= count_ * cuts_.size();
    if (finished && count_ > 0) Apply();
    return {"", static_cast<int64_t>(at_), total, finished};
  }

  std::string detail() const override { return detail_; }

 private:
  /// Products of every layer by one sample, and where nothing is computed together.
  void FindCuts() {
    const std::vector<const Node*>& nodes = simulator_.nodes();
    Values values = simulator_.Start(context_.samples[0]);
    std::vector<double> products(nodes.size());
    for (size_t i = 0; i < nodes.size(); ++i) {
      simulator_.Run(values, SimMode::kFloat, i, i + 1);
      if (SimLayer* layer = simulator_.Layer(nodes[i])) {
        products[i] = static_cast<double>(values.at(nodes[i]->outputs[0]).count()) *
                      static_cast<double>(layer->math->view().k);
        all_ += products[i];
      }
    }
    cuts_.emplace_back();
    double sum = 0;
    size_t whole = 0;  // a cut before that node would divide what is computed together
    std::map<std::string, size_t> index;
    for (size_t i = 0; i < nodes.size(); ++i) index[nodes[i]->name] = i;
    for (size_t i = 0; i < nodes.size(); ++i) {
      sum += products[i];
      if (sum > kMostShare * all_) break;
      const OperatorQuantization* op = context_.record.Find(nodes[i]->name);
      if (op == nullptr || !op->quantized) continue;
      for (const std::string* other : {&op->activation, &op->absorbed_by}) {
        if (!other->empty()) whole = std::max(whole, index.at(*other) + 1);
      }
      if (i + 1 >= whole && op->rule != QuantRule::kPassive && i + 1 < nodes.size()) {
        cuts_.push_back({i + 1, sum, {}});
      }
    }
  }

  std::vector<std::string> QuantizedBefore(size_t end) const {
    std::vector<std::string> names;
    for (size_t i = 0; i < end; ++i) {
      const OperatorQuantization* op = context_.record.Find(simulator_.nodes()[i]->name);
      if (op != nullptr && op->quantized) names.push_back(simulator_.nodes()[i]->name);
    }
    return names;
  }

  void Measure(const TensorMap& sample, Cut& cut) {
    if (cut.nodes == 0) wanted_ = simulator_.Outputs(sample, SimMode::kFloat);
    const SwitchedOff off(context_.record, QuantizedBefore(cut.nodes));
    const std::vector<Tensor> got = simulator_.Outputs(sample, SimMode::kQuantized);
    for (size_t i = 0; i < got.size(); ++i) cut.meter.Add(wanted_[i], got[i]);
  }

  double Score(const Cut& cut) const {
    return cut.meter.ScoreDecibels() - (all_ > 0 ? kPrice * cut.products / all_ : 0);
  }

  void Apply() {
    const Cut& none = cuts_[0];
    const Cut& best =
        *std::max_element(cuts_.begin(), cuts_.end(),
                          [this](const Cut& a, const Cut& b) { return Score(a) < Score(b); });
    if (Score(best) < Score(none) + kLeastGain) {
      detail_ = "everything stays quantized";
      return;
    }
    const std::vector<std::string> names = QuantizedBefore(best.nodes);
    for (const std::string& name : names) {
      Dequantize(context_.record, name, "float_start keeps it in float");
      context_.biases.erase(name);
    }
    const double percent = all_ > 0 ? 100 * best.products / all_ : 0;
    detail_ = StrCat(names.size(), " operators, to '", names.back(), "', with ",
                     std::round(10 * percent) / 10, " % of the products stay in float");
  }

  RecoveryContext context_;
  Simulator simulator_;
  std::vector<Cut> cuts_;  // the first: none
  std::vector<Tensor> wanted_;
  double all_ = 0;  // products
  size_t count_ = 0, at_ = 0;
  std::string detail_;
};

}  // namespace

std::unique_ptr<RecoveryJob> MakeFloatStart(const RecoveryContext& context) {
  return std::make_unique<FloatStart>(context);
}

}  // namespace requant
