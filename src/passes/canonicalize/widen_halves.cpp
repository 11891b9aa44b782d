// WidenHalves
// Before: values of float16 or bfloat16
// After:  values of float32. Inputs and outputs of the model keep their types, with a Cast behind
// or
//   before them. A Cast of the model to a half type stays, and rounds, for outputs and for Casts
//   that read it; other operators read float32 numbers that are not rounded, as in onnxruntime-web,
//   which drops such pairs. Bodies compute in float32, too. Constants stay in 16 bits in memory
//   where only products and convolutions read them (Tensor::Widened); Gather takes rows of a
//   constant in 16 bits.
// Conditions: none. Attributes that name a half type as a result's name float32 afterwards.
// Formula: every number of a half type is a float32. Results are those of float32 arithmetic: they
//   are not rounded to 16 bits between operators.
#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "ops/op.h"
#include "passes/pass.h"
#include "passes/rewrite.h"
#include "passes/shape/infer_type.h"
#include "tensor/half.h"

namespace requant {
namespace {

constexpr auto kFloat = static_cast<int64_t>(DType::kFloat32);
/// Smaller constants become floats at once.
constexpr size_t kLeastBytes = 1024;

bool IsHalfNumber(int64_t number) {
  return number > 0 && number < 256 && IsHalf(static_cast<DType>(number));
}

bool IsCastToHalf(const Node* node) {
  return node && node->Is(Op::kCast) && IsHalfNumber(node->attributes.Int("to", 0));
}

/// Whether the node only moves the elements of its first input.
bool IsMover(const Node& node) {
  constexpr const char* kMovers[] = {"Transpose", "Reshape",  "Squeeze",
                                     "Unsqueeze", "Identity", "Flatten"};
  return node.domain.empty() && std::any_of(std::begin(kMovers), std::end(kMovers),
                                            [&node](const char* op) { return node.Is(op); });
}

bool IsHalfConstant(const Value* value) {
  return value && value->is_constant() && IsHalf(value->constant.dtype());
}

/// Whether the node is a Gather of rows of a constant in 16 bits.
bool IsRowsOfHalves(const Node* node) {
  return node && node->Is(Op::kGather) && IsHalfConstant(node->input(0));
}

/// Whether every reader of a constant of 16 bits packs its floats for a product or convolution, or
/// reads the 16 bits.
bool AreOnlyWeights(const Value* value) {
  const auto packs = [value](const Node& node) {
    if (node.Is(Op::kCast) || (IsRowsOfHalves(&node) && node.input(1) != value)) return true;
    const bool weighted = node.Is(Op::kConv) || node.Is(Op::kMatMul) || node.Is(Op::kGemm);
    return weighted && std::count(node.inputs.begin(), node.inputs.end(), value) == 1 &&
           node.input(1) == value;
  };
  return std::all_of(value->consumers.begin(), value->consumers.end(), [&](const Node* node) {
    if (!node->has_subgraph()) return packs(*node);
    size_t next = node->formal_inputs();
    const auto formal = node->inputs.begin() + static_cast<std::ptrdiff_t>(next);
    bool all = std::find(node->inputs.begin(), formal, value) == formal;
    for (const auto& [name, attribute] : node->attributes.entries()) {
      const auto* body = std::get_if<Subgraph>(&attribute);
      if (body == nullptr) continue;
      const auto& inputs = (*body)->inputs();
      for (size_t i = inputs.size() - (*body)->captured; i < inputs.size(); ++i, ++next) {
        if (node->inputs[next] == value) all = all && AreOnlyWeights(inputs[i]);
      }
    }
    return all;
  });
}

class Widener {
 public:
  Widener(Graph& graph, bool is_body) : graph_(graph), is_body_(is_body) {}

  bool Run() {
    for (size_t i = 0; i < graph_.nodes().size();) {
      Node* node = graph_.nodes()[i].get();
      if (!TakeConstant(node) && !MoveConstant(node)) ++i;
    }
    const std::vector<std::pair<Value*, DType>> undeclared = UndeclaredOutputs();
    for (const auto& node : graph_.nodes()) {
      WidenBodies(*node);
      WidenAttributes(*node);
    }
    std::vector<Value*> values;
    for (const auto& value : graph_.values()) {
      const bool half = IsHalf(value->type.dtype) || IsHalfConstant(value.get()) ||
                        IsCastToHalf(value->producer) || IsRowsOfHalves(value->producer);
      if (half) values.push_back(value.get());
    }
    for (Value* value : values) WidenValue(value);
    if (!changed_) return false;
    for (const auto& node : graph_.nodes()) node->typed = false;
    graph_.SortTopologically();
    RemoveDeadNodes(graph_);
    if (undeclared.empty()) return true;
    InferTypes(graph_);
    for (const auto& [output, dtype] : undeclared) {
      if (output->type.dtype != DType::kFloat32) continue;
      output->type.dtype = dtype;
      NarrowOutput(output);
    }
    graph_.SortTopologically();
    return true;
  }

