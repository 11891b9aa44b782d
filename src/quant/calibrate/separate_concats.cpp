// Before: Concat(a, b) -> layer, where the range of a is 100 times that of b
// After: Concat(f_a * a, f_b * b) -> layer whose weights are divided by f_a and f_b, channel by
//   channel. All operands have the same range, so that one scale suits them all; in integers the
//   factors change nothing but the names of the scales.
// Conditions: everything behind the Concat is a layer that reads it along the joined axis, perhaps
//   through operators for which g(f * x) = f * g(x), such as Relu, pools and Transpose.
// Formula: f_i = (largest step) / step_i, where step_i is the scale that operand i would have
//   alone.
//
// If the conditions do not hold, the Concat and the operators that move or select its values stay
// in float. Layers that read it along the joined axis take the factors from a Mul before them,
// layers that read a selection have the range of that selection, and other layers stay in float.
#include "quant/calibrate/separate_concats.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "base/error.h"
#include "base/str_cat.h"
#include "quant/calibrate/concat_reach.h"
#include "quant/grid/affine.h"
#include "quant/recover/equalize/chains.h"

namespace requant {
namespace {

// The largest ratio of an operand's step in the Concat to the step it would have alone, above which
// factors (which cost nothing at run time) or floats (which do) pay.
constexpr double kMostStep = 1.5;       // 3.5 dB
constexpr double kMostFloatStep = 3.0;  // 9.5 dB
/// Grids with more bits are finer: every bit allows another factor of two.
constexpr int kPlainBits = 8;

Range RangeOfConstant(const Tensor& tensor) {
  Range range;
  for (const float value : tensor.values<float>()) {
    range.min = std::min(range.min, static_cast<double>(value));
    range.max = std::max(range.max, static_cast<double>(value));
  }
  return range;
}

Range Times(const Range& range, double factor) { return {range.min * factor, range.max * factor}; }

Range Hull(const std::vector<Range>& ranges) {
  Range hull;
  for (const Range& range : ranges) {
    hull.min = std::min(hull.min, range.min);
    hull.max = std::max(hull.max, range.max);
  }
  return hull;
}

class Separator {
 public:
  Separator(Graph& graph, const QuantizationRecord& record, const SeenRanges& seen)
      : graph_(graph), record_(record), seen_(seen) {}

  SeparatedConcats Run() {
    std::vector<Node*> concats;
    for (const auto& node : graph_.nodes()) {
      if (JoinsFloats(*node)) concats.push_back(node.get());
    }
    std::reverse(concats.begin(), concats.end());  // outer Concats before those that they join
    for (Node* concat : concats) Visit(*concat);
    if (scaled_ + floats_ > 0) {
      made_.detail = StrCat("operands of ", scaled_, " Concats were given one range by factors in ",
                            "the layers behind them; ", floats_, " Concats stay in float");
      graph_.SortTopologically();
      graph_.RemoveUnusedValues();
    }
    return std::move(made_);
  }

 private:
  /// The grid on which the joined values would lie; nullptr if nothing quantizes them.
  const TensorQuantizationConfig* GridOf(const Node& concat, const Reach& reach) const {
    if (const OperatorQuantization* op = Quantized(record_, &concat)) {
      return &record_.Root(op->outputs[0]);
    }
    if (reach.layers.empty()) return nullptr;
    return &record_.Root(record_.operators.at(reach.layers[0].node->name).inputs[0]);
  }

  /// Collects the operands. A Concat along the same axis counts as the operands that it joins.
  void FindOperands(const Node& concat, int64_t axis) {
    for (Value* input : concat.inputs) {
      const Node* inner = input->producer;
      if (inner && JoinsFloats(*inner) && AxisOf(*inner) == axis) {
        FindOperands(*inner, axis);
      } else {
        operands_.push_back(input);
      }
    }
  }

  bool FindRanges(const Node& concat) {
    operands_.clear();
    ranges_.clear();
    FindOperands(concat, AxisOf(concat));
    for (const Value* input : operands_) {
      if (input->is_constant()) {
        ranges_.push_back(RangeOfConstant(input->constant));
        continue;
      }
      const auto known = made_.ranges.find(input->name);
      const std::optional<Range> range =
          known != made_.ranges.end() ? known->second : seen_.whole(*input);
      if (!range) return false;
      ranges_.push_back({std::min(range->min, 0.0), std::max(range->max, 0.0)});
    }
    return true;
  }

  /// Sets the factor of each operand, 1 for one without values. Returns the largest ratio of the
  /// step they would share to an operand's own.
  double FindFactors(const TensorQuantizationConfig& grid) {
    const auto step = [&grid](const Range& range) {
      return static_cast<double>(AffineOfActivation(range.min, range.max, grid).scale);
    };
    const Range hull = Hull(ranges_);
    if (!(hull.max > hull.min)) return 1;
    double largest = 0;
    for (const Range& range : ranges_) {
      if (range.max > range.min) largest = std::max(largest, step(range));
    }
    double worst = 1;
    factors_.clear();
    for (const Range& range : ranges_) {
      const double own = range.max > range.min ? step(range) : largest;
      factors_.push_back(largest / own);
      if (range.max > range.min) worst = std::max(worst, step(hull) / own);
    }
    return worst / std::ldexp(1.0, std::max(0, grid.bits - kPlainBits));
  }

