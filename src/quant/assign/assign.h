// Decides which operators are quantized and gives every slot of the graph its config.
#pragma once

#include <map>
#include <set>
#include <string>

#include "ir/graph.h"
#include "quant/config/record.h"
#include "quant/config/settings.h"

namespace requant {

/// Makes the record: operators, their configs (not joined yet), absorbed activations and table
/// regions. `reasons` names operators that stay in float whatever the options say, and why.
QuantizationRecord AssignConfigs(const Graph& graph, const QuantizeOptions& options,
                                 const std::map<std::string, std::string>& reasons = {});

// --- functions that reading a Q/DQ file uses as well

/// How the quantizer treats a node: the operator table's rule, with Relu and Clip as functions.
QuantRule RuleOf(const Node& node);
/// The constant slots of the weight and of the bias that operators of that rule have; -1 when the
/// rule has none.
int WeightSlot(const Node& node, QuantRule rule);
int BiasSlot(const Node& node, QuantRule rule);
/// The axis of the weight that is the output channel; -1 when no operator can express scales per
/// channel.
int WeightAxis(const Node& node, QuantRule rule);
/// Whether an operator with weights can write its accumulators as floats.
bool HasFloatForm(const Node& node, QuantRule rule);
/// nullptr when integer operators can express the node, else the reason why they cannot; considers
/// the node alone, without its neighbors.
const char* WhyFloat(const Graph& graph, const Node& node, QuantRule rule,
                     const std::set<const Value*>& soi);
/// Whether integer operators compute the node on codes of 8 bits, but not of 16: a ConvTranspose, a
/// convolution of volumes, a product of two computed matrices.
bool LacksWideForm(const Node& node, QuantRule rule);
inline constexpr const char* kNoIntegerOperator = "it has no integer operator";
/// Whether the node is a Softmax, LayerNormalization or RMSNormalization. The quantizer may choose
/// an integer operator for it although its rule is kFloat.
bool IsNormalization(const Node& node);
/// WhyFloat of such a node whose options ask for integers.
const char* WhyFloatNormalization(const Node& node);
/// Whether the node is a function of one 8-bit value, all its other inputs being scalar constants.
bool IsTableCandidate(const Node& node, QuantRule rule);

/// Whether a quantized operator can only be computed by a table and has none so far (Add, Sub and
/// Mul have integer operators). After FindFusions it is a function of two values and has to be
/// float.
bool NeedsTable(const Node& node, const OperatorQuantization& op);

/// Finds Relu and Clip that their producers compute and regions that fold into one table, among the
/// quantized operators, and sets activation, absorbed_by and table anew. Values among `barriers`
/// must exist as integers, so nothing is fused across them.
void FindFusions(const Graph& graph, QuantizationRecord& record,
                 const std::set<const Value*>& barriers = {});

/// Whether the value exists in 8 bits: its producer is quantized, is not computed by another
/// operator and does not write floats.
bool IsMaterialized(const QuantizationRecord& record, const Value* value);
/// Whether the value exists neither in 8 bits nor in float, because one operator computes its
/// producer and its reader.
bool IsInside(const QuantizationRecord& record, const Value* value);

}  // namespace requant
