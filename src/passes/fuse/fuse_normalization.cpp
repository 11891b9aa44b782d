// FuseNormalization
//
// Normalizations written out in parts, in any spelling that is one:
//   Before: y = (x - E[x]) / sqrt(v + e),  x / sqrt(E[x^2] + e)     E: the mean along axes
//   After:  y = LayerNormalization(x, k) {epsilon}; RMSNormalization(x, k), which before opset 23
//   is
//           SimplifiedLayerNormalization; k: a constant, all elements alike
//   v: E[(x - E[x])^2] or E[x^2] - E[x]^2.
//   Along the second of several dimensions (images of channels first) between two Transposes.
//
//   Before: y = x * r + (b - E[x] * r), r = g / sqrt(v + e)         TensorFlow's and Keras' form
//   After:  y = LayerNormalization(x, k) * g + b
//
//   Before: y = LayerNormalization(x, s, b) * c  or  + c
//   After:  y = LayerNormalization(x, s * c, b * c); LayerNormalization(x, s, b + c)
//
// Statistics are read as f * (p E[x^2] + q E[x]^2 + e)^w or f * E[x], out of ReduceMean, ReduceSum,
// ReduceSumSquare, ReduceL2, GlobalAveragePool and products with ones; sums, factors, powers, roots
// and quotients of those; dimensions that are dropped and put back. What is no such formula (an
// epsilon behind the root, a bound above 0) stays as it is.
//
// Conditions: float32; axes that are the last ones, or the second alone; their sizes known. Bound:
//   of a variance as a difference the operator has the smaller error.
#include <algorithm>
#include <cmath>
#include <map>

#include "passes/match/clip.h"
#include "passes/pass.h"
#include "passes/rewrite.h"

namespace requant {
namespace {

constexpr int64_t kMostElements = 1 << 18;  // of a constant whose elements are all equal
constexpr double kSame = 1e-5;  // relative tolerance for factors that are rounded constants
constexpr int kMostSteps = 24;  // most nodes from a reduction to the node that applies it

using Axes = std::vector<int64_t>;

bool Near(double a, double b) { return std::fabs(a - b) <= kSame * std::fabs(b); }

/// factor * (square E[x^2] + mean E[x]^2 + constant)^power * gain, or factor * E[x].
struct Statistic {
  Value* x = nullptr;
  Axes axes;
  bool kept = true;  // whether reduced dimensions remain, with size 1
  bool is_mean = false;
  double factor = 1, square = 0, mean = 0, constant = 0, power = 1;
  Value* gain = nullptr;

