// Decides which slots share one quantization: a union-find whose parent links are the configs'
// dominators.
#pragma once

#include "ir/graph.h"
#include "quant/config/record.h"

namespace requant {

/// Whether one config could decide for both: same integers, same policy bits.
bool CanJoin(const QuantizationRecord& record, int a, int b);
/// Makes `parent`'s dominator decide for all configs of `child`'s set; the child's dominator
/// becomes OVERLAPPED. Returns false and does nothing when they cannot join, or when the options
/// give the child a scale that is not the parent's. Index -1 joins nothing.
bool Join(QuantizationRecord& record, int child, int parent);

/// Makes all joins of a newly assigned record that do not depend on ranges, in this order:
/// operators and the activations they compute, regions of a table, a value between its producer and
/// consumers, passive operators.
void JoinConfigs(const Graph& graph, QuantizationRecord& record);
/// Joins a Concat's result with its constants and with those of its operands that nobody else
/// reads, for operands with similar ranges (separate_concats.h).
void JoinConcats(const Graph& graph, QuantizationRecord& record);

/// Config of the slot through which the value's producer writes it; -1 when there is none.
int OutputConfig(const QuantizationRecord& record, const Value* value);

}  // namespace requant
