// More of the first operators stay in float where answers depend on it: the classes of a narrow
// network lie so close that noise which others do not feel changes one answer in ten. float_start
// and float_sums have taken what is cheap by then, and what is left is spread evenly.
//
// Before: the first operators in float, as far as float_start went, and some sums
// After:  the first n operators in float
// Conditions: the network's output is the scores of classes; what is computed together is not
//   divided; at most kMostShare of the network's products are float.
// Formula: n has the largest (answers of 100 that stay those of float, by the noise of the scores)
//   - kPrice * (share of the products that become float), over some samples (float_trials.h,
//   sim/answers.h).
#include "quant/recover/float_trials.h"

namespace requant {
namespace {

constexpr double kMostShare = 0.6;
constexpr double kPrice = 3;     // answers of 100 for all products of the network
constexpr double kApart = 0.04;  // share of the products between two choices

}  // namespace

std::unique_ptr<RecoveryJob> MakeFloatAnswers(const RecoveryContext& context) {
  auto trials = std::make_unique<FloatTrials>(context, "float_answers", FloatGain::kAnswers);
  if (trials->scores()) {
    OfferStarts(*trials, kMostShare, kPrice, kApart);
  } else {
    trials->Say("the output is not the scores of classes");
  }
  return trials;
}

}  // namespace requant
