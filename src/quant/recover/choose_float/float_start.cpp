// Keeps the first operators in float if most of the noise of 8 bits comes from them. Close to an
// image, channels are a small signal on a large mean (in a range of 0..6 most pixels use a
// twentieth), and narrow layers amplify the noise of rounding them: in MobileNets more than half of
// the noise of the outputs comes from the first three values. These layers are few, and with three
// input channels integers are hardly faster than floats.
//
// Before: every operator is quantized
// After: the first n operators are in float, and their result is quantized where the others read it
// Conditions: fused operators are not divided; at most kMostShare of the network's products become
//   float.
// Formula: n has the largest (signal to noise ratio of the outputs in dB) - kPrice * (share of the
//   products in float), over some samples (float_trials.h).
#include "quant/recover/choose_float/float_trials.h"

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
