// Notices that all samples of a language model have one length. Ranges of activations grow with the
// number of tokens, so that longer inputs leave the ranges that short samples showed.
#pragma once

#include <string>
#include <vector>

#include "interpret/interpreter.h"
#include "ir/graph.h"
#include "quant/observers/state_bytes.h"

namespace requant {

/// Watches the open dimensions of inputs of integers (tokens, masks), but for the first one, which
/// is the batch.
class TokenLengths {
 public:
  explicit TokenLengths(const Graph& graph);
  void See(const TensorMap& feeds);
  /// Adds what another object for the same graph saw.
  void Merge(const TokenLengths& later);
  void Fields(StateBytes& state);
  /// A warning for the record when all samples had one length in an open dimension; else "".
  std::string Warning() const;

 private:
  struct Place {
    std::string input, symbol;
    size_t axis = 0;
  };
  std::vector<Place> places_;
  std::vector<int64_t> least_, most_;  // by place
};

}  // namespace requant
