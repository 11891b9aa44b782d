#include "quant/calibrate/concat_reach.h"

#include <algorithm>

#include "quant/assign/assign.h"

namespace requant {

const OperatorQuantization* Quantized(const QuantizationRecord& record, const Node* node) {
  const OperatorQuantization* op = node ? record.Find(node->name) : nullptr;
  return op && op->quantized ? op : nullptr;
}

bool JoinsFloats(const Node& node) {
  if (!node.Is(Op::kConcat) || node.inputs.size() < 2 || node.output(0) == nullptr) return false;
  const Value& result = *node.outputs[0];
  return result.type.dtype == DType::kFloat32 && RankOf(result) > 0 &&
         std::find(node.inputs.begin(), node.inputs.end(), nullptr) == node.inputs.end();
}

int64_t AxisOf(const Node& concat) {
  const int64_t axis = concat.attributes.Int("axis", 0);
  return axis < 0 ? axis + static_cast<int64_t>(RankOf(*concat.outputs[0])) : axis;
}

namespace {

bool IsAverage(const Node& node) {
  return node.Is(Op::kAveragePool) || node.Is(Op::kGlobalAveragePool);
}

bool IsPool(const Node& node) {
  return IsAverage(node) || node.Is(Op::kGlobalMaxPool) ||
         (node.Is(Op::kMaxPool) && node.output(1) == nullptr);
}

/// Whether g(f * x) = f * g(x) for f > 0, element by element or for every channel.
bool IsHomogeneous(const Node& node) {
  return node.Is(Op::kRelu) || node.Is(Op::kLeakyRelu) || node.Is(Op::kIdentity) || IsPool(node) ||
         ((node.Is(Op::kResize) || node.Is(Op::kUpsample)) &&
          node.attributes.String("coordinate_transformation_mode", "") != "tf_crop_and_resize");
}

/// Whether the result of the operator depends on some elements only.
bool Selects(const Node& node) {
  return node.Is(Op::kSlice) || node.Is(Op::kSplit) || node.Is(Op::kGather) ||
         node.Is(Op::kGatherND) || node.Is(Op::kGatherElements);
}

bool IsProduct(const QuantizationRecord& record, const Node& node) {
  const OperatorQuantization* op = record.Find(node.name);
  return op && (op->rule == QuantRule::kConv || op->rule == QuantRule::kMatMul);
}

/// Whether the operator converts [N, C, 1, 1] to [N, C].
bool DropsPixels(const Node& node) {
  if (!node.Is(Op::kFlatten) && !node.Is(Op::kReshape) && !node.Is(Op::kSqueeze)) return false;
  const auto& from = node.inputs[0]->type.shape;
  const auto& to = node.outputs[0]->type.shape;
  if (!from || !to || from->size() < 3 || to->size() != 2 || !((*from)[1] == (*to)[1])) {
    return false;
  }
  return std::all_of(from->begin() + 2, from->end(),
                     [](const Dim& dim) { return dim.known() && dim.value == 1; });
}

/// The position of the joined axis in the result of an operator that commutes with factors; -1 for
/// other operators.
int AxisBehind(const Node& node, int axis) {
  const Value* output = node.output(0);
  if (output == nullptr || RankOf(*output) == 0) return -1;
  if (node.Is(Op::kTranspose)) {
    const std::vector<int64_t> order = node.attributes.Ints("perm");
    const auto rank = static_cast<int>(RankOf(*output));
    for (int i = 0; i < rank; ++i) {
      const int64_t from = order.empty() ? rank - 1 - i : order[static_cast<size_t>(i)];
      if (from == axis) return i;
    }
    return -1;
  }
  if (DropsPixels(node)) return axis == 1 ? 1 : -1;
  if (IsPool(node) || node.Is(Op::kResize) || node.Is(Op::kUpsample)) {
    return axis == 1 && IsHomogeneous(node) ? 1 : -1;
  }
  return IsHomogeneous(node) ? axis : -1;
}

class Explorer {
 public:
  Explorer(const Graph& graph, const QuantizationRecord& record) : graph_(graph), record_(record) {}

  Reach Run(const Node& concat) {
    Value* result = concat.outputs[0];
    Follow(result, static_cast<int>(AxisOf(concat)), false);
    Move(result, false);
    for (Node* node : products_) {
      const bool taken =
          std::any_of(reach_.layers.begin(), reach_.layers.end(),
                      [node](const Reach::Layer& layer) { return layer.node == node; });
      if (!taken) reach_.products.push_back(node);
    }
    return std::move(reach_);
  }

 private:
  /// Follows operators that commute with factors.
  void Follow(Value* value, int axis, bool averaged) {
    if (!seen_.insert(value).second) return;
    reach_.values.push_back(value);
    if (averaged) reach_.averages[value] = axis;
    if (graph_.IsOutput(value) || RankOf(*value) == 0) reach_.whole = false;
    for (Node* reader : value->consumers) {
      if (TakesFactors(*reader, *value, axis)) {
        reach_.layers.push_back({reader, value, axis});
        continue;
      }
      const int next = reader->input(0) == value ? AxisBehind(*reader, axis) : -1;
      if (next < 0) {
        reach_.whole = false;
      } else {
        Follow(reader->outputs[0], next, averaged || IsAverage(*reader));
      }
    }
  }

  bool TakesFactors(const Node& node, const Value& value, int axis) const {
    const OperatorQuantization* op = Quantized(record_, &node);
    if (op == nullptr || node.Is(Op::kConvTranspose) || node.input(0) != &value ||
        node.input(1) == &value || WeightSlot(node, op->rule) != 1) {
      return false;
    }
    return axis == (op->rule == QuantRule::kConv ? 1 : static_cast<int>(RankOf(value)) - 1);
  }

  /// Follows operators that move or select values.
  void Move(const Value* value, bool selected) {
    for (Node* reader : value->consumers) {
      if (IsProduct(record_, *reader) && !selected) products_.push_back(reader);
      const OperatorQuantization* op = record_.Find(reader->name);
      if (op == nullptr || op->rule != QuantRule::kPassive || reader->input(0) != value ||
          !reach_.movers.insert(reader).second) {
        continue;
      }
      for (const Value* output : reader->outputs) {
        if (output == nullptr) continue;
        reach_.selected.push_back(output);
        Move(output, selected || Selects(*reader));
      }
    }
  }

  const Graph& graph_;
  const QuantizationRecord& record_;
  std::set<const Value*> seen_;
  std::vector<Node*> products_;
  Reach reach_;
};

}  // namespace

Reach FindReach(const Graph& graph, const QuantizationRecord& record, const Node& concat) {
  return Explorer(graph, record).Run(concat);
}

}  // namespace requant
