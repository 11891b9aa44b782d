#include "quant/recover/choose_float/float_trials.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/str_cat.h"
#include "quant/recover/choose_float/switch_off.h"

namespace requant {
namespace {

constexpr int64_t kSamples = 64;
/// Quick choices use as many samples as have this number of products together, but not fewer than
/// kLeastQuickSamples.
constexpr double kQuickProducts = 3e8;
constexpr size_t kLeastQuickSamples = 4;
/// So many choices stay in the running until the last sample.
constexpr size_t kLeastHalved = 3;
/// A trial holds all values of one sample three times; networks that would need more memory are not
/// tried.
constexpr double kMostBytes = 256e6;

bool Contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// The value that answers are read from: the only output, or the input of the softmax that makes it
/// probabilities. nullptr for other networks.
const Value* ScoresOf(const Graph& graph) {
  if (graph.outputs().size() != 1) return nullptr;
  const Value* scores = graph.outputs()[0];
  while (scores->producer && scores->producer->Is(Op::kSoftmax))
    scores = scores->producer->inputs[0];
  const bool rows = scores->type.shape.has_value() && scores->type.shape->size() == 2;
  return rows && scores->producer ? scores : nullptr;
}

}  // namespace

FloatTrials::FloatTrials(const RecoveryContext& context, const char* method, FloatGain gain,
                         double least_gain)
    : context_(context),
      method_(method),
      scores_(gain == FloatGain::kAnswers ? ScoresOf(context.graph) : nullptr),
      least_gain_(least_gain),
      simulator_(context.graph, context.record),
      end_(simulator_.nodes().size()) {
  for (auto& [name, bias] : context_.biases) {
    simulator_.SetWeights(context_.graph.FindNode(name), &bias);
  }
  if (scores_) {
    const auto last = std::find(nodes().begin(), nodes().end(), scores_->producer);
    end_ = static_cast<size_t>(last - nodes().begin()) + 1;
  }
  trials_.emplace_back();
  const int64_t most = context_.options.quick_choices ? kQuickSamples : kSamples;
  count_ = std::min(static_cast<size_t>(most), context_.samples.size());
  FindCuts();
  if (count_ > 0) {
    MeasureWork();
    if (context_.options.quick_choices) {
      const double enough = kQuickProducts / std::max(1.0, all_.products);
      count_ =
          std::min(count_, std::max(kLeastQuickSamples,
                                    static_cast<size_t>(std::min(enough, double{kQuickSamples}))));
    }
    if (all_.results * sizeof(float) > kMostBytes) {
      count_ = 0;
      detail_ = StrCat("not tried: the values of one sample take ",
                       static_cast<int64_t>(all_.results * sizeof(float) / 1e6), " MB");
    }
  } else {
    context_.record.warnings.push_back(StrCat(method_, " had no samples to measure with: skipped"));
  }
}

void FloatTrials::FindCuts() {
  std::map<std::string, size_t> index;
  for (size_t i = 0; i < nodes().size(); ++i) index[nodes()[i]->name] = i;
  size_t together = 0;  // the last node that is fused with one of those before i
  for (size_t i = 0; i < nodes().size(); ++i) {
    whole_.push_back(i == 0 || i > together);
    const OperatorQuantization* op = context_.record.Find(nodes()[i]->name);
    if (op == nullptr) continue;
    for (const std::string* other : {&op->activation, &op->absorbed_by}) {
      if (!other->empty()) together = std::max(together, index.at(*other));
    }
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
    if (const LayerMath* math = simulator_.Math(node)) {
      works_[i].products = works_[i].results * static_cast<double>(math->view().k);
      works_[i].weights = static_cast<double>(math->weight_count());
    }
    all_.products += works_[i].products;
    all_.results += works_[i].results;
    all_.weights += works_[i].weights;
  }
}

FinishProgress FloatTrials::Step() {
  if (trials_.size() == 1 || count_ == 0) return {"", 0, 0, true};
  if (pass_.end == 0) BeginPass();
  if (trial_ == pass_.begin) {
    float_ = quantized_ = simulator_.Start(context_.samples[sample_]);
    simulator_.Run(float_, SimMode::kFloat, 0, nodes().size(), false);
    simulator_.Run(quantized_, SimMode::kQuantized, 0, nodes().size(), false);
  }
  Measure(trials_[trial_]);
  ++measured_;
  bool finished = false;
  if (++trial_ == pass_.end) {
    trial_ = pass_.begin;
    if (++sample_ == count_) {
      finished = EndPass();
    } else {
      DropWorse();
    }
  }
  const size_t rest = finished ? 0
                               : (count_ - sample_) * (pass_.end - pass_.begin) - trial_ +
                                     pass_.begin + count_ * (trials_.size() - pass_.end);
  const auto done = static_cast<int64_t>(measured_);
  return {"", done, done + static_cast<int64_t>(rest), finished};
}

/// Drops the worse half of the choices behind the samples 2, 4, 8, ..., so that a choice among many
/// takes little longer than one among a few (successive halving).
void FloatTrials::DropWorse() {
  if (context_.options.quick_choices || sample_ < 2 || !std::has_single_bit(sample_)) return;
  const size_t first = std::max<size_t>(pass_.begin, 1);
  const size_t kept = std::max(kLeastHalved, (pass_.end - first + 1) / 2);
  std::vector<double> scores;
  for (size_t i = first; i < pass_.end; ++i) scores.push_back(Score(trials_[i]));
  if (scores.size() <= kept) return;
  std::sort(scores.begin(), scores.end());
  const double least = scores[scores.size() - kept];
  const auto begin = trials_.begin() + static_cast<ptrdiff_t>(first);
  const auto end = trials_.begin() + static_cast<ptrdiff_t>(pass_.end);
  const auto dropped =
      std::remove_if(begin, end, [&](const Trial& trial) { return Score(trial) < least; });
  pass_.end -= static_cast<size_t>(end - dropped);
  trials_.erase(dropped, end);
}

double FloatTrials::Score(const Trial& trial) const {
  const double score = Gain(trial) - trial.choice.price;
  return std::isnan(score) ? -HUGE_VAL : score;
}

/// Selects the trials of the next pass. If decibels count, one pass runs all of them. If answers
/// count, the first pass runs without a choice, and with the most expensive one, which is the last
/// that was offered.
void FloatTrials::BeginPass() {
  pass_.end = trials_.size();
  if (scores_ == nullptr) return;
  std::rotate(trials_.begin() + 1, trials_.end() - 1, trials_.end());
  pass_.end = 2;
}

/// Ends a pass; true after the last. Choices whose price exceeds the gain of the most expensive one
/// are dropped without a trial.
bool FloatTrials::EndPass() {
  if (pass_.end < trials_.size()) {
    const double most = Gain(trials_[1]) - Gain(trials_[0]) - least_gain_;
    const auto rest = trials_.begin() + 2;
    trials_.erase(std::remove_if(rest, trials_.end(),
                                 [&](const Trial& trial) { return trial.choice.price > most; }),
                  trials_.end());
    sample_ = 0;
    trial_ = 2;
    pass_ = {2, trials_.size()};
    if (trials_.size() > 2) return false;
  }
  Apply();
  return true;
}

/// The number of leading nodes that compute the same with the choice as without it in that mode.
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

void FloatTrials::Measure(Trial& trial) {
  const size_t in_float = Shared(trial.choice, SimMode::kFloat);
  const size_t as_before = Shared(trial.choice, SimMode::kQuantized);
  Values values = in_float > as_before ? float_ : quantized_;
  const SwitchedOff off(context_.record, trial.choice.operators, trial.choice.layers);
  simulator_.Run(values, SimMode::kQuantized, std::max(in_float, as_before), end_);
  if (scores_) {
    if (&trial == trials_.data()) odds_.Add(float_.at(scores_));
    trial.meter.Add(float_.at(scores_), values.at(scores_));
    return;
  }
  const std::vector<Tensor> wanted = simulator_.Outputs(float_);
  const std::vector<Tensor> got = simulator_.Outputs(values);
  for (size_t i = 0; i < got.size(); ++i) trial.meter.Add(wanted[i], got[i]);
}

double FloatTrials::Gain(const Trial& trial) const {
  return scores_ ? odds_.Kept(trial.meter.ScoreVariance()) : trial.meter.ScoreDecibels();
}

void FloatTrials::Apply() {
  const Trial& best =
      *std::max_element(trials_.begin(), trials_.end(),
                        [&](const Trial& a, const Trial& b) { return Score(a) < Score(b); });
  if (Score(best) < Score(trials_[0]) + least_gain_) return;
  for (const std::string& name : best.choice.operators) {
    Dequantize(context_.record, name, StrCat(method_, " keeps it in float"));
    context_.biases.erase(name);
  }
  for (const std::string& name : best.choice.layers) DequantizeResult(context_.record, name);
  applied_ = true;
  detail_ = best.choice.detail;
}

void OfferStarts(FloatTrials& trials, double most, double price, double apart) {
  const std::vector<const Node*>& nodes = trials.nodes();
  const double all = std::max(1.0, trials.all().products);
  std::vector<std::string> names;
  double sum = 0;
  double gained = 0;  // products that become float
  double last = 0;    // their share in the offer before
  for (size_t i = 0; i + 1 < trials.works().size(); ++i) {
    sum += trials.works()[i].products;
    if (sum > most * all) break;
    const OperatorQuantization* op = trials.context().record.Find(nodes[i]->name);
    if (op == nullptr || !op->quantized) continue;
    names.push_back(nodes[i]->name);
    gained += trials.works()[i].products;
    if (!trials.MayCutBefore(i + 1) || op->rule == QuantRule::kPassive) continue;
    const double share = gained / all;
    if (share < last + apart) continue;
    last = share;
    trials.Offer({names,
                  {},
                  price * share,
                  StrCat(names.size(), " operators, to '", names.back(), "', with ",
                         std::round(1000 * share) / 10, " % of the products stay in float")});
  }
}

}  // namespace requant
