// A model whose control flow follows from an input: a merged decoder has one graph for the first
// tokens and one for a token with a past, and the input use_cache_branch says which one runs.
#pragma once

#include <memory>

#include "base/late_function.h"
#include "interpret/interpreter.h"
#include "plan/stages.h"
#include "session/options.h"

namespace requant {

class Session;

/// A session for each value that the switches of a model have had: the booleans among its inputs
/// that choose a branch of an If. In these sessions the branches are taken, so that they run by
/// plans like models without control flow.
class Variants {
 public:
  virtual ~Variants() = default;
  /// The session for the switches in these feeds, made where there is none; nullptr for feeds that
  /// do not fit them. Removes the switches, which that session does not have.
  virtual Session* For(TensorMap& feeds) = 0;
};

/// The variants of a model, or nullptr for one without switches.
std::unique_ptr<Variants> MakeVariants(const PreparedModel& model, const SessionOptions& options);

extern const LateFunction<decltype(MakeVariants)> kMakeVariants;

}  // namespace requant