  bool plain() const { return !is_mean && power == 1 && gain == nullptr; }
};

/// The reduction that a node computes: factor * E[x] or, of squares, (factor E[x^2])^power.
struct Reduction {
  Value* x;
  Axes axes;
  bool kept = true, squares = false;
  double factor = 1, power = 1;
};

/// Skips operators that do nothing.
Value* Peel(Value* value) {
  for (;;) {
    const Node* node = value ? value->producer : nullptr;
    const bool idle = node && node->inputs.size() == 1 && IsFloat32(value) &&
                      IsFloat32(node->inputs[0]) && (node->Is("Identity") || node->Is("Cast"));
    if (!idle) return value;
    value = node->inputs[0];
  }
}

const Dim& DimOf(const Value* value, int64_t axis) {
  return (*value->type.shape)[static_cast<size_t>(axis)];
}

/// The number of elements along the axes; 0: unknown.
int64_t CountOf(const Value* value, const Axes& axes) {
  int64_t count = 1;
  for (const int64_t axis : axes) {
    const Dim& dim = DimOf(value, axis);
    if (!dim.known() || dim.value < 1 || dim.value > kMostElements) return 0;
    count *= dim.value;
    if (count > kMostElements) return 0;
  }
  return count;
}

std::optional<Axes> AxesOf(const Node& node, const Value* axes_input, int64_t rank) {
  Axes axes = node.attributes.Ints("axes");
  if (axes_input) {
    if (!axes_input->is_constant()) return {};
    axes = axes_input->constant.ToInts();
  }
  for (int64_t& axis : axes) {
    if (axis < 0) axis += rank;
    if (axis < 0 || axis >= rank) return {};
  }
  std::sort(axes.begin(), axes.end());
  return axes;
}

/// The positive number that all elements of a constant equal.
std::optional<double> Uniform(const Tensor& tensor) {
  if (tensor.dtype() != DType::kFloat32 || tensor.count() == 0) return {};
  const auto values = tensor.values<float>();
  const bool same = std::all_of(values.begin(), values.end(),
                                [&values](float value) { return value == values[0]; });
  return same && values[0] > 0 ? std::optional<double>(values[0]) : std::nullopt;
}

std::optional<Reduction> ReductionOf(const Node& node) {
  Value* x = node.input(0);
  const int64_t rank = RankOf(x);
  if (!node.domain.empty() || !IsFloat32(x) || rank < 1) return {};
  Reduction out{x, {}};
  if (node.Is("GlobalAveragePool")) {
    for (int64_t axis = 2; axis < rank; ++axis) out.axes.push_back(axis);
    return out;
  }
  if (node.Is("MatMul")) {  // multiplied by a column of ones
    const Tensor* weights = node.constant(1);
    const auto each =
        weights && weights->rank() == 2 && weights->dim(1) == 1 ? Uniform(*weights) : std::nullopt;
    if (!each) return {};
    out.axes = {rank - 1};
    out.factor = *each * static_cast<double>(weights->dim(0));
    return out;
  }
  const bool mean = node.Is("ReduceMean");
  const bool norm = node.Is("ReduceL2");
  out.squares = norm || node.Is("ReduceSumSquare");
  if (!mean && !out.squares && !node.Is("ReduceSum")) return {};
  const auto axes = AxesOf(node, node.input(1), rank);
  if (!axes || (axes->empty() && node.attributes.Int("noop_with_empty_axes", 0) != 0)) return {};
  out.axes = *axes;
  for (int64_t axis = 0; axes->empty() && axis < rank; ++axis) out.axes.push_back(axis);
  out.kept = node.attributes.Int("keepdims", 1) != 0;
  if (norm) out.power = 0.5;
  if (mean) return out;
  const int64_t count = CountOf(x, out.axes);
  if (count == 0) return {};
  out.factor = static_cast<double>(count);
  return out;
}

class Reader {
 public:
  explicit Reader(const Graph& graph) : graph_(graph) {}

  std::optional<Statistic> Read(Value* value) {
    value = Peel(value);
    if (value == nullptr || value->producer == nullptr || !IsFloat32(value)) return {};
    const auto found = read_.find(value);
    if (found != read_.end()) return found->second;
    read_[value] = {};
    if (depth_ == kMostSteps) return {};
    ++depth_;
    std::optional<Statistic> made = ReadNode(*value->producer);
    --depth_;
    if (made && !Finite(*made)) made = {};
    read_[value] = made;
    return made;
  }

  /// x, if the value is x - E[x] along these axes.
  Value* CentredOf(Value* value, const Axes& axes) {
    value = Peel(value);
    const Node* node = value ? value->producer : nullptr;
    if (node == nullptr || !node->Is("Sub")) return nullptr;
    Value* x = Peel(node->inputs[0]);
    return IsMeanOf(node->inputs[1], x, axes) ? x : nullptr;
  }

  bool IsMeanOf(Value* value, const Value* x, const Axes& axes) {
    const auto mean = Read(value);
    return mean && mean->is_mean && mean->kept && mean->x == x && mean->axes == axes &&
           Near(mean->factor, 1);
  }

 private:
  static bool Finite(const Statistic& s) {
    return std::isfinite(s.factor) && s.factor > 0 && std::isfinite(s.square) &&
           std::isfinite(s.mean) && std::isfinite(s.constant) && std::isfinite(s.power);
  }

  /// w, if the value is w * w.
  static Value* SquareOf(Value* value) {
    const Node* node = value ? value->producer : nullptr;
    if (node == nullptr) return nullptr;
    if (node->Is("Mul") && Peel(node->inputs[0]) == Peel(node->inputs[1])) {
      return Peel(node->inputs[0]);
    }
    const bool square = node->Is("Pow") && ScalarOperand(node->input(1), node->input(0)) == 2.0;
    return square ? Peel(node->inputs[0]) : nullptr;
  }

