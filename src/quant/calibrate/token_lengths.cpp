#include "quant/calibrate/token_lengths.h"

#include <algorithm>
#include <limits>

#include "base/str_cat.h"

namespace requant {
namespace {

constexpr int64_t kUnseen = std::numeric_limits<int64_t>::max();

}  // namespace

TokenLengths::TokenLengths(const Graph& graph) {
  for (const Value* input : graph.inputs()) {
    const DType dtype = input->type.dtype;
    if ((dtype != DType::kInt64 && dtype != DType::kInt32) || !input->type.shape) continue;
    for (size_t axis = 1; axis < input->type.shape->size(); ++axis) {
      const Dim& dim = (*input->type.shape)[axis];
      if (!dim.known()) places_.push_back({input->name, dim.symbol, axis});
    }
  }
  least_.assign(places_.size(), kUnseen);
  most_.assign(places_.size(), -1);
}

void TokenLengths::See(const TensorMap& feeds) {
  for (size_t i = 0; i < places_.size(); ++i) {
    const auto feed = feeds.find(places_[i].input);
    if (feed == feeds.end() || places_[i].axis >= feed->second.shape().size()) continue;
    const int64_t length = feed->second.shape()[places_[i].axis];
    least_[i] = std::min(least_[i], length);
    most_[i] = std::max(most_[i], length);
  }
}

void TokenLengths::Merge(const TokenLengths& later) {
  for (size_t i = 0; i < places_.size(); ++i) {
    least_[i] = std::min(least_[i], later.least_[i]);
    most_[i] = std::max(most_[i], later.most_[i]);
  }
}

void TokenLengths::Fields(StateBytes& state) {
  state.SameList(least_);
  state.SameList(most_);
}

std::string TokenLengths::Warning() const {
  // One warning is enough: tokens, their mask and their types share a length.
  for (size_t i = 0; i < places_.size(); ++i) {
    if (most_[i] < 0 || least_[i] != most_[i]) continue;
    const std::string& symbol = places_[i].symbol;
    const std::string name =
        symbol.empty() ? StrCat("axis ", places_[i].axis) : StrCat("dimension '", symbol, "'");
    return StrCat("all samples have the length ", most_[i], " in ", name, " of '", places_[i].input,
                  "', which may vary: the ranges of longer inputs were not seen; calibrate with "
                  "inputs as long as the longest that will run");
  }
  return {};
}

}  // namespace requant
