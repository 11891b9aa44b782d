#include "quant/recover/float_trials.h"

#include <algorithm>

#include "base/str_cat.h"
#include "quant/recover/switch_off.h"

namespace requant {
namespace {

constexpr size_t kSamples = 32;
constexpr double kLeastGain = 0.5;  // dB

bool Contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

FloatTrials::FloatTrials(const RecoveryContext& context, const char* method)
    : context_(context), method_(method), simulator_(context.graph, context.record) {
  for (auto& [name, bias] : context_.biases) {
    simulator_.SetWeights(context_.graph.FindNode(name), &bias);
  }
  trials_.emplace_back();
  count_ = std::min(kSamples, context_.samples.size());
  if (count_ > 0) {
    MeasureWork();
  } else {
    context_.record.warnings.push_back(StrCat(method_, " had no samples to measure with: skipped"));
  }
}

void FloatTrials::MeasureWork() {
  works_.resize(nodes().size());
  Values values = simulator_.Start(context_.samples[0]);
  for (size_t i = 0; i < works_.size(); ++i) {
    const Node* node = nodes()[i];
    simulator_.Run(values, SimMode::kFloat, i, i + 1);
    const auto result = values.find(node->outputs[0]);
    if (result == values.end()) continue;
    works_[i].results = static_cast<double>(result->second.count());
    if (SimLayer* layer = simulator_.Layer(node)) {
      works_[i].products = works_[i].results * static_cast<double>(layer->math->view().k);
      all_products_ += works_[i].products;
    }
  }
}

FinishProgress FloatTrials::Step() {
  const size_t total = trials_.size() > 1 ? count_ * trials_.size() : 0;
  if (at_ < total) {
    Measure(context_.samples[at_ / trials_.size()], trials_[at_ % trials_.size()]);
    ++at_;
  }
  const bool finished = at_ >= total;
  if (finished && total > 0) Apply();
  return {"", static_cast<int64_t>(at_), static_cast<int64_t>(total), finished};
}

/// How many of the first nodes compute with the choice what they do in that mode without it.
size_t FloatTrials::Shared(const FloatChoice& choice, SimMode mode) const {
  size_t at = 0;
  for (; at < nodes().size(); ++at) {
    const std::string& name = nodes()[at]->name;
    const OperatorQuantization* op = context_.record.Find(name);
    const bool off = Contains(choice.operators, name);
    if (mode == SimMode::kFloat ? op != nullptr && op->quantized && !off
                                : off || Contains(choice.layers, name)) {
      break;
    }
  }
  return at;
}

void FloatTrials::Measure(const TensorMap& sample, Trial& trial) {
  if (&trial == trials_.data()) {
    float_ = quantized_ = simulator_.Start(sample);
    simulator_.Run(float_, SimMode::kFloat, 0, nodes().size(), false);
    simulator_.Run(quantized_, SimMode::kQuantized, 0, nodes().size(), false);
  }
  const size_t in_float = Shared(trial.choice, SimMode::kFloat);
  const size_t as_before = Shared(trial.choice, SimMode::kQuantized);
  Values values = in_float > as_before ? float_ : quantized_;
  const SwitchedOff off(context_.record, trial.choice.operators, trial.choice.layers);
  simulator_.Run(values, SimMode::kQuantized, std::max(in_float, as_before), nodes().size());
  const std::vector<Tensor> wanted = simulator_.Outputs(float_);
  const std::vector<Tensor> got = simulator_.Outputs(values);
  for (size_t i = 0; i < got.size(); ++i) trial.meter.Add(wanted[i], got[i]);
}

void FloatTrials::Apply() {
  const auto score = [](const Trial& trial) {
    return trial.meter.ScoreDecibels() - trial.choice.price;
  };
  const Trial& best =
      *std::max_element(trials_.begin(), trials_.end(),
                        [&](const Trial& a, const Trial& b) { return score(a) < score(b); });
  if (score(best) < score(trials_[0]) + kLeastGain) return;
  for (const std::string& name : best.choice.operators) {
    Dequantize(context_.record, name, StrCat(method_, " keeps it in float"));
    context_.biases.erase(name);
  }
  for (const std::string& name : best.choice.layers) DequantizeResult(context_.record, name);
  detail_ = best.choice.detail;
}

}  // namespace requant