 private:
  /// Outputs of the model for which it declares no type, and the type of 16 bits that they have if
  /// they are floats: that of operands, where none is a float32.
  std::vector<std::pair<Value*, DType>> UndeclaredOutputs() const {
    std::vector<std::pair<Value*, DType>> found;
    std::map<const Value*, DType> traced;
    const auto type_of = [&traced](const Value* value) {
      if (value->type.dtype != DType::kUndefined) return value->type.dtype;
      const auto known = traced.find(value);
      return known == traced.end() ? DType::kUndefined : known->second;
    };
    for (const auto& node : graph_.nodes()) {
      DType dtype = DType::kUndefined;
      if (node->Is(Op::kCast)) {
        dtype = static_cast<DType>(node->attributes.Int("to", 0) & 255);
      } else {
        for (const Value* input : node->inputs) {
          const DType own = input ? type_of(input) : DType::kUndefined;
          const bool decides = own == DType::kFloat32 || (IsHalf(own) && !IsHalf(dtype));
          if (decides && dtype != DType::kFloat32) dtype = own;
        }
      }
      for (Value* output : node->outputs) {
        if (output == nullptr || output->type.dtype != DType::kUndefined) continue;
        traced[output] = dtype;
        if (IsHalf(dtype) && !is_body_ && graph_.IsOutput(output) && !node->Is(Op::kCast)) {
          found.emplace_back(output, dtype);
        }
      }
    }
    return found;
  }

  /// Whether the node's only result can become a constant.
  bool IsOnlyRead(const Node& node) const {
    const Value* output = node.output();
    return node.outputs.size() == 1 && output && !output->consumers.empty() &&
           !graph_.IsOutput(output);
  }

  /// Makes the result of a Constant node a constant.
  bool TakeConstant(Node* node) {
    const Tensor* tensor =
        node->Is(Op::kConstant) ? node->attributes.TensorValue("value") : nullptr;
    if (tensor == nullptr || !IsHalf(tensor->dtype()) || !IsOnlyRead(*node)) return false;
    graph_.MakeConstant(node->output(), Tensor(*tensor));  // erases the node
    return changed_ = true;
  }

  /// Computes a node that moves the elements of a constant, in 16 bits.
  bool MoveConstant(Node* node) {
    if (!IsMover(*node) || !IsHalfConstant(node->input(0)) || !IsOnlyRead(*node)) return false;
    std::vector<const Tensor*> inputs;
    for (const Value* input : node->inputs) {
      if (input && !input->is_constant()) return false;
      inputs.push_back(input ? &input->constant : nullptr);
    }
    Tensor moved = std::move(EvaluateNode(graph_, *node, inputs, RequantizeMode::kFloat)[0]);
    graph_.MakeConstant(node->output(), std::move(moved));
    return changed_ = true;
  }

  void WidenBodies(Node& node) {
    std::vector<AttributeMap::Entry> made;
    for (const auto& [name, attribute] : node.attributes.entries()) {
      const auto* given = std::get_if<Subgraph>(&attribute);
      if (given == nullptr) continue;
      auto body = std::make_shared<Graph>((*given)->Clone());
      if (Widener(*body, true).Run()) made.emplace_back(name, Subgraph(std::move(body)));
    }
    for (auto& [name, body] : made) node.attributes.Set(name, std::move(body));
    changed_ = changed_ || !made.empty();
  }

  void WidenAttributes(Node& node) {
    if (node.Is("CastLike") && node.inputs.size() == 2 && node.inputs[1]) {
      const Value* like = node.inputs[1];
      int64_t to =
          static_cast<int64_t>(like->is_constant() ? like->constant.dtype() : like->type.dtype);
      if (IsCastToHalf(like->producer)) to = like->producer->attributes.Int("to", 0);
      if (IsHalfNumber(to)) {
        graph_.RemoveNodeInput(&node, 1);
        node.Retype(Op::kCast);
        node.attributes.Set("to", to);
        changed_ = true;
      }
      return;
    }
    if (node.Is(Op::kCast)) return;
    std::vector<AttributeMap::Entry> made;
    for (const auto& [name, attribute] : node.attributes.entries()) {
      const auto* number = std::get_if<int64_t>(&attribute);
      const auto* tensor = std::get_if<Tensor>(&attribute);
      const bool names_type = name.ends_with("dtype") || name.ends_with("datatype") ||
                              name.ends_with("precision") || name == "stash_type";
      if (number && names_type && IsHalfNumber(*number)) made.emplace_back(name, kFloat);
      if (tensor && IsHalf(tensor->dtype())) made.emplace_back(name, Wide(*tensor, false));
    }
    for (auto& [name, attribute] : made) node.attributes.Set(name, std::move(attribute));
    changed_ = changed_ || !made.empty();
  }

