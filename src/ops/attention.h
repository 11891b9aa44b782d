// What all attention operators compute, whatever their inputs look like:
//
//   y = softmax(softcap(scale * q k^T) + mask) v   for every head,   softcap(s) = c * tanh(s / c)
//
// with q [queries, width], k [keys, width], v [keys, value_width]. A query whose scores are all
// -infinity sees nothing: its weights and its y are 0 (onnx PR 8068). Several heads of q may share
// one of k and v (Ainslie et al., "GQA", 2023). The operators: Attention of ONNX,
// MultiHeadAttention and GroupQueryAttention of com.microsoft (onnxruntime
// docs/ContribOperators.md).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ir/graph.h"
#include "tensor/tensor.h"

namespace requant {

/// Where an operand's heads lie: element i of token t of head h of image b is at
/// offset + b * batch + h * head + t * token + i.
struct HeadLayout {
  int64_t offset = 0, batch = 0, head = 0, token = 0;
  int64_t At(int64_t b, int64_t h, int64_t t = 0) const {
    return offset + b * batch + h * head + t * token;
  }
};

/// Plain data: a saved plan holds it as bytes.
struct AttentionForm {
  int64_t batch = 0, heads = 0, kv_heads = 0;
  int64_t queries = 0;  // tokens of q
  int64_t fresh = 0;    // tokens of k and v that come with this call
  int64_t past = 0;     // tokens kept from calls before: in front of them
  int64_t keys = 0;     // tokens of the present k and v, all together
  int64_t width = 0, value_width = 0;
  HeadLayout q, k, v, y;
  float scale = 1;
  float softcap = 0;    // 0: none
  float forbidden = 0;  // what a score of 0 becomes where a mask forbids it
  float hidden = 0;     // the same beyond the causal border, the window and the lengths
  int64_t window = -1;  // keys that a query sees at most, itself included; -1: all
  bool causal = false;  // queries see no keys behind themselves
  bool cached = false;  // GroupQueryAttention: the lengths, less one, say how much of past and
                        // fresh tokens is there
  bool first = false;   // cached: nothing of the past is
  // Input slots; -1: there is none.
  int32_t k_slot = 1, v_slot = 2;
  int32_t past_k_slot = -1, past_v_slot = -1;
  int32_t mask_slot = -1;  // numbers to add or booleans, broadcast to [batch, heads, queries, keys]
  bool mask_pads = false;  // what the mask lacks of the keys is forbidden
  int32_t padding_slot = -1;  // integers: keys that are there, by element or by their number
  int32_t lengths_slot = -1;  // integers: keys that are there, for every image
  int32_t sink_slot = -1;     // for every head the score of one more key, whose value is 0
  bool smooth = false;        // the same with a score of 0
  // Rotary embedding of q and k (ops/rotary.h).
  int32_t cos_slot = -1, sin_slot = -1, positions_slot = -1;
  bool interleaved = false;
  int64_t rotary_half = 0;       // pairs that turn
  int64_t rotary_positions = 0;  // rows of the caches

  int64_t group() const { return heads / kv_heads; }
  bool sinks() const { return sink_slot >= 0 || smooth; }
  /// Whether k and v can be read where they are.
  bool joins() const { return past_k_slot >= 0 || cached || cos_slot >= 0; }
  bool masks() const {
    return mask_slot >= 0 || padding_slot >= 0 || lengths_slot >= 0 || causal || window >= 0;
  }
};

/// A MultiHeadAttention that adds a bias to q, k and v first, which no AttentionForm says.
bool HasAttentionBias(const Node& node);

/// The form of an attention node for inputs of these shapes (nullptr: left out). `total` is what
/// input 6 of GroupQueryAttention says, the tokens with those of the past. Throws kShapeMismatch or
/// kInvalidModel for what does not fit and kUnsupported, with the name of the attribute or input,
/// for what this engine does not have.
AttentionForm AttentionFormOf(const Node& node, std::span<const Shape* const> shapes,
                              int64_t total);

/// What a run of an attention operator reads, image by image.
class AttentionInputs {
 public:
  /// `inputs` by slot of the node; they must outlive this. Throws for lengths and positions that do
  /// not fit.
  AttentionInputs(const AttentionForm& form, std::span<const Tensor* const> inputs);

  const float* data(int32_t slot) const;
  /// Whether the masks of one image's heads differ.
  bool mask_per_head() const { return mask_per_head_; }
  /// What is added to the scores of a head: out[queries][keys].
  void Mask(int64_t b, int64_t h, float* out) const;
  /// The tokens from `first` on of one head of q, rotated if the form says so: out[count][width].
  void Queries(int64_t b, int64_t h, int64_t first, int64_t count, float* out) const;
  /// k and v with the past in front: out[kv_heads][keys][width or value_width]. `out` is zero.
  void Keys(int64_t b, float* out) const;
  void Values(int64_t b, float* out) const;

 private:
  int64_t Length(int64_t b) const;
  int64_t PastOf(int64_t b) const;
  void AddMask(int64_t b, int64_t h, float* out) const;
  void AddPadding(int64_t b, float* out) const;
  void Hide(int64_t b, float* out) const;
  void Rotate(int64_t b, int64_t token, float* row) const;
  void Join(int64_t b, const float* past, const float* fresh, const HeadLayout& layout,
            int64_t width, bool rotate, float* out) const;

  const AttentionForm& form_;
  std::span<const Tensor* const> inputs_;
  bool mask_per_head_ = false;
};

}  // namespace requant
