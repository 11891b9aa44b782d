#include "passes/match/statistics.h"

#include <algorithm>

#include "passes/match/clip.h"
#include "passes/rewrite.h"

namespace requant {
namespace {

constexpr int64_t kMostElements = 1 << 18;  // of a constant that is all one number
constexpr int kMostSteps = 24;              // from a reduction to what applies it

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
  if (node.Is(Op::kGlobalAveragePool)) {
    for (int64_t axis = 2; axis < rank; ++axis) out.axes.push_back(axis);
    return out;
  }
  if (node.Is(Op::kMatMul)) {  // multiplied by a column of ones
    const Tensor* weights = node.constant(1);
    const auto each =
        weights && weights->rank() == 2 && weights->dim(1) == 1 ? Uniform(*weights) : std::nullopt;
    if (!each) return {};
    out.axes = {rank - 1};
    out.factor = *each * static_cast<double>(weights->dim(0));
    return out;
  }
  const bool mean = node.Is(Op::kReduceMean);
  const bool norm = node.Is(Op::kReduceL2);
  out.squares = norm || node.Is(Op::kReduceSumSquare);
  if (!mean && !out.squares && !node.Is(Op::kReduceSum)) return {};
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

}  // namespace

Value* Peel(Value* value) {
  for (;;) {
    const Node* node = value ? value->producer : nullptr;
    const bool idle = node && node->inputs.size() == 1 && IsFloat32(value) &&
                      IsFloat32(node->inputs[0]) &&
                      (node->Is(Op::kIdentity) || node->Is(Op::kCast));
    if (!idle) return value;
    value = node->inputs[0];
  }
}

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

std::optional<Statistic> StatisticReader::Read(Value* value) {
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

Value* StatisticReader::CentredOf(Value* value, const Axes& axes) {
  value = Peel(value);
  const Node* node = value ? value->producer : nullptr;
  if (node == nullptr || !node->Is(Op::kSub)) return nullptr;
  Value* x = Peel(node->inputs[0]);
  return IsMeanOf(node->inputs[1], x, axes) ? x : nullptr;
}

bool StatisticReader::IsMeanOf(Value* value, const Value* x, const Axes& axes) {
  const auto mean = Read(value);
  return mean && mean->is_mean && mean->kept && mean->x == x && mean->axes == axes &&
         Near(mean->factor, 1);
}

bool StatisticReader::Finite(const Statistic& s) {
  return std::isfinite(s.factor) && s.factor > 0 && std::isfinite(s.square) &&
         std::isfinite(s.mean) && std::isfinite(s.constant) && std::isfinite(s.power);
}

Value* StatisticReader::SquareOf(Value* value) {
  const Node* node = value ? value->producer : nullptr;
  if (node == nullptr) return nullptr;
  if (node->Is(Op::kMul) && Peel(node->inputs[0]) == Peel(node->inputs[1])) {
    return Peel(node->inputs[0]);
  }
  const bool square = node->Is(Op::kPow) && ScalarOperand(node->input(1), node->input(0)) == 2.0;
  return square ? Peel(node->inputs[0]) : nullptr;
}

std::optional<Statistic> StatisticReader::ReadNode(const Node& node) {
  if (node.outputs.size() != 1 || !node.domain.empty()) return {};
  if (const auto reduction = ReductionOf(node)) return Reduced(*reduction);
  if (node.Is(Op::kAdd) || node.Is(Op::kSub)) return Sum(node);
  if (node.Is(Op::kMul)) return Product(node);
  if (node.Is(Op::kDiv)) return Quotient(node);
  if (node.Is(Op::kSqrt)) return Power(Read(node.inputs[0]), 0.5);
  if (node.Is(Op::kReciprocal)) return Power(Read(node.inputs[0]), -1);
  if (node.Is(Op::kPow)) {
    const auto power = ScalarOperand(node.input(1), node.input(0));
    return power ? Power(Read(node.inputs[0]), *power) : std::nullopt;
  }
  if (node.Is(Op::kUnsqueeze) || node.Is(Op::kReshape) || node.Is(Op::kExpand)) return Shaped(node);
  if (node.Is(Op::kFlatten) || node.Is(Op::kSqueeze)) return Dropped(node);
  return Bounded(node);
}

std::optional<Statistic> StatisticReader::Reduced(const Reduction& reduction) {
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

Statistic StatisticReader::Inside(Statistic s) {
  s.square *= s.factor;
  s.mean *= s.factor;
  s.constant *= s.factor;
  s.factor = 1;
  return s;
}

std::optional<Statistic> StatisticReader::Sum(const Node& node) {
  const double sign = node.Is(Op::kSub) ? -1 : 1;
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

std::optional<Statistic> StatisticReader::Product(const Node& node) {
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

std::optional<Statistic> StatisticReader::Quotient(const Node& node) {
  if (const auto number = ScalarOperand(node.inputs[1], node.inputs[0])) {
    return Scaled(Read(node.inputs[0]), 1 / *number);
  }
  const auto number = ScalarOperand(node.inputs[0], node.inputs[1]);
  return number ? Scaled(Power(Read(node.inputs[1]), -1), *number) : std::nullopt;
}

std::optional<Statistic> StatisticReader::Scaled(std::optional<Statistic> read, double number) {
  if (!read || !(number > 0)) return {};
  read->factor *= number;
  return read;
}

std::optional<Statistic> StatisticReader::Power(std::optional<Statistic> read, double power) {
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

std::optional<Statistic> StatisticReader::Shaped(const Node& node) {
  auto read = Read(node.inputs[0]);
  if (!read || read->gain) return {};
  const int64_t rank = RankOf(node.output());
  if (node.Is(Op::kUnsqueeze)) {
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
    if (!(dim == own) || (reduced && (!node.Is(Op::kExpand) || !read->kept))) return {};
  }
  read->kept = true;
  return read;
}

std::optional<Statistic> StatisticReader::Dropped(const Node& node) {
  auto read = Read(node.inputs[0]);
  if (!read || read->gain || !read->kept) return {};
  const int64_t rank = RankOf(read->x);
  if (node.Is(Op::kSqueeze)) {
    if (AxesOf(node, node.input(1), rank) != read->axes) return {};
  } else if (node.attributes.Int("axis", 1) != 1 || read->axes.empty() || read->axes.front() != 2 ||
             static_cast<int64_t>(read->axes.size()) != rank - 2) {
    return {};
  }
  read->kept = false;
  return read;
}

std::optional<Statistic> StatisticReader::Bounded(const Node& node) {
  const auto range = MatchClip(graph_, node);
  if (!range || range->low > 0 || !std::isinf(range->high)) return {};
  auto read = Read(range->x);
  const bool positive = read && !read->is_mean && read->gain == nullptr && read->square > 0 &&
                        read->constant >= 0 && (read->mean == 0 || Near(-read->mean, read->square));
  return positive ? read : std::nullopt;
}

}  // namespace requant