  /// The floats of a constant, which stays in 16 bits if it is large and only packed.
  static Tensor Wide(const Tensor& half, bool is_only_packed) {
    Tensor wide = Tensor::Widened(half);
    return is_only_packed && half.bytes() >= kLeastBytes ? wide : wide.Clone();
  }

  void WidenValue(Value* value) {
    if (value->is_constant()) return WidenConstant(value);
    const bool rounds = IsCastToHalf(value->producer) || IsRowsOfHalves(value->producer);
    if (rounds) return WidenReaders(value);
    if (is_body_ || (!graph_.IsInput(value) && !graph_.IsOutput(value))) {
      value->type.dtype = DType::kFloat32;
      changed_ = true;
    } else if (graph_.IsInput(value)) {
      WidenReaders(value);
    } else {
      NarrowOutput(value);
    }
  }

  void WidenConstant(Value* value) {
    const std::vector<Node*> readers = value->consumers;
    const auto takes_rows = [value](const Node* reader) {
      return IsRowsOfHalves(reader) && reader->input(0) == value && reader->input(1) != value;
    };
    const bool stays = (graph_.IsOutput(value) && !is_body_) ||
                       std::any_of(readers.begin(), readers.end(), takes_rows);
    const bool weights = AreOnlyWeights(value);
    if (!stays) {
      value->constant = Wide(value->constant, weights);
      value->type.dtype = DType::kFloat32;
      changed_ = true;
      return;
    }
    Value* wide = nullptr;
    for (Node* reader : readers) {
      if (takes_rows(reader)) continue;
      if (wide == nullptr) {
        wide = graph_.AddConstant(value->name + "_float", Wide(value->constant, weights));
      }
      Reconnect(reader, value, wide);
    }
  }

  void Reconnect(Node* reader, const Value* from, Value* to) {
    for (size_t slot = 0; slot < reader->inputs.size(); ++slot) {
      if (reader->inputs[slot] == from) graph_.SetInput(reader, slot, to);
    }
    changed_ = true;
  }

  /// Adds a Cast to float32 behind a value of 16 bits, or beside the Cast that makes it, for all
  /// readers but other Casts.
  void WidenReaders(Value* value) {
    if (IsCastToHalf(value->producer)) {
      value->type.dtype = static_cast<DType>(value->producer->attributes.Int("to", 0));
    } else if (IsRowsOfHalves(value->producer)) {
      value->type.dtype = value->producer->input(0)->constant.dtype();
    }
    std::vector<Node*> readers = value->consumers;
    std::erase_if(readers, [](const Node* reader) { return reader->Is(Op::kCast); });
    const bool leaves = is_body_ && graph_.IsOutput(value);
    if (readers.empty() && !leaves) return;
    Value* wide = graph_.AddValue(value->name + "_float", {DType::kFloat32, value->type.shape});
    if (leaves) {
      graph_.ReplaceAllUses(value, wide);
    } else {
      for (Node* reader : readers) Reconnect(reader, value, wide);
    }
    const bool cast = IsCastToHalf(value->producer);
    AddCast(cast ? value->producer->inputs[0] : value, wide, DType::kFloat32);
  }

  /// Computes an output in float32, with a Cast before it.
  void NarrowOutput(Value* value) {
    Node* node = value->producer;
    const auto slot = static_cast<size_t>(
        std::find(node->outputs.begin(), node->outputs.end(), value) - node->outputs.begin());
    Value* wide = graph_.AddValue(value->name + "_float", {DType::kFloat32, value->type.shape});
    graph_.SetOutput(node, slot, wide);
    for (Node* reader : std::vector<Node*>(value->consumers)) Reconnect(reader, value, wide);
    AddCast(wide, value, value->type.dtype);
  }

  void AddCast(Value* from, Value* to, DType dtype) {
    AttributeMap attributes;
    attributes.Set("to", static_cast<int64_t>(dtype));
    graph_.AddNode("Cast", "", {from}, {to}, std::move(attributes), to->name + "_cast");
    changed_ = true;
  }

  Graph& graph_;
  bool is_body_;
  bool changed_ = false;
};

}  // namespace

bool WidenHalves(Graph& graph, PassContext&) { return Widener(graph, false).Run(); }

}  // namespace requant