  std::optional<Statistic> ReadNode(const Node& node) {
    if (node.outputs.size() != 1 || !node.domain.empty()) return {};
    if (const auto reduction = ReductionOf(node)) return Reduced(*reduction);
    if (node.Is("Add") || node.Is("Sub")) return Sum(node);
    if (node.Is("Mul")) return Product(node);
    if (node.Is("Div")) return Quotient(node);
    if (node.Is("Sqrt")) return Power(Read(node.inputs[0]), 0.5);
    if (node.Is("Reciprocal")) return Power(Read(node.inputs[0]), -1);
    if (node.Is("Pow")) {
      const auto power = ScalarOperand(node.input(1), node.input(0));
      return power ? Power(Read(node.inputs[0]), *power) : std::nullopt;
    }
    if (node.Is("Unsqueeze") || node.Is("Reshape") || node.Is("Expand")) return Shaped(node);
    if (node.Is("Flatten") || node.Is("Squeeze")) return Dropped(node);
    return Bounded(node);
  }

  std::optional<Statistic> Reduced(const Reduction& reduction) {
    Statistic out;
    out.axes = reduction.axes;
    out.kept = reduction.kept;
    Value* in = Peel(reduction.x);
    Value* squared = reduction.squares ? in : SquareOf(in);
    Value* x = squared ? CentredOf(squared, out.axes) : nullptr;
    out.x = x ? x : squared ? squared : in;
    // Shapes of nodes that were just inlined from a body are not known yet.
    if (RankOf(out.x) != RankOf(reduction.x)) return {};
    if (squared == nullptr) {
      out.is_mean = true;
      out.factor = reduction.factor;
      return out;
    }
    out.square = reduction.factor;
    out.mean = x ? -reduction.factor : 0;
    out.power = reduction.power;
    return out;
  }

  /// Multiplies the factor into the sum inside.
  static Statistic Inside(Statistic s) {
    s.square *= s.factor;
    s.mean *= s.factor;
    s.constant *= s.factor;
    s.factor = 1;
    return s;
  }

  std::optional<Statistic> Sum(const Node& node) {
    const double sign = node.Is("Sub") ? -1 : 1;
    for (const size_t slot : {size_t{1}, size_t{0}}) {
      const auto number = ScalarOperand(node.inputs[slot], node.inputs[1 - slot]);
      if (!number) continue;
      if (slot == 0 && sign < 0) return {};
      const auto read = Read(node.inputs[1 - slot]);
      if (!read || !read->plain()) return {};
      Statistic out = Inside(*read);
      out.constant += sign * *number;
      return out;
    }
    const auto a = Read(node.inputs[0]);
    const auto b = Read(node.inputs[1]);
    if (!a || !b || !a->plain() || !b->plain() || a->x != b->x || a->axes != b->axes ||
        a->kept != b->kept) {
      return {};
    }
    Statistic out = Inside(*a);
    const Statistic more = Inside(*b);
    out.square += sign * more.square;
    out.mean += sign * more.mean;
    out.constant += sign * more.constant;
    return out;
  }

  std::optional<Statistic> Product(const Node& node) {
    for (const size_t slot : {size_t{1}, size_t{0}}) {
      Value* other = node.inputs[1 - slot];
      if (const auto number = ScalarOperand(node.inputs[slot], other)) {
        return Scaled(Read(other), *number);
      }
      if (!node.inputs[slot]->is_constant()) continue;
      auto read = Read(other);
      if (!read || read->gain || read->is_mean || RankOf(node.inputs[slot]) > RankOf(other)) {
        return {};
      }
      read->gain = node.inputs[slot];
      return read;
    }
    return Peel(node.inputs[0]) == Peel(node.inputs[1]) ? Power(Read(node.inputs[0]), 2)
                                                        : std::nullopt;
  }

  std::optional<Statistic> Quotient(const Node& node) {
    if (const auto number = ScalarOperand(node.inputs[1], node.inputs[0])) {
      return Scaled(Read(node.inputs[0]), 1 / *number);
    }
    const auto number = ScalarOperand(node.inputs[0], node.inputs[1]);
    return number ? Scaled(Power(Read(node.inputs[1]), -1), *number) : std::nullopt;
  }

