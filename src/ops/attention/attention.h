// The function of all attention operators, whatever their inputs look like:
//
//   y = softmax(softcap(scale * q k^T) + mask) v   for every head,   softcap(s) = c * tanh(s / c)
//
// with q [queries, width], k [keys, width], v [keys, value_width]. A query whose scores are all
// -infinity sees nothing: its weights and its y are 0 (onnx PR 8068). Several heads of q may share
// one of k and v (Ainslie et al., "GQA", 2023). The operators are Attention of ONNX,
// MultiHeadAttention and GroupQueryAttention of com.microsoft (onnxruntime
// docs/ContribOperators.md), and HeadsAttention of ai.requant, which only plans have
// (passes/fuse/fuse_attention.cpp makes it). That one is Attention of ONNX for q, k and v by head
// and has two things more:
//   - input 7 has the sinks [heads]: for every head the score of one more key, whose value is 0;
//   - with the attribute `by_token` y is [batch, queries, heads, value_width].
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ir/graph.h"
#include "tensor/tensor.h"

namespace requant {

/// The positions of an operand's heads: element i of token t of head h of image b is at offset + b
/// * batch + h * head + t * token + i.
struct HeadLayout {
  int64_t offset = 0, batch = 0, head = 0, token = 0;
  int64_t At(int64_t b, int64_t h, int64_t t = 0) const {
    return offset + b * batch + h * head + t * token;
  }
};

/// Describes the inputs and attributes of an attention node. It is plain data, since a saved plan
/// holds it as bytes.
struct AttentionForm {
  int64_t batch = 0, heads = 0, kv_heads = 0;
  int64_t queries = 0;  // tokens of q
  int64_t fresh = 0;    // tokens of k and v that come with this call
  int64_t past = 0;     // tokens from earlier calls, which precede the fresh ones
  int64_t keys = 0;     // all tokens of k and v, past and fresh
  int64_t width = 0, value_width = 0;
  HeadLayout q, k, v, y;
  float scale = 1;
  float softcap = 0;    // 0: none
  float forbidden = 0;  // addend of a score whose key a mask forbids
  // mask value of keys beyond the causal border, the window or the lengths
  float hidden = 0;
  int64_t window = -1;  // most keys that a query sees, itself included; -1: all
  bool causal = false;  // queries see no keys after themselves
  // GroupQueryAttention: the lengths, less one, say how many past and fresh tokens exist
  bool cached = false;
  bool first = false;  // cached: there are no past tokens
  // Input slots; -1: left out.
  int32_t k_slot = 1, v_slot = 2;
  int32_t past_k_slot = -1, past_v_slot = -1;
  int32_t mask_slot = -1;  // numbers to add or booleans, broadcast to [batch, heads, queries, keys]
  bool mask_pads = false;  // keys beyond the mask are forbidden
  int32_t padding_slot = -1;  // integers: which keys exist, one by one or by their number
  int32_t lengths_slot = -1;  // integers: how many keys exist, for every image
  int32_t sink_slot = -1;     // for every head the score of one more key, whose value is 0
  bool smooth = false;        // one more key with score and value 0
  // Rotary embedding of q and k (ops/attention/rotary.h).
  int32_t cos_slot = -1, sin_slot = -1, positions_slot = -1;
  bool interleaved = false;
  int64_t rotary_half = 0;       // pairs of elements that rotate
  int64_t rotary_positions = 0;  // rows of the caches

  int64_t group() const { return heads / kv_heads; }
  bool sinks() const { return sink_slot >= 0 || smooth; }
  /// Whether k and v must be joined with the past, or rotated, before they are read.
  bool joins() const { return past_k_slot >= 0 || cached || cos_slot >= 0; }
  bool masks() const {
    return mask_slot >= 0 || padding_slot >= 0 || lengths_slot >= 0 || causal || window >= 0;
  }
};

/// Whether a MultiHeadAttention adds a bias to q, k and v first, which AttentionForm cannot
/// express.
bool HasAttentionBias(const Node& node);

/// Whether the inputs of an attention node are those of Attention of ONNX.
inline bool HasOnnxOperands(const Node& node) {
  return node.Is(Op::kAttention) || node.Is(Op::kHeadsAttention);
}

/// The form of an attention node for inputs of these shapes (nullptr: left out). `total` is the
/// value of input 6 of GroupQueryAttention, the number of tokens with those of the past. Throws
/// kShapeMismatch or kInvalidModel for what does not fit, and kUnsupported, with the name of the
/// attribute or input, for forms that this engine lacks.
AttentionForm AttentionFormOf(const Node& node, std::span<const Shape* const> shapes,
                              int64_t total);

/// Memory for the keys or values of one image with their past: [kv_heads][keys][width], the heads
/// `head` elements apart.
struct JoinedTokens {
  float* data = nullptr;
  int64_t head = 0;
  bool has_past = false;  // it holds the past already
};

/// The inputs of an attention operator's run, read image by image.
class AttentionInputs {
 public:
  /// `inputs` are indexed by slot of the node and must outlive this object. Throws for lengths and
  /// positions that do not fit.
  AttentionInputs(const AttentionForm& form, std::span<const Tensor* const> inputs);

  const float* data(int32_t slot) const;
  /// Whether the masks of one image's heads differ.
  bool mask_per_head() const { return mask_per_head_; }
  /// Writes the numbers that are added to a head's scores: out[queries][keys].
  void Mask(int64_t b, int64_t h, float* out) const;
  /// Copies tokens from `first` on of one head of q, rotated if the form says so:
  /// out[count][width].
  void Queries(int64_t b, int64_t h, int64_t first, int64_t count, float* out) const;
  /// Copy k and v behind their past. Tokens without a past or a fresh one are 0.
  void Keys(int64_t b, const JoinedTokens& out) const;
  void Values(int64_t b, const JoinedTokens& out) const;

  /// Tokens of image b in its past, in front of the new ones.
  int64_t PastOf(int64_t b) const;

 private:
  int64_t Length(int64_t b) const;
  void AddMask(int64_t b, int64_t h, float* out) const;
  void AddPadding(int64_t b, float* out) const;
  void Hide(int64_t b, float* out) const;
  void Rotate(int64_t b, int64_t token, float* row) const;
  void Join(int64_t b, const float* past, const float* fresh, const HeadLayout& layout,
            int64_t width, bool rotate, const JoinedTokens& out) const;

  const AttentionForm& form_;
  std::span<const Tensor* const> inputs_;
  bool mask_per_head_ = false;
};

}  // namespace requant
