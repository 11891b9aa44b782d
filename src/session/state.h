// A session's state holds what its runs hand on: the keys and values of a decoder's past.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "interpret/interpreter.h"
#include "session/session.h"
#include "tensor/tensor.h"

namespace requant {

/// An input of the model, and the output that is its contents in the next run.
struct RememberedPair {
  std::string past, present;
  int axis = -1;      // of the tokens; -1: the only open one behind the first
  bool once = false;  // the first run computes it for good, as the keys of an encoder's result
  /// Float tokens [..., tokens, width] lie in memory as 8-bit codes with a scale for each token of
  /// each head (kernels/token_codes), if the pair stays in place.
  bool coded = false;
};

/// Remembers pairs for one sequence of runs (or one batch of sequences). A pair whose output is its
/// input with new tokens behind it, by a Concat or an attention operator, stays in place: a run
/// writes the new tokens only, and no run copies the old ones but when their room doubles. The
/// output of any other pair is moved to its input.
class SessionState {
 public:
  /// Nothing is remembered yet: inputs have 0 tokens. `room`: tokens for which memory is reserved
  /// at first. Throws kInvalidArgument for names and axes that do not fit the model, and what
  /// Session::WithState throws.
  SessionState(Session& session, std::vector<RememberedPair> pairs, int64_t room);

  /// Runs the model on the feeds and the state, and remembers the outputs of the pairs, which stay
  /// empty in the result. After an error the state is as before. Throws as Session::Run does, and
  /// kInvalidArgument for a feed that is remembered.
  std::vector<Tensor> Run(const TensorMap& feeds);

  const std::vector<RememberedPair>& pairs() const { return pairs_; }
  /// The tokens of a pair.
  int64_t tokens(size_t pair) const { return kept_[pair].tokens; }
  /// Whether the last run left the pair in place.
  bool in_place(size_t pair) const { return kept_[pair].in_place; }
  /// Whether the last run left the pair as codes.
  bool coded(size_t pair) const { return kept_[pair].coded; }
  /// Bytes of all pairs, with their room.
  size_t bytes() const;
  /// The session that runs, with the plan that ran last.
  const Session& session() const { return *session_; }

  /// Forgets the tokens of a pair from `tokens` on. Throws kInvalidArgument unless it has as many.
  void Truncate(size_t pair, int64_t tokens);
  /// Makes image i of the batch what images[i] was, for beams. Throws kInvalidArgument for an image
  /// that is not there.
  void Select(std::span<const int64_t> images);
  /// A copy, of the same session.
  SessionState Clone() const;
  /// A dense copy of a pair, codes as floats: the input that the next run reads. Empty before the
  /// first run.
  Tensor Get(size_t pair) const;
  /// Replaces a pair. Throws kTypeMismatch or kShapeMismatch for what the input cannot be.
  void Set(size_t pair, const Tensor& tensor);

 private:
  struct Kept {
    /// The memory has the pair's shape with `room` tokens, or bytes of codes in place of floats. It
    /// is empty before the first run.
    Tensor memory;
    bool coded = false;
    int64_t width = 0;  // floats of a coded token
    int64_t tokens = 0;
    bool in_place = false;
    int axis = 0;
    size_t output = 0;  // index of the pair's output
    int64_t room() const;
    /// A copy of the memory without room to spare.
    Tensor Dense() const;
    /// Makes codes of the floats in the memory, or floats of codes.
    void Recode(bool to_codes);
  };

  SessionState() = default;
  Tensor EmptyPast(const Value& input, int axis, const TensorMap& feeds) const;
  /// Gives a pair room for so many tokens, or exactly for those that it has.
  static void Reserve(Kept& kept, int64_t room);

  std::shared_ptr<Session> session_;
  std::vector<RememberedPair> pairs_;
  std::vector<Kept> kept_;
  int64_t first_room_ = 0;
  bool begun_ = false;
};

}  // namespace requant
