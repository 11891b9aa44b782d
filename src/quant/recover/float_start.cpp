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
//   products in float), over some samples (float_trials.h).
#include "quant/recover/float_trials.h"

namespace requant {
namespace {

constexpr double kMostShare = 0.2;
constexpr double kPrice = 5;  // dB for all products of the network

}  // namespace

std::unique_ptr<RecoveryJob> MakeFloatStart(const RecoveryContext& context) {
  auto trials = std::make_unique<FloatTrials>(context, "float_start");
  OfferStarts(*trials, kMostShare, kPrice);
  return trials;
}

}  // namespace requant
