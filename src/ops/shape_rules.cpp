#include "ops/shape_rules.h"

#include <algorithm>

#include "base/checked_math.h"
#include "base/error.h"
#include "base/str_cat.h"

namespace requant {
namespace {

void CheckSpatialRank(size_t rank, const char* what) {
  if (rank < 3) {
    Fail(ErrorCode::kShapeMismatch,
         StrCat(what, " has ", rank, " dimensions where batch, channels and at least one spatial ",
                "dimension are needed"));
  }
  if (rank > 5) {
    Fail(ErrorCode::kUnsupported, StrCat(what, " has more than three spatial dimensions"));
  }
}

int64_t PositiveGroup(const AttributeMap& attributes) {
  const int64_t group = attributes.Int("group", 1);
  if (group < 1) Fail(ErrorCode::kInvalidModel, StrCat("group is ", group));
  return group;
}

/// The kernel's sizes, from the weights and from kernel_shape, which must agree; nullopt when
/// neither gives them.
std::optional<std::vector<int64_t>> KernelSizes(const AttributeMap& attributes,
                                                const SymbolicShape* weight, size_t spatial) {
  const std::vector<int64_t> declared = attributes.Ints("kernel_shape");
  if (!declared.empty() && declared.size() != spatial) {
    Fail(ErrorCode::kInvalidModel, StrCat("kernel_shape has ", declared.size(), " entries for ",
                                          spatial, " spatial dimensions"));
  }
  std::vector<int64_t> kernel;
  for (size_t i = 0; i < spatial; ++i) {
    Dim size = declared.empty() ? Dim() : Dim(declared[i]);
    if (weight != nullptr) size = MergeDims(size, (*weight)[2 + i], "kernel_shape and weights");
    if (!size.known()) return std::nullopt;
    kernel.push_back(size.value);
  }
  return kernel;
}

int64_t FloorDiv(int64_t a, int64_t b) { return a / b - (a % b < 0); }

}  // namespace

SymbolicShape ConvOutputShape(const AttributeMap& attributes, const SymbolicShape& x,
                              const SymbolicShape* weight, const SymbolicShape* bias) {
  CheckSpatialRank(x.size(), "the input");
  const int64_t group = PositiveGroup(attributes);
  Dim channels;
  if (weight != nullptr) {
    if (weight->size() != x.size()) {
      Fail(ErrorCode::kShapeMismatch,
           StrCat("weights of ", weight->size(), " dimensions for an input of ", x.size()));
    }
    channels = (*weight)[0];
    const Dim& depth = (*weight)[1];
    if (x[1].known() && depth.known() && x[1].value != CheckedMul64(depth.value, group)) {
      Fail(ErrorCode::kShapeMismatch,
           StrCat("the input has ", x[1].value, " channels, but the weights take ", depth.value,
                  " in each of ", group, " groups"));
    }
    if (channels.known() && channels.value % group != 0) {
      Fail(ErrorCode::kShapeMismatch,
           StrCat(channels.value, " output channels cannot be divided into ", group, " groups"));
    }
  }
  if (bias != nullptr) {
    if (bias->size() != 1) {
      Fail(ErrorCode::kShapeMismatch, StrCat("the bias has ", bias->size(), " dimensions, not 1"));
    }
    channels = MergeDims(channels, (*bias)[0], "output channels and bias");
  }
  SymbolicShape out(x.size());
  out[0] = x[0];
  out[1] = channels;
  const auto kernel = KernelSizes(attributes, weight, x.size() - 2);
  if (!kernel) return out;
  const Window window = ReadWindow(attributes, *kernel);
  for (size_t i = 0; i < window.rank(); ++i) out[2 + i] = WindowOutput(window, i, x[2 + i]);
  return out;
}

Window ConvWindow(const AttributeMap& attributes, const Shape& weight) {
  CheckSpatialRank(weight.size(), "the weight tensor");
  const SymbolicShape symbolic = ToSymbolic(weight);
  return ReadWindow(attributes, *KernelSizes(attributes, &symbolic, weight.size() - 2));
}

SymbolicShape MatMulOutputShape(const SymbolicShape& a, const SymbolicShape& b) {
  if (a.empty() || b.empty()) {
    Fail(ErrorCode::kShapeMismatch, "a matrix product of a scalar");
  }
  const Dim& inner_a = a.back();
  const Dim& inner_b = b.size() == 1 ? b[0] : b[b.size() - 2];
  MergeDims(inner_a, inner_b, "inner dimensions of the matrix product");
  const SymbolicShape batch_a(a.begin(), a.size() > 2 ? a.end() - 2 : a.begin());
  const SymbolicShape batch_b(b.begin(), b.size() > 2 ? b.end() - 2 : b.begin());
  SymbolicShape out = BroadcastSymbolic(batch_a, batch_b);
  if (a.size() > 1) out.push_back(a[a.size() - 2]);
  if (b.size() > 1) out.push_back(b.back());
  return out;
}

SymbolicShape GemmOutputShape(const AttributeMap& attributes, const SymbolicShape& a,
                              const SymbolicShape& b, const SymbolicShape* c) {
  if (a.size() != 2 || b.size() != 2) {
    Fail(ErrorCode::kShapeMismatch, StrCat("Gemm takes matrices, not tensors of ", a.size(),
                                           " and ", b.size(), " dimensions"));
  }
  const bool trans_a = attributes.Int("transA", 0) != 0;
  const bool trans_b = attributes.Int("transB", 0) != 0;
  MergeDims(a[trans_a ? 0 : 1], b[trans_b ? 1 : 0], "inner dimensions of Gemm");
  SymbolicShape out = {a[trans_a ? 1 : 0], b[trans_b ? 0 : 1]};
  if (c != nullptr) {
    bool fits = c->size() <= 2;
    for (size_t i = 0; fits && i < c->size(); ++i) {
      const Dim& have = (*c)[c->size() - 1 - i];
      const Dim& want = out[1 - i];
      fits = !have.known() || have.value == 1 || !want.known() || have.value == want.value;
    }
    if (!fits) {
      Fail(ErrorCode::kShapeMismatch,
           StrCat("C of ", TypeToString({DType::kUndefined, *c}), " cannot be broadcast to ",
                  TypeToString({DType::kUndefined, out})));
    }
  }
  return out;
}

Window PoolWindow(const AttributeMap& attributes) {
  std::vector<int64_t> kernel = attributes.Ints("kernel_shape");
  if (kernel.empty()) Fail(ErrorCode::kInvalidModel, "attribute kernel_shape is missing");
  Window window = ReadWindow(attributes, std::move(kernel));
  for (size_t i = 0; i < window.rank(); ++i) {
    // A window inside the padding would pool nothing (ONNX Runtime refuses it, too).
    if (std::max(window.pad_begin[i], window.pad_end[i]) >= window.Extent(i)) {
      Fail(ErrorCode::kInvalidModel,
           StrCat("pads of ", window.pad_begin[i], " and ", window.pad_end[i],
                  " are not smaller than the pooling window of ", window.Extent(i)));
    }
  }
  return window;
}

SymbolicShape PoolOutputShape(const AttributeMap& attributes, const SymbolicShape& x) {
  CheckSpatialRank(x.size(), "the input");
  const Window window = PoolWindow(attributes);
  if (window.rank() != x.size() - 2) {
    Fail(ErrorCode::kShapeMismatch, StrCat("kernel_shape has ", window.rank(), " entries for ",
                                           x.size() - 2, " spatial dimensions"));
  }
  SymbolicShape out = {x[0], x[1]};
  for (size_t i = 0; i < window.rank(); ++i) out.push_back(WindowOutput(window, i, x[2 + i]));
  return out;
}

SymbolicShape GlobalPoolOutputShape(const SymbolicShape& x) {
  if (x.size() < 2) {
    Fail(ErrorCode::kShapeMismatch,
         StrCat("the input has ", x.size(), " dimensions where batch and channels are needed"));
  }
  SymbolicShape out(x.size(), Dim(1));
  out[0] = x[0];
  out[1] = x[1];
  return out;
}

Geometry PlaceGeometry(const Window& window, const Shape& x) {
  Geometry out;
  out.input = out.output = out.kernel = out.stride = out.dilation = {1, 1, 1};
  out.pad_begin = out.pad_end = {0, 0, 0};
  for (size_t i = 0; i < window.rank(); ++i) {
    const size_t axis = 3 - window.rank() + i;
    const WindowAxis place = PlaceWindow(window, i, x[2 + i]);
    out.input[axis] = x[2 + i];
    out.output[axis] = place.output;
    out.kernel[axis] = window.kernel[i];
    out.stride[axis] = window.strides[i];
    out.dilation[axis] = window.dilations[i];
    out.pad_begin[axis] = place.pad_begin;
    out.pad_end[axis] = place.pad_end;
  }
  return out;
}

Range InsideOutputs(int64_t input, int64_t output, int64_t stride, int64_t offset) {
  // 0 <= o * stride + offset < input
  const int64_t first = std::max<int64_t>(0, -FloorDiv(offset, stride));
  const int64_t last = std::min(output, FloorDiv(input - 1 - offset, stride) + 1);
  return {first, std::max(first, last)};
}

}  // namespace requant
