// Keeps the last operators in float if they cost next to nothing: behind the last mean over an
// image, a small classifier reads a few numbers, and rounding these adds as much noise as rounding
// a whole layer before.
//
// Before: QLinearConv -> QLinearGlobalAveragePool -> QGemm
// After: QLinearConv -> DequantizeLinear -> GlobalAveragePool -> Gemm
// Conditions: fused operators are not divided; at most kMostProducts of the network's products
//   become float, and at most kMostWeights of its weights, as these take four times the bytes.
// Formula: the last n operators with the largest signal to noise ratio of the outputs in dB, over
//   some samples (float_trials.h).
#include "base/str_cat.h"
#include "quant/recover/choose_float/float_trials.h"

namespace requant {
namespace {

constexpr double kMostProducts = 0.01;
constexpr double kMostWeights = 0.02;
constexpr double kLeastGain = 0.1;  // dB; small, as they cost nothing

void OfferEnds(FloatTrials& trials) {
  FloatChoice choice;
  double products = 0;
  double weights = 0;
  for (size_t i = trials.works().size(); i-- > 1;) {
    products += trials.works()[i].products;
    weights += trials.works()[i].weights;
    if (products > kMostProducts * trials.all().products ||
        weights > kMostWeights * trials.all().weights) {
      break;
    }
    const std::string& name = trials.nodes()[i]->name;
    const OperatorQuantization* op = trials.context().record.Find(name);
    if (op == nullptr || !op->quantized) continue;
    choice.operators.push_back(name);
    if (!trials.MayCutBefore(i) || op->rule == QuantRule::kPassive) continue;
    choice.detail = StrCat("the last ", choice.operators.size(), " operators, from '", name,
                           "' on, stay in float");
    trials.Offer(choice);
  }
}

}  // namespace

std::unique_ptr<RecoveryJob> MakeFloatEnd(const RecoveryContext& context) {
  auto trials =
      std::make_unique<FloatTrials>(context, "float_end", FloatGain::kDecibels, kLeastGain);
  OfferEnds(*trials);
  return trials;
}

}  // namespace requant
