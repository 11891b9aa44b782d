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
#include <algorithm>
#include <cmath>

#include "base/str_cat.h"
#include "quant/recover/float_trials.h"

namespace requant {
namespace {

constexpr double kMostShare = 0.2;
constexpr double kPrice = 5;  // dB for all products of the network

/// The first nodes in float, as many as may be, wherever nothing is computed together.
void OfferStarts(FloatTrials& trials) {
  const std::vector<const Node*>& nodes = trials.nodes();
  std::map<std::string, size_t> index;
  for (size_t i = 0; i < nodes.size(); ++i) index[nodes[i]->name] = i;
  std::vector<std::string> names;
  double sum = 0;
  size_t whole = 0;  // a cut before that node would divide what is computed together
  for (size_t i = 0; i + 1 < trials.works().size(); ++i) {
    sum += trials.works()[i].products;
    if (sum > kMostShare * trials.all_products()) break;
    const OperatorQuantization* op = trials.context().record.Find(nodes[i]->name);
    if (op == nullptr || !op->quantized) continue;
    names.push_back(nodes[i]->name);
    for (const std::string* other : {&op->activation, &op->absorbed_by}) {
      if (!other->empty()) whole = std::max(whole, index.at(*other) + 1);
    }
    if (i + 1 < whole || op->rule == QuantRule::kPassive) continue;
    const double share = trials.all_products() > 0 ? sum / trials.all_products() : 0;
    trials.Offer({names,
                  {},
                  kPrice * share,
                  StrCat(names.size(), " operators, to '", names.back(), "', with ",
                         std::round(1000 * share) / 10, " % of the products stay in float")});
  }
}

}  // namespace

std::unique_ptr<RecoveryJob> MakeFloatStart(const RecoveryContext& context) {
  auto trials = std::make_unique<FloatTrials>(context, "float_start");
  OfferStarts(*trials);
  return trials;
}

}  // namespace requant
