// More of the first operators stay in float where answers depend on it: the classes of a narrow
// network lie so close that noise which others do not feel changes one answer in ten. float_start
// and float_sums have taken what is cheap by then, and what is left is spread evenly.
//
// Before: the first operators in float, as far as float_start went, and some sums
// After:  the first n operators in float
// Conditions: the network's output is the scores of classes; what is computed together is not
//   divided; at most a share of the network's products is float (Choices).
// Formula: n has the largest (answers of 100 that stay those of float, by the noise of the scores)
//   - kPrice * (share of the products that become float), over some samples (float_trials.h,
//   sim/answers.h).
#include "quant/recover/float_trials.h"

namespace requant {
namespace {

constexpr double kPrice = 3;  // answers of 100 for all products of the network
struct Choices {
  double most;   // share of the products that may be float
  double apart;  // and between two choices
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