  void Visit(Node& concat) {
    const Reach reach = FindReach(graph_, record_, concat);
    const TensorQuantizationConfig* grid = GridOf(concat, reach);
    if (grid == nullptr || grid->per_channel() || grid->exponential() || !FindRanges(concat))
      return;
    const bool quantized = Quantized(record_, &concat) != nullptr;
    if (quantized && !seen_.whole(*concat.outputs[0])) return;
    const double worst = FindFactors(*grid);
    if (quantized && reach.whole && !reach.layers.empty()) {
      if (worst > kMostStep && FindChannels(concat)) ScaleOperands(concat, reach);
    } else if (worst > kMostFloatStep) {
      if (quantized || !reach.layers.empty()) ++floats_;
      KeepInFloat(concat, reach, quantized);
    }
  }

  /// Sets the factors by channel; false if the sizes of the operands are not known.
  bool FindChannels(const Node& concat) {
    channels_.clear();
    const auto axis = static_cast<size_t>(AxisOf(concat));
    for (size_t i = 0; i < operands_.size(); ++i) {
      const auto& shape = operands_[i]->type.shape;
      const Dim size = !shape || shape->size() <= axis ? Dim() : (*shape)[axis];
      if (!size.known()) return false;
      channels_.insert(channels_.end(), static_cast<size_t>(size.value), factors_[i]);
    }
    return true;
  }

  bool DivideWeights(const Reach::Layer& layer) {
    WeightEditor editor(graph_, layer.node);
    if (editor.inputs() != static_cast<int64_t>(channels_.size())) return false;
    for (int64_t i = 0; i < editor.inputs(); ++i) {
      editor.ScaleInput(i, 1 / channels_[static_cast<size_t>(i)]);
    }
    editor.Store();
    made_.factors[layer.node->name] = channels_;
    return true;
  }

  static bool Fits(const Reach& reach, size_t channels) {
    return std::all_of(reach.layers.begin(), reach.layers.end(), [&](const Reach::Layer& layer) {
      const Tensor& weights = layer.node->inputs[1]->constant;
      const int64_t group = std::max<int64_t>(1, layer.node->attributes.Int("group", 1));
      const int64_t inputs = layer.node->Is(Op::kConv)                      ? weights.dim(1) * group
                             : layer.node->attributes.Int("transB", 0) != 0 ? weights.dim(1)
                                                                            : weights.dim(0);
      return inputs == static_cast<int64_t>(channels);
    });
  }

  void ScaleOperands(Node& concat, const Reach& reach) {
    if (!Fits(reach, channels_.size())) return;
    ++scaled_;
    for (size_t slot = 0; slot < operands_.size(); ++slot) {
      const double factor = factors_[slot];
      ranges_[slot] = Times(ranges_[slot], factor);
      Value* operand = operands_[slot];
      Value* scaled = operand;
      if (factor == 1) {
        // An operand with factor 1 stays as it is.
      } else if (operand->is_constant()) {
        Tensor values = operand->constant.Clone();
        auto* data = values.data<float>();
        for (int64_t i = 0; i < values.count(); ++i) {
          data[i] = static_cast<float>(static_cast<double>(data[i]) * factor);
        }
        scaled = graph_.AddConstant(StrCat(operand->name, "_scaled"), std::move(values));
      } else {
        Value* constant = graph_.AddConstant(StrCat(operand->name, "_factor"),
                                             Tensor::Scalar(static_cast<float>(factor)));
        scaled = graph_.AddOp("Mul", "", {operand, constant}, StrCat(operand->name, "_scaled"),
                              operand->type, {}, StrCat(concat.name, "_scale"));
        made_.ranges[scaled->name] = ranges_[slot];
      }
      graph_.SetInput(&concat, slot, scaled);
    }
    const Range joined = Hull(ranges_);
    // The scaled values are no values of the float network any more.
    for (Value* value : reach.values) {
      const Range range = ScaledRange(*value, reach, joined);
      graph_.RenameValue(value, StrCat(value->name, "_scaled"));
      made_.ranges[value->name] = range;
    }
    for (const Reach::Layer& layer : reach.layers) DivideWeights(layer);
  }

  /// The range of a value behind a Concat whose operands have factors and therefore the range
  /// `joined`.
  Range ScaledRange(const Value& value, const Reach& reach, const Range& joined) const {
    if (reach.averages.contains(&value)) {
      const ChannelRanges* channels = seen_.by_channel(value);
      const std::optional<Range> range = channels ? channels->Times(channels_) : std::nullopt;
      if (range) return *range;
    }
    const bool positive = value.producer && value.producer->Is(Op::kRelu);
    return {positive ? 0 : joined.min, joined.max};
  }

