// Keeps more of the first operators in float where answers depend on it: the classes of a narrow
// network lie so close that noise which others tolerate changes one answer in ten. Before this
// method, float_start and float_sums took the cheap gains; the remaining noise is spread evenly.
//
// Before: the first operators that float_start chose are in float, and some sums
// After: the first n operators are in float
// Conditions: the network's output is the scores of classes; fused operators are not divided; at
//   most a share of the network's products is in float (Choices).
// Formula: n has the largest (answers of 100 that stay those of float, given the noise of the
//   scores) - kPrice * (share of the products that become float), over some samples
//   (float_trials.h, sim/answers.h).
#include "quant/recover/choose_float/float_trials.h"

namespace requant {
namespace {

constexpr double kPrice = 3;  // answers of 100 for all products of the network
struct Choices {
  double most;   // largest share of the products in float
  double apart;  // least difference of the shares of two choices
};
constexpr Choices kThorough = {0.6, 0.04};
constexpr Choices kQuick = {0.45, 0.1};

}  // namespace

std::unique_ptr<RecoveryJob> MakeFloatAnswers(const RecoveryContext& context) {
  auto trials = std::make_unique<FloatTrials>(context, "float_answers", FloatGain::kAnswers);
  if (trials->scores()) {
    const Choices& choices = context.options.quick_choices ? kQuick : kThorough;
    OfferStarts(*trials, choices.most, kPrice, choices.apart);
  } else {
    trials->Say("the output is not the scores of classes");
  }
  return trials;
}

}  // namespace requant
