#include "ops/op.h"

#include <algorithm>
#include <array>
#include <new>
#include <stdexcept>

#include "base/checked_math.h"
#include "base/error.h"
#include "base/str_cat.h"
#include "ops/own_op.h"
#include "ops/table.h"

namespace requant {

namespace {

/// Turns what standard containers throw for sizes from the model into our Error.
[[noreturn]] void NoMemory(const Node& node) {
  Fail(ErrorCode::kOutOfMemory, StrCat(node.op_type, " needs more memory than there is"),
       {.node = node.name});
}

}  // namespace

namespace {

/// The other operators of a model that this engine does not know: " (nor is B, C)", or "".
std::string OtherUnknownOps(const Graph& graph, const Node& first) {
  std::string out;
  for (const auto& node : graph.nodes()) {
    if (node->Is(first.op_type, first.domain) || FindOp(*node)) continue;
    const std::string name =
        node->domain.empty() ? node->op_type : StrCat(node->domain, "::", node->op_type);
    if (out.find(name) == std::string::npos) out += StrCat(out.empty() ? " (nor is " : ", ", name);
  }
  return out.empty() ? out : out + ")";
}

/// Returns the remedy that an error names for an operator that this engine does not know.
const char* RemedyFor(const Node& node) {
  for (const char* op : {"BeamSearch", "GreedySearch", "Sampling", "WhisperBeamSearch"}) {
    if (node.op_type != op) continue;
    return "export the decoder alone, and choose tokens in JavaScript after each run";
  }
  return "replace the operator or split the model before it";
}

}  // namespace

const Tensor& EvalContext::input(size_t slot) const {
  if (!has(slot)) {
    Fail(ErrorCode::kInvalidModel, StrCat("input ", slot, " of ", node.op_type, " is missing"),
         {.node = node.name});
  }
  return *inputs[slot];
}

const OpDef* FindOp(std::string_view name, std::string_view domain) {
  if (domain == "ai.onnx") domain = "";
  for (const OpDef* row : OpTable()) {
    if (!name.empty() && name[0] == row->name[0] && name == row->name && domain == row->domain) {
      return row;
    }
  }
  for (const OpDef* row : OwnOps()) {
    if (name == row->name && domain == row->domain) return row;
  }
  return nullptr;
}

std::vector<const OpDef*>& OwnOps() {
  static std::vector<const OpDef*> rows;
  return rows;
}

const OpDef* FindOp(const Node& node) {
  using Rows = std::array<const OpDef*, static_cast<size_t>(Op::kCount)>;
  static const Rows rows = [] {
    Rows made = {};
    for (size_t i = 1; i < made.size(); ++i) {
      made[i] = FindOp(OpName(static_cast<Op>(i)), OpDomain(static_cast<Op>(i)));
    }
    return made;
  }();
  return node.op == Op::kOther ? FindOp(node.op_type, node.domain)
                               : rows[static_cast<size_t>(node.op)];
}

bool IsRandom(const Node& node) {
  const OpDef* op = FindOp(node);
  return op != nullptr && op->random;
}

const OpDef& OpOf(const Graph& graph, const Node& node) {
  const OpDef* op = FindOp(node);
  const auto full = [&node] {
    return node.domain.empty() ? node.op_type : StrCat(node.domain, "::", node.op_type);
  };
  if (op == nullptr) {
    Fail(ErrorCode::kUnsupported,
         StrCat("operator ", full(), " is not supported", OtherUnknownOps(graph, node)),
         {.node = node.name, .hint = RemedyFor(node)});
  }
  // The exporters of QONNX leave out the import.
  const bool needs_import = node.domain.empty() || node.domain == kMicrosoftDomain;
  if (needs_import && !graph.opsets.contains(node.domain)) {
    Fail(ErrorCode::kInvalidModel, StrCat("the model does not import the domain of ", full()),
         {.node = node.name, .hint = "add the domain to opset_import"});
  }
  if (graph.opset(node.domain) < op->since_version) {
    Fail(ErrorCode::kUnsupported,
         StrCat(full(), " of opset ", graph.opset(node.domain), " is too old"),
         {.node = node.name, .hint = StrCat("convert the model to opset ", op->since_version)});
  }
  const auto inputs = static_cast<int>(node.inputs.size());
  const auto outputs = static_cast<int>(node.outputs.size());
  if (inputs < op->min_inputs || inputs > op->max_inputs || outputs < 1 ||
      outputs > op->max_outputs) {
    Fail(ErrorCode::kInvalidModel,
         StrCat(full(), " has ", inputs, " inputs and ", outputs, " outputs, which it cannot have"),
         {.node = node.name});
  }
  for (int slot = 0; slot < op->min_inputs; ++slot) {
    if (node.inputs[static_cast<size_t>(slot)] == nullptr) {
      Fail(ErrorCode::kInvalidModel, StrCat("input ", slot, " of ", full(), " is missing"),
           {.node = node.name});
    }
  }
  return *op;
}

namespace {

/// Throws kInvalidModel for a tensor whose bytes no int64 counts. Empty ones may have dimensions of
/// any size beside the 0.
void CheckSize(const ValueType& type) {
  if (!type.shape) return;
  const auto is_empty = [](const Dim& dim) { return dim.known() && dim.value == 0; };
  if (std::any_of(type.shape->begin(), type.shape->end(), is_empty)) return;
  int64_t bytes = 8;
  for (const Dim& dim : *type.shape) {
    if (dim.known()) bytes = CheckedMul64(bytes, dim.value);
  }
}

}  // namespace

std::vector<ValueType> InferNode(const Graph& graph, const Node& node, BodyTypes* bodies) {
  try {
    const OpDef& op = OpOf(graph, node);
    InferContext context{graph, node, graph.opset(node.domain), {}, {}, {}, bodies};
    for (const Value* input : node.inputs) {
      context.inputs.push_back(input ? input->type : ValueType{});
      CheckSize(context.inputs.back());
      context.constants.push_back(input && input->is_constant() ? &input->constant : nullptr);
    }
    context.outputs.resize(node.outputs.size());
    op.infer(context);
    return std::move(context.outputs);
  } catch (Error& error) {
    error.AddNode(node.name);
    throw;
  }
}

Tensor EvalContext::Output(size_t slot, DType dtype, const Shape& shape) const {
  const bool fits =
      slot < places.size() && places[slot].dtype() == dtype && places[slot].shape() == shape;
  return fits ? places[slot] : Tensor(dtype, shape);
}

std::vector<Tensor> EvaluateNode(const Graph& graph, const Node& node,
                                 std::span<const Tensor* const> inputs, RequantizeMode requantize,
                                 BodyRunner* bodies, std::span<const Tensor> places) {
  try {
    const OpDef& op = OpOf(graph, node);
    EvalContext context{node, graph.opset(node.domain), requantize, inputs, {}, bodies};
    context.places = places;
    if (graph.opsets.contains("")) context.onnx_opset = graph.opset("");
    context.outputs.resize(node.outputs.size());
    op.evaluate(context);
    return std::move(context.outputs);
  } catch (Error& error) {
    error.AddNode(node.name);
    throw;
  } catch (const std::bad_alloc&) {
    NoMemory(node);
  } catch (const std::length_error&) {
    NoMemory(node);
  }
}

}  // namespace requant
