// Keeps the sums of residual networks in float. Otherwise the value that goes from block to block
// is rounded again and again, as the result of a layer and then as a sum, and every later sum
// carries all of this noise. In float it is rounded only where a layer reads it, to that layer's
// grid, and the sums are exact. There are few such values compared with the products: blocks are
// wide inside and narrow in between.
//
// Before: QLinearConv -> QLinearAdd -> QLinearConv
// After:  layer with its accumulators as floats -> Add -> QuantizeLinear -> QLinearConv
//                                                     `-> the next Add
// Conditions: the sums add two computed values, and may include the activation that they compute;
//   the layers whose results they add have no activation. Sums that share a value (a chain, usually
//   all blocks of one width) become float together.
// Formula: among the last n chains, as images get smaller and values fewer, the n with the largest
//   (signal to noise ratio of the outputs in dB) - kPrice * kProducts * (values in float) /
//   (products of the network), over some samples (float_trials.h); quick choices count answers of
//   100 instead of dB, less kQuickPrice.
#include <algorithm>
#include <set>

#include "base/str_cat.h"
#include "quant/assign/assign.h"
#include "quant/recover/choose_float/float_trials.h"

namespace requant {
namespace {

constexpr double kPrice = 5;       // dB for the time of all products
constexpr double kQuickPrice = 3;  // answers of 100 for the time of all products
// products that take the time of one more value in float (measured: 10 to 16)
constexpr double kProducts = 18;

struct Chain {
  std::vector<std::string> sums;
  std::set<std::string> layers;   // layers whose results the chain adds
  std::set<const Value*> values;  // values that the sums read and write
};

class Chains {
 public:
  explicit Chains(FloatTrials& trials) : trials_(trials) {
    for (size_t i = 0; i < trials.works().size(); ++i) {
      results_[trials.nodes()[i]->name] = trials.works()[i].results;
      Find(*trials.nodes()[i]);
    }
  }

  void Offer() const {
    FloatChoice choice;
    size_t sums = 0;
    double floats = 0;
    for (auto chain = chains_.rbegin(); chain != chains_.rend(); ++chain) {
      for (const std::string& name : chain->sums) {
        choice.operators.push_back(name);
        const std::string& activation = trials_.context().record.Find(name)->activation;
        if (!activation.empty()) choice.operators.push_back(activation);
        floats += results_.at(name);
      }
      for (const std::string& name : chain->layers) {
        choice.layers.push_back(name);
        floats += results_.at(name);
      }
      sums += chain->sums.size();
      const double price = trials_.scores() ? kQuickPrice : kPrice;
      choice.price = price * kProducts * floats / std::max(1.0, trials_.all().products);
      choice.detail =
          StrCat(sums, " sums, from '", chain->sums[0], "' on, and what ", choice.layers.size(),
                 " layers add to them stay in float: ", static_cast<int64_t>(floats), " values");
      trials_.Offer(choice);
    }
    if (chains_.empty()) trials_.Say("there are no quantized sums of two computed values");
  }

 private:
  /// The quantization of a node that computes integers by itself, neither in a table nor simulated;
  /// nullptr for other nodes.
  const OperatorQuantization* Alone(const Node* node) const {
    const OperatorQuantization* op = node ? trials_.context().record.Find(node->name) : nullptr;
    const bool alone = op && op->quantized && !op->simulated && !op->float_output &&
                       op->table.empty() && op->absorbed_by.empty();
    return alone ? op : nullptr;
  }

  void Find(const Node& node) {
    const OperatorQuantization* op = Alone(&node);
    if (op == nullptr || !node.Is(Op::kAdd) || node.inputs[0]->is_constant() ||
        node.inputs[1]->is_constant()) {
      return;
    }
    const Node* last =
        op->activation.empty() ? &node : trials_.context().graph.FindNode(op->activation);
    Chain chain;
    chain.sums = {node.name};
    chain.values = {node.inputs[0], node.inputs[1], last->outputs[0]};
    for (const Value* input : node.inputs) {
      const OperatorQuantization* layer = Alone(input->producer);
      if (layer && HasFloatForm(*input->producer, layer->rule) && layer->activation.empty()) {
        chain.layers.insert(input->producer->name);
      }
    }
    Join(std::move(chain));
  }

  /// Merges the chain with all chains that share a value with it.
  void Join(Chain chain) {
    for (auto other = chains_.begin(); other != chains_.end();) {
      if (std::none_of(chain.values.begin(), chain.values.end(),
                       [&](const Value* value) { return other->values.contains(value); })) {
        ++other;
        continue;
      }
      chain.sums.insert(chain.sums.begin(), other->sums.begin(), other->sums.end());
      chain.layers.insert(other->layers.begin(), other->layers.end());
      chain.values.insert(other->values.begin(), other->values.end());
      other = chains_.erase(other);
    }
    chains_.push_back(std::move(chain));
  }

  FloatTrials& trials_;
  std::map<std::string, double> results_;  // by node
  std::vector<Chain> chains_;
};

}  // namespace

std::unique_ptr<RecoveryJob> MakeFloatSums(const RecoveryContext& context) {
  // Quick choices count answers: decibels that change no answer are worth less than the speed of
  // integers.
  const FloatGain gain = context.options.quick_choices ? FloatGain::kAnswers : FloatGain::kDecibels;
  auto trials = std::make_unique<FloatTrials>(context, "float_sums", gain);
  Chains(*trials).Offer();
  return trials;
}

}  // namespace requant