  static std::optional<Statistic> Scaled(std::optional<Statistic> read, double number) {
    if (!read || !(number > 0)) return {};
    read->factor *= number;
    return read;
  }

  static std::optional<Statistic> Power(std::optional<Statistic> read, double power) {
    if (!read || read->gain || power == 0) return {};
    read->factor = std::pow(read->factor, power);
    if (!read->is_mean) {
      read->power *= power;
      return read;
    }
    if (power != 2) return {};
    read->is_mean = false;
    read->mean = read->factor;
    read->factor = 1;
    return read;
  }

  /// Reads a node that restores dimensions or stretches them.
  std::optional<Statistic> Shaped(const Node& node) {
    auto read = Read(node.inputs[0]);
    if (!read || read->gain) return {};
    const int64_t rank = RankOf(node.output());
    if (node.Is("Unsqueeze")) {
      if (read->kept || AxesOf(node, node.input(1), rank) != read->axes) return {};
      read->kept = true;
      return read;
    }
    if (rank != RankOf(read->x)) return {};
    for (int64_t axis = 0; axis < rank; ++axis) {
      const bool reduced = std::binary_search(read->axes.begin(), read->axes.end(), axis);
      const Dim& dim = DimOf(node.output(), axis);
      const Dim& own = DimOf(read->x, axis);
      if (reduced && dim == Dim(1)) continue;
      if (!(dim == own) || (reduced && (!node.Is("Expand") || !read->kept))) return {};
    }
    read->kept = true;
    return read;
  }

  /// Reads a node that drops dimensions.
  std::optional<Statistic> Dropped(const Node& node) {
    auto read = Read(node.inputs[0]);
    if (!read || read->gain || !read->kept) return {};
    const int64_t rank = RankOf(read->x);
    if (node.Is("Squeeze")) {
      if (AxesOf(node, node.input(1), rank) != read->axes) return {};
    } else if (node.attributes.Int("axis", 1) != 1 || read->axes.empty() ||
               read->axes.front() != 2 || static_cast<int64_t>(read->axes.size()) != rank - 2) {
      return {};
    }
    read->kept = false;
    return read;
  }

  /// Reads a lower bound of at most 0, which no sum of squares is below.
  std::optional<Statistic> Bounded(const Node& node) {
    const auto range = MatchClip(graph_, node);
    if (!range || range->low > 0 || !std::isinf(range->high)) return {};
    auto read = Read(range->x);
    const bool positive = read && !read->is_mean && read->gain == nullptr && read->square > 0 &&
                          read->constant >= 0 &&
                          (read->mean == 0 || Near(-read->mean, read->square));
    return positive ? read : std::nullopt;
  }

  const Graph& graph_;
  int depth_ = 0;
  std::map<const Value*, std::optional<Statistic>> read_;
};

/// The normalization that an inverse deviation performs: x * scale / sqrt(E[...] + epsilon).
struct Normal {
  Value* x = nullptr;
  Axes axes;
  bool centred = false;
  double scale = 1, epsilon = 0;
};

/// The inverse deviation that multiplies a product, or whose inverse divides a quotient.
std::optional<Normal> NormalOf(const Statistic& statistic, bool quotient) {
  const double sign = quotient ? -1 : 1;
  if (statistic.is_mean || !statistic.kept || !Near(sign * statistic.power, -0.5) ||
      !(statistic.square > 0) || statistic.axes.empty()) {
    return {};
  }
  Normal out{statistic.x, statistic.axes};
  out.centred = statistic.mean != 0;
  if (out.centred && !Near(-statistic.mean, statistic.square)) return {};
  out.scale = std::pow(statistic.factor, sign) / std::sqrt(statistic.square);
  out.epsilon = statistic.constant / statistic.square;
  const bool usual = std::isfinite(out.scale) && out.epsilon >= 0 &&
                     std::isfinite(static_cast<float>(out.epsilon));
  return usual ? std::optional(out) : std::nullopt;
}

class Rewriter {
 public:
  Rewriter(Graph& graph, Node* node) : graph_(graph), node_(node), reader_(graph) {}