  void KeepInFloat(Node& concat, const Reach& reach, bool quantized) {
    const char* reason = "it joins or moves values whose ranges are too unlike for one scale";
    if (quantized) {
      made_.reasons[concat.name] = reason;
      for (const Node* mover : reach.movers) made_.reasons[mover->name] = reason;
    }
    const bool known = FindChannels(concat);
    std::map<const Value*, Value*> scaled;
    for (const Reach::Layer& layer : reach.layers) {
      if (!known || !DivideWeights(layer)) {
        made_.reasons[layer.node->name] = reason;
        continue;
      }
      Value*& value = scaled[layer.input];
      if (value == nullptr) value = ScaleBefore(layer, reach);
      graph_.SetInput(layer.node, 0, value);
    }
    for (const Node* product : reach.products) made_.reasons[product->name] = reason;
  }

  /// Multiplies the layer's input by the factor of each channel.
  Value* ScaleBefore(const Reach::Layer& layer, const Reach& reach) {
    Shape shape(RankOf(*layer.input), 1);
    shape[static_cast<size_t>(layer.axis)] = static_cast<int64_t>(channels_.size());
    Tensor values(DType::kFloat32, shape);
    for (size_t i = 0; i < channels_.size(); ++i) {
      values.data<float>()[i] = static_cast<float>(channels_[i]);
    }
    Value* input = layer.node->inputs[0];
    Value* constant = graph_.AddConstant(StrCat(input->name, "_factors"), std::move(values));
    Value* made = graph_.AddOp("Mul", "", {input, constant}, StrCat(input->name, "_scaled"),
                               input->type, {}, StrCat(layer.node->name, "_scale"));
    made_.reasons[made->producer->name] = "it gives values of unlike ranges one range";
    std::vector<Range> all;
    for (size_t i = 0; i < ranges_.size(); ++i) all.push_back(Times(ranges_[i], factors_[i]));
    made_.ranges[made->name] = ScaledRange(*layer.input, reach, Hull(all));
    return made;
  }

  Graph& graph_;
  const QuantizationRecord& record_;
  const SeenRanges& seen_;
  std::vector<Value*> operands_;  // operands of the Concat that is visited
  std::vector<Range> ranges_;     // of the operands
  std::vector<double> factors_;   // of the operands
  std::vector<double> channels_;  // by channel
  int scaled_ = 0, floats_ = 0;
  SeparatedConcats made_;
};

}  // namespace

void ChannelRanges::Observe(const Tensor& tensor) {
  const ChannelView view = ViewChannels(tensor.shape(), axis_);
  if (ranges_.empty()) ranges_.resize(static_cast<size_t>(view.channels));
  if (ranges_.size() != static_cast<size_t>(view.channels)) {
    Fail(ErrorCode::kShapeMismatch, StrCat("a value has ", view.channels, " channels here and ",
                                           ranges_.size(), " in earlier samples"));
  }
  const float* values = tensor.data<float>();
  for (int64_t i = 0; i < tensor.count(); ++i) {
    Range& range = ranges_[static_cast<size_t>(i / view.inner % view.channels)];
    range.min = std::min(range.min, static_cast<double>(values[i]));
    range.max = std::max(range.max, static_cast<double>(values[i]));
  }
}

void ChannelRanges::Merge(const ChannelRanges& later) {
  if (ranges_.empty()) ranges_.resize(later.ranges_.size());
  for (size_t i = 0; i < std::min(ranges_.size(), later.ranges_.size()); ++i) {
    ranges_[i].min = std::min(ranges_[i].min, later.ranges_[i].min);
    ranges_[i].max = std::max(ranges_[i].max, later.ranges_[i].max);
  }
}

std::optional<Range> ChannelRanges::Times(const std::vector<double>& factors) const {
  if (ranges_.size() != factors.size()) return std::nullopt;
  std::vector<Range> scaled;
  for (size_t i = 0; i < factors.size(); ++i)
    scaled.push_back(requant::Times(ranges_[i], factors[i]));
  return Hull(scaled);
}

ValuesAroundConcats FindValuesAroundConcats(const Graph& graph, const QuantizationRecord& record) {
  std::set<const Value*> whole;
  ValuesAroundConcats found;
  for (const auto& node : graph.nodes()) {
    if (!JoinsFloats(*node)) continue;
    const Reach reach = FindReach(graph, record, *node);
    if (!Quantized(record, node.get()) && reach.layers.empty()) continue;
    for (const Value* input : node->inputs) {
      if (!input->is_constant()) whole.insert(input);
    }
    whole.insert(reach.selected.begin(), reach.selected.end());
    found.by_channel.insert(reach.averages.begin(), reach.averages.end());
  }
  found.whole.assign(whole.begin(), whole.end());
  return found;
}

SeparatedConcats SeparateConcats(Graph& graph, const QuantizationRecord& record,
                                 const SeenRanges& seen) {
  return Separator(graph, record, seen).Run();
}

}  // namespace requant
