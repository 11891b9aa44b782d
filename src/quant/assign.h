// Decides which operators are quantized and gives every slot of the graph its config.
#pragma once

#include <map>
#include <set>
#include <string>

#include "ir/graph.h"
#include "quant/record.h"
#include "quant/settings.h"

namespace requant {

/// Operators, their configs (not joined yet), absorbed activations and table regions. `reasons`: by
/// name, operators that stay in float whatever the options say, and why.
QuantizationRecord AssignConfigs(const Graph& graph, const QuantizeOptions& options,
                                 const std::map<std::string, std::string>& reasons = {});

// --- pieces that reading a Q/DQ file needs, too

/// The quantizer's view of a node: the operator table's rule, with Relu and Clip as functions.
QuantRule RuleOf(const Node& node);
/// The constant slots that an operator of that rule wants: the weight's and the bias' slot have
/// their own treatment. -1 when the rule has none.
int WeightSlot(const Node& node, QuantRule rule);
int BiasSlot(const Node& node, QuantRule rule);
/// Axis of the weight that is the output channel; -1 when scales per channel have no spelling.
int WeightAxis(const Node& node, QuantRule rule);
/// Whether an operator with weights can write its accumulators as floats.
bool HasFloatForm(const Node& node, QuantRule rule);
/// Nullptr when integer operators can express the node, else the reason why not: what depends on
/// the node alone, not on its neighbours.
const char* WhyFloat(const Graph& graph, const Node& node, QuantRule rule,
                     const std::set<const Value*>& soi);
inline constexpr const char* kNoIntegerOperator = "it has no integer operator";
/// A function of one 8-bit value when all of `node`'s other inputs are scalar constants.
bool IsTableCandidate(const Node& node, QuantRule rule);

/// Whether a quantized operator (Add, Sub and Mul have integer operators of their own) can only be
/// a table, and is none so far. After FindFusions it is a function of two values and has to be
/// float.
bool NeedsTable(const Node& node, const OperatorQuantization& op);

/// Finds Relu/Clip computed by their producers and regions that fold into one table, among the
/// operators with quantized == true, and fills in activation, absorbed_by and table anew. A value
/// among `barriers` must exist as integers, so that nothing is fused across it.
void FindFusions(const Graph& graph, QuantizationRecord& record,
                 const std::set<const Value*>& barriers = {});

/// True when the value exists in 8 bits: its producer is quantized, is not computed by another one
/// and does not write floats.
bool IsMaterialized(const QuantizationRecord& record, const Value* value);
/// True when the value exists neither in 8 bits nor in float: one operator computes its producer
/// and its reader.
bool IsInside(const QuantizationRecord& record, const Value* value);

}  // namespace requant