  bool Run() {
    if (!node_->domain.empty() || node_->outputs.size() != 1 || node_->inputs.size() != 2 ||
        !node_->inputs[0] || !node_->inputs[1] || !IsFloat32(node_->output())) {
      return false;
    }
    if (node_->Is("Mul") || node_->Is("Div")) return Apply() || FoldIntoNormalization();
    if (node_->Is("Add") || node_->Is("Sub")) return ApplyShifted() || FoldIntoNormalization();
    return false;
  }

 private:
  /// Rewrites (x - E[x]) * r or / s, perhaps with a constant in the first operand.
  bool Apply() {
    const bool quotient = node_->Is("Div");
    for (const size_t slot : {size_t{1}, size_t{0}}) {
      if (quotient && slot == 0) continue;
      const auto statistic = reader_.Read(node_->inputs[slot]);
      if (!statistic || (quotient && statistic->gain)) continue;
      const auto normal = NormalOf(*statistic, quotient);
      if (!normal || !Fits(*normal)) continue;
      Value* gain = statistic->gain;
      Value* data = node_->inputs[1 - slot];
      if (!Normalizes(*normal, data)) {
        const Node* product = Peel(data)->producer;
        if (gain || product == nullptr || !product->Is("Mul")) continue;
        const size_t constant = product->inputs[0]->is_constant() ? 0 : 1;
        gain = product->inputs[constant];
        data = product->inputs[1 - constant];
        if (!gain->is_constant() || !IsFloat32(gain) || !Normalizes(*normal, data)) continue;
      }
      if (gain && RankOf(gain) > RankOf(normal->x)) continue;
      Become(*normal, gain, nullptr);
      return true;
    }
    return false;
  }

  bool Normalizes(const Normal& normal, Value* data) {
    return normal.centred ? reader_.CentredOf(data, normal.axes) == normal.x
                          : Peel(data) == normal.x;
  }

  /// Rewrites x * r + (b - E[x] * r) and x * r - E[x] * r.
  bool ApplyShifted() {
    for (const size_t slot : {size_t{0}, size_t{1}}) {
      if (slot == 1 && node_->Is("Sub")) break;
      Value* shift = nullptr;
      Value* shifted = node_->inputs[1 - slot];
      if (node_->Is("Add")) {
        const Node* difference = Peel(shifted)->producer;
        if (difference == nullptr || !difference->Is("Sub") ||
            !difference->inputs[0]->is_constant()) {
          continue;
        }
        shift = difference->inputs[0];
        shifted = difference->inputs[1];
      }
      const Node* scaled = Peel(node_->inputs[slot])->producer;
      const Node* mean = Peel(shifted)->producer;
      if (scaled == nullptr || mean == nullptr || !scaled->Is("Mul") || !mean->Is("Mul")) continue;
      for (const size_t r : {size_t{1}, size_t{0}}) {
        const auto statistic = reader_.Read(scaled->inputs[r]);
        const auto normal = statistic ? NormalOf(*statistic, false) : std::nullopt;
        if (!normal || !normal->centred || !Fits(*normal)) continue;
        if (Peel(scaled->inputs[1 - r]) != normal->x) continue;
        const Value* factor = Peel(scaled->inputs[r]);
        const size_t same = Peel(mean->inputs[0]) == factor ? 0 : 1;
        if (Peel(mean->inputs[same]) != factor ||
            !reader_.IsMeanOf(mean->inputs[1 - same], normal->x, normal->axes)) {
          continue;
        }
        const int64_t rank = RankOf(normal->x);
        if (RankOf(statistic->gain) > rank || RankOf(shift) > rank) continue;
        Become(*normal, statistic->gain, shift);
        return true;
      }
    }
    return false;
  }

  /// Whether the axes are the last ones, or only the second.
  static bool Fits(const Normal& normal) {
    const int64_t rank = RankOf(normal.x);
    const auto count = static_cast<int64_t>(normal.axes.size());
    if (CountOf(normal.x, normal.axes) == 0) return false;
    return normal.axes[0] == rank - count || IsSecond(normal);
  }
  static bool IsSecond(const Normal& normal) {
    return normal.axes == Axes{1} && RankOf(normal.x) > 2;
  }

