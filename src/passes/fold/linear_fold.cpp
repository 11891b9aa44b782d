#include "passes/fold/linear_fold.h"

#include <algorithm>

#include "passes/rewrite.h"

namespace requant {
namespace {

const Tensor* FloatConstant(const Node& node, size_t slot) {
  const Tensor* tensor = node.constant(slot);
  return tensor && tensor->dtype() == DType::kFloat32 ? tensor : nullptr;
}

bool IsGemm(const Node& node) { return node.Is(Op::kGemm); }

bool IsConvolution(const Node& node) {
  return node.Is(Op::kConv) ||
         (node.Is(Op::kConvTranspose) && node.attributes.Int("group", 1) == 1);
}

/// Weights as [outer, size, inner] around the axis that is scaled.
struct Around {
  int64_t outer;
  int64_t size;
  int64_t inner;
};

Around SplitAt(const Shape& shape, size_t axis) {
  Around out{1, shape[axis], 1};
  for (size_t i = 0; i < axis; ++i) out.outer *= shape[i];
  for (size_t i = axis + 1; i < shape.size(); ++i) out.inner *= shape[i];
  return out;
}

Tensor ScaleAxis(const Tensor& weights, size_t axis, const std::vector<double>& scale) {
  Tensor out(DType::kFloat32, weights.shape());
  const auto [outer, size, inner] = SplitAt(weights.shape(), axis);
  const float* in = weights.data<float>();
  float* to = out.data<float>();
  for (int64_t o = 0; o < outer; ++o) {
    for (int64_t c = 0; c < size; ++c) {
      for (int64_t i = 0; i < inner; ++i, ++in, ++to) {
        *to = static_cast<float>(double{*in} * scale[static_cast<size_t>(c)]);
      }
    }
  }
  return out;
}

/// The axis of the weights that is the output channel.
size_t OutputAxis(const Node& node) {
  if (node.Is(Op::kConv)) return 0;
  return IsGemm(node) && node.attributes.Int("transB", 0) != 0 ? 0 : 1;
}

/// The Gemm's C as one number per column, beta included; zeros without a C.
std::optional<std::vector<double>> BiasOf(const Node& node, int64_t channels) {
  if (node.input(2) == nullptr) return std::vector<double>(static_cast<size_t>(channels), 0.0);
  const Tensor* bias = FloatConstant(node, 2);
  if (bias == nullptr) return {};
  auto out = PerChannel(*bias, IsGemm(node) ? 2 : 1, IsGemm(node) ? 1 : 0, channels);
  if (out && IsGemm(node)) {
    for (double& item : *out) item *= double{node.attributes.Float("beta", 1)};
  }
  return out;
}

bool IsLinear(const Node& node) {
  return IsConvolution(node) || IsGemm(node) || node.Is(Op::kMatMul);
}

}  // namespace

int64_t FoldableChannels(const Node& node) {
  if (!IsLinear(node)) return 0;
  const Tensor* weights = FloatConstant(node, 1);
  if (weights == nullptr || weights->rank() < 2) return 0;
  if (IsConvolution(node) ? weights->rank() < 3 : weights->rank() != 2) return 0;
  const int64_t channels = weights->dim(static_cast<int64_t>(OutputAxis(node)));
  return BiasOf(node, channels) ? channels : 0;
}

bool FoldIntoLinear(Graph& graph, Node* node, const std::vector<double>& scale,
                    const std::vector<double>& shift) {
  const int64_t channels = FoldableChannels(*node);
  if (channels == 0 || static_cast<int64_t>(scale.size()) != channels ||
      static_cast<int64_t>(shift.size()) != channels) {
    return false;
  }
  const auto is = [](double wanted) { return [wanted](double v) { return v == wanted; }; };
  const bool has_shift = !std::all_of(shift.begin(), shift.end(), is(0));
  if (node->Is(Op::kMatMul) && has_shift) {
    if (RankOf(node->input(0)) != 2) return false;
    node->Retype(Op::kGemm);
  }
  const std::vector<double> bias = *BiasOf(*node, channels);
  if (!std::all_of(scale.begin(), scale.end(), is(1))) {
    ReplaceConstant(graph, node, 1, ScaleAxis(*node->constant(1), OutputAxis(*node), scale),
                    node->input(1)->name + "_scaled");
  }
  if (!has_shift && node->input(2) == nullptr) return true;
  Tensor folded(DType::kFloat32, {channels});
  for (size_t c = 0; c < bias.size(); ++c) {
    folded.data<float>()[c] = static_cast<float>(bias[c] * scale[c] + shift[c]);
  }
  ReplaceConstant(graph, node, 2, std::move(folded), node->name + "_bias");
  node->attributes.Remove("beta");
  return true;
}

int64_t FoldableInputChannels(const Node& node) {
  const Tensor* weights = FloatConstant(node, 1);
  if (!IsLinear(node) || weights == nullptr) return 0;
  if (node.Is(Op::kConv)) {
    const int64_t group = node.attributes.Int("group", 1);
    if (weights->rank() < 3 || group < 1 || weights->dim(0) % group != 0) return 0;
    return weights->dim(1) * group;
  }
  if (node.Is(Op::kConvTranspose)) return weights->rank() < 3 ? 0 : weights->dim(0);
  if (weights->rank() != 2 || (IsGemm(node) && node.attributes.Int("transA", 0) != 0)) return 0;
  return weights->dim(1 - static_cast<int64_t>(OutputAxis(node)));
}

bool FoldIntoLinearInput(Graph& graph, Node* node, const std::vector<double>& scale,
                         const std::vector<double>& shift) {
  const int64_t channels = FoldableInputChannels(*node);
  if (channels == 0 || static_cast<int64_t>(scale.size()) != channels) return false;
  const Tensor& weights = *node->constant(1);
  // W is [M, C / group, kernel...], where row m belongs to group m / (M / group), or a matrix,
  // maybe transposed.
  const bool conv = node->Is(Op::kConv);
  const bool rows_last = OutputAxis(*node) == 1;
  const int64_t rows = weights.dim(rows_last ? 1 : 0);
  const int64_t rows_of_group = rows / (conv ? node->attributes.Int("group", 1) : 1);
  const int64_t taps = SplitAt(weights.shape(), 1).inner;
  const double alpha = IsGemm(*node) ? double{node->attributes.Float("alpha", 1)} : 1;
  Tensor out(DType::kFloat32, weights.shape());
  std::vector<double> sums(static_cast<size_t>(rows), 0.0);
  const float* from = weights.data<float>();
  float* to = out.data<float>();
  for (int64_t i = 0; i < weights.dim(0); ++i) {
    for (int64_t j = 0; j < weights.dim(1); ++j) {
      const int64_t row = rows_last ? j : i;
      const int64_t column = rows_last ? i : j;
      const auto channel =
          static_cast<size_t>(conv ? row / rows_of_group * weights.dim(1) + column : column);
      for (int64_t tap = 0; tap < taps; ++tap, ++from) {
        *to++ = static_cast<float>(double{*from} * scale[channel]);
        sums[static_cast<size_t>(row)] += alpha * double{*from} * shift[channel];
      }
    }
  }
  const bool shifts = std::any_of(shift.begin(), shift.end(), [](double t) { return t != 0; });
  if (shifts && !FoldIntoLinear(graph, node, std::vector<double>(sums.size(), 1.0), sums)) {
    return false;
  }
  ReplaceConstant(graph, node, 1, std::move(out), node->input(1)->name + "_scaled");
  return true;
}

std::optional<std::vector<double>> PerChannel(const Tensor& constant, int64_t rank, int64_t axis,
                                              int64_t channels) {
  if (constant.rank() > rank) return {};
  int64_t along = 1;
  for (int64_t i = 0; i < constant.rank(); ++i) {
    const int64_t size = constant.dim(i);
    const bool is_channel = rank - constant.rank() + i == axis;
    if (size != 1 && !(is_channel && size == channels)) return {};
    if (is_channel) along = size;
  }
  const std::vector<double> values = constant.ToDoubles();
  if (along == 1) return std::vector<double>(static_cast<size_t>(channels), values[0]);
  return values;
}

}  // namespace requant
