// InferType
// Before: values with the types that the file declares, maybe none.
// After:  every output has what its operator's inference gives, joined with the declared type.
// Conditions: dtypes must agree; ranks must agree; two known sizes must agree. A known size wins
//   over a symbol, an inferred symbol over a declared one (it is the one the inputs use).
// Formula: the operators' inference (OpDef::infer), node by node in order, with dimensions as
//   numbers or symbols; two types that hold for one value are joined dimension by dimension.
#include "passes/shape/infer_type.h"

#include <algorithm>

#include "base/error.h"
#include "base/str_cat.h"
#include "ops/op.h"
#include "passes/pass.h"

namespace requant {
namespace {

[[noreturn]] void Contradiction(ErrorCode code, const Node& node, const Value& value,
                                const ValueType& inferred) {
  Fail(code,
       StrCat("value '", value.name, "' is declared as ", TypeToString(value.type), ", but ",
              node.op_type, " computes ", TypeToString(inferred)),
       {.node = node.name,
        .value = value.name,
        .hint = "the file's type information is wrong: remove or correct it"});
}

ValueType Join(const Node& node, const Value& value, ValueType inferred) {
  const ValueType& declared = value.type;
  ValueType out = inferred;
  if (inferred.dtype == DType::kUndefined) {
    out.dtype = declared.dtype;
  } else if (declared.dtype != DType::kUndefined && declared.dtype != inferred.dtype) {
    Contradiction(ErrorCode::kTypeMismatch, node, value, inferred);
  }
  if (!inferred.shape) {
    out.shape = declared.shape;
    return out;
  }
  if (!declared.shape) return out;
  if (declared.shape->size() != inferred.shape->size()) {
    Contradiction(ErrorCode::kShapeMismatch, node, value, inferred);
  }
  for (size_t i = 0; i < out.shape->size(); ++i) {
    const Dim& a = (*inferred.shape)[i];
    const Dim& b = (*declared.shape)[i];
    if (a.known() && b.known() && a.value != b.value) {
      Contradiction(ErrorCode::kShapeMismatch, node, value, inferred);
    }
    if (!a.known() && (b.known() || a.symbol.empty())) (*out.shape)[i] = b;
  }
  return out;
}

/// Whether types are spelled the same: here two dimensions without number or symbol are equal.
bool SameType(const ValueType& a, const ValueType& b) {
  if (a.dtype != b.dtype || a.shape.has_value() != b.shape.has_value()) return false;
  if (!a.shape) return true;
  return std::equal(a.shape->begin(), a.shape->end(), b.shape->begin(), b.shape->end(),
                    [](const Dim& x, const Dim& y) {
                      return x == y || (!x.known() && !y.known() && x.symbol == y.symbol);
                    });
}

}  // namespace

bool InferNodeTypes(Graph& graph, Node& node) {
  if (node.typed) return false;
  std::vector<ValueType> types = InferNode(graph, node);
  node.typed = true;
  bool changed = false;
  for (size_t slot = 0; slot < node.outputs.size(); ++slot) {
    Value* output = node.outputs[slot];
    if (output == nullptr) continue;
    ValueType joined = Join(node, *output, slot < types.size() ? types[slot] : ValueType{});
    if (SameType(joined, output->type)) continue;
    output->type = std::move(joined);
    graph.TypeChanged(output);
    changed = true;
  }
  return changed;
}

bool InferTypes(Graph& graph) {
  bool changed = false;
  for (const auto& node : graph.nodes()) changed = InferNodeTypes(graph, *node) || changed;
  return changed;
}

bool InferType(Graph& graph, PassContext&) { return InferTypes(graph); }

}  // namespace requant