  /// Turns the node into the normalization, times `gain` and plus `shift` if given.
  void Become(const Normal& normal, Value* gain, Value* shift) {
    Value* made = nullptr;
    const bool alone = gain == nullptr && shift == nullptr;
    if (IsSecond(normal)) {
      const int64_t rank = RankOf(normal.x);
      std::vector<int64_t> to = {0};
      std::vector<int64_t> back = {0, rank - 1};
      ValueType type{DType::kFloat32, SymbolicShape{DimOf(normal.x, 0)}};
      for (int64_t axis = 2; axis < rank; ++axis) {
        to.push_back(axis);
        back.push_back(axis - 1);
        type.shape->push_back(DimOf(normal.x, axis));
      }
      to.push_back(1);
      type.shape->push_back(DimOf(normal.x, 1));
      AttributeMap perm;
      perm.Set("perm", to);
      Value* turned = AddNear(graph_, node_, "Transpose", {normal.x}, type, perm);
      made = AddNear(graph_, node_, NameOf(normal), {turned, Scale(normal)}, type,
                     AttributesOf(normal, -1));
      perm.Set("perm", back);
      if (alone) return Replace("Transpose", {made}, perm);
      made = AddNear(graph_, node_, "Transpose", {made}, normal.x->type, perm);
    } else {
      AttributeMap attributes = AttributesOf(normal, -static_cast<int64_t>(normal.axes.size()));
      if (alone) return Replace(NameOf(normal), {normal.x, Scale(normal)}, attributes);
      made = AddNear(graph_, node_, NameOf(normal), {normal.x, Scale(normal)}, normal.x->type,
                     attributes);
    }
    if (shift == nullptr) return Replace("Mul", {made, gain}, {});
    if (gain) made = AddNear(graph_, node_, "Mul", {made, gain}, normal.x->type);
    Replace("Add", {made, shift}, {});
  }

  const char* NameOf(const Normal& normal) const {
    if (normal.centred) return "LayerNormalization";
    return graph_.opset() >= 23 ? "RMSNormalization" : "SimplifiedLayerNormalization";
  }
  static AttributeMap AttributesOf(const Normal& normal, int64_t axis) {
    AttributeMap attributes;
    if (axis != -1) attributes.Set("axis", axis);
    attributes.Set("epsilon", static_cast<float>(normal.epsilon));
    return attributes;
  }
  Value* Scale(const Normal& normal) {
    Shape shape;
    for (const int64_t axis : normal.axes) shape.push_back(DimOf(normal.x, axis).value);
    Tensor scale(DType::kFloat32, shape);
    const double exact = Near(normal.scale, 1) ? 1 : normal.scale;
    for (int64_t i = 0; i < scale.count(); ++i) scale.data<float>()[i] = static_cast<float>(exact);
    return AddNear(graph_, node_, std::move(scale));
  }

  void Replace(const char* op, const std::vector<Value*>& inputs, AttributeMap attributes) {
    for (size_t i = 0; i < inputs.size(); ++i) graph_.SetInput(node_, i, inputs[i]);
    TruncateInputs(graph_, node_, inputs.size());
    node_->Retype(op, "");
    node_->attributes = std::move(attributes);
  }

