// Attention whose products are of bytes (PlanOptions::int8_activations).
//
//   scores   queries and keys are bytes with one scale for each token. Keys are coded less their
//            mean over the tokens, which adds the same number to all scores of a query, so that
//            their softmax does not change (SageAttention, arXiv 2410.02367); not where a cap or
//            sinks follow, which see that number.
//   shares   16 bits, as two bytes: with 8 bits, many keys with small shares would all get none.
//   context  values are bytes with one scale for each channel; a product each for the high and the
//            low bytes of the shares.
//
// Sums are integers, and no product of floats is fused: every kernel gives the same bits.
#pragma once

#include <optional>
#include <vector>

#include "kernels/conv/table.h"
#include "plan/builder.h"
#include "plan/lower/sequence/attention_step.h"

namespace requant {

/// Byte offsets in the part of a lane that the step places itself.
struct BytePlaces {
  size_t rotated = 0;                           // queries as floats, if they are rotated
  size_t queries = 0, high = 0, low = 0;        // codes of a panel
  size_t query_factors = 0, share_factors = 0;  // of a panel
  size_t key_factors = 0, offset = 0;           // of all keys, and their mean
  size_t value_factors = 0, high_factors = 0;   // of all channels; the second 256 times the first
  size_t codes = 0;                             // of keys or values, before they are packed
  size_t workspace = 0;                         // of the kernel
};

/// The products of a panel and what they need.
struct ByteProducts {
  ConvQ8Params scores, mix;  // without pointers
  ConvWeightsLayout keys, values;
  size_t packed_keys = 0, packed_values = 0;  // bytes
  BytePlaces places;
};

/// What PlanByteAttention() chose.
struct PlannedBytes {
  ByteProducts products;
  const ConvQ8Kernel* kernel = nullptr;
  size_t own = 0;  // bytes of a lane
};

/// Plans attention in bytes; nullopt where it is slower than in floats (few queries or keys, or a
/// machine that does not multiply whole bytes, unless a kernel is forced), or where sizes exceed
/// what the kernels take.
std::optional<PlannedBytes> PlanByteAttention(const PlanBuilder& builder, const AttentionForm& form,
                                              int64_t panel);

/// Adds the step; the caller sets the fields of AttentionStep and its workspace.
AttentionStep& AddByteAttention(PlanBuilder& builder, const Node& node, const PlannedBytes& planned,
                                const std::vector<int>& inputs, const std::vector<int>& outputs);

}  // namespace requant