  /// Merges a constant behind a normalization, and behind the Transpose that restores its order,
  /// into scale and bias.
  bool FoldIntoNormalization() {
    const bool constant_first = node_->inputs[0]->is_constant();
    Value* value = node_->inputs[constant_first ? 1 : 0];
    const Value* constant = node_->inputs[constant_first ? 0 : 1];
    if (!constant->is_constant() || !IsFloat32(constant)) return false;
    if (constant_first && (node_->Is("Div") || node_->Is("Sub"))) return false;
    if (graph_.SoleConsumer(value) != node_ || RankOf(constant) > RankOf(value)) return false;
    Node* last = value->producer;
    Node* normal = last;
    const bool turned = last && last->Is("Transpose");
    if (turned) {
      normal = last->inputs[0]->producer;
      if (graph_.SoleConsumer(last->inputs[0]) != last) return false;
    }
    const bool centred = normal && normal->Is("LayerNormalization");
    const bool known =
        centred ||
        (normal && (normal->Is("RMSNormalization") || normal->Is("SimplifiedLayerNormalization")));
    const bool sum = node_->Is("Add") || node_->Is("Sub");
    if (!known || normal->outputs.size() != 1 || (sum && !centred)) return false;
    const Tensor* scale = normal->constant(1);
    const Tensor* bias = normal->constant(2);
    if (scale == nullptr || scale->dtype() != DType::kFloat32 || (normal->input(2) && !bias)) {
      return false;
    }
    // The positions of the normalized axes in the constant.
    const int64_t rank = RankOf(value);
    int64_t axis = normal->attributes.Int("axis", -1);
    if (axis < 0) axis += rank;
    if (scale->rank() != rank - axis || (bias && bias->shape() != scale->shape())) return false;
    Axes places;
    for (int64_t i = axis; i < rank; ++i) {
      places.push_back(turned ? PlaceOf(*last, i, rank) : i);
    }
    const auto numbers = Along(constant->constant, rank, places, scale->shape());
    if (!numbers) return false;
    const auto changed = [&](const Tensor& tensor) {
      Tensor out(DType::kFloat32, tensor.shape());
      for (int64_t i = 0; i < out.count(); ++i) {
        const double number = (*numbers)[static_cast<size_t>(i)];
        const double old = tensor.AsDouble(i);
        const double made = node_->Is("Mul")   ? old * number
                            : node_->Is("Div") ? old / number
                            : node_->Is("Add") ? old + number
                                               : old - number;
        out.data<float>()[i] = static_cast<float>(made);
      }
      return out;
    };
    const bool whole = std::all_of(numbers->begin(), numbers->end(), [this](double number) {
      return std::isfinite(number) && (number != 0 || !node_->Is("Div"));
    });
    if (!whole || !CanReplace(graph_, node_->output(), value)) return false;
    if (!sum) ReplaceConstant(graph_, normal, 1, changed(*scale), normal->inputs[1]->name);
    if (sum && bias == nullptr) {
      Tensor zero(DType::kFloat32, scale->shape());
      for (int64_t i = 0; i < zero.count(); ++i) zero.data<float>()[i] = 0;
      graph_.SetInput(normal, 2, AddNear(graph_, node_, changed(zero)));
    } else if (bias) {
      ReplaceConstant(graph_, normal, 2, changed(*bias), normal->inputs[2]->name);
    }
    return Bypass(graph_, node_, value);
  }

  /// The position to which a transpose moves an axis.
  static int64_t PlaceOf(const Node& transpose, int64_t axis, int64_t rank) {
    const std::vector<int64_t> perm = transpose.attributes.Ints("perm");
    if (perm.empty()) return rank - 1 - axis;
    return std::find(perm.begin(), perm.end(), axis) - perm.begin();
  }

  /// The elements of a constant along these axes of a value of that rank, if it has no others.
  static std::optional<std::vector<double>> Along(const Tensor& constant, int64_t rank,
                                                  const Axes& places, const Shape& shape) {
    std::vector<int64_t> strides(static_cast<size_t>(rank), 0);
    int64_t stride = 1;
    for (int64_t i = constant.rank() - 1; i >= 0; --i) {
      const int64_t place = rank - constant.rank() + i;
      const int64_t size = constant.dim(i);
      if (size == 1) continue;
      const auto found = std::find(places.begin(), places.end(), place);
      if (found == places.end()) return {};
      if (size != shape[static_cast<size_t>(found - places.begin())]) return {};
      strides[static_cast<size_t>(place)] = stride;
      stride *= size;
    }
    std::vector<double> out;
    for (int64_t i = 0; i < NumElements(shape); ++i) {
      int64_t rest = i;
      int64_t at = 0;
      for (size_t d = shape.size(); d-- > 0;) {
        at += rest % shape[d] * strides[static_cast<size_t>(places[d])];
        rest /= shape[d];
      }
      out.push_back(constant.AsDouble(at));
    }
    return out;
  }

  Graph& graph_;
  Node* node_;
  Reader reader_;
};

}  // namespace

bool FuseNormalization(Graph& graph, PassContext&) {
  return RewriteNodes(graph, [](Graph& g, Node* node) { return Rewriter(g, node).Run(); });
}

}  // namespace requant
