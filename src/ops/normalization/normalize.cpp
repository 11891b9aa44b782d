// Normalizations: BatchNormalization, Softmax, LogSoftmax and Hardmax, LayerNormalization. Means
// and variances are summed in double.
#include <algorithm>
#include <cmath>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/str_cat.h"
#include "ops/elementwise/elementwise.h"
#include "ops/infer_util.h"
#include "ops/normalization/normalize.h"
#include "ops/table.h"

namespace requant {

void RequirePerChannel(const InferContext& context, size_t slot) {
  RequireRank(context, slot, 1);
  const SymbolicShape* x = context.shape(0);
  const SymbolicShape* vector = context.shape(slot);
  if (x && vector && x->size() > 1) MergeDims((*x)[1], (*vector)[0], "channels and parameters");
}

std::vector<double> PerChannel(const EvalContext& context, size_t slot, int64_t channels) {
  const Tensor& tensor = context.input(slot);
  if (tensor.count() != channels) {
    Fail(ErrorCode::kShapeMismatch,
         StrCat("input ", slot, " has ", tensor.count(), " elements for ", channels, " channels"));
  }
  return Doubles(tensor);
}

namespace {

/// The product of shape[begin, end).
int64_t Product(const Shape& shape, size_t begin, size_t end) {
  return NumElements(Shape(shape.begin() + static_cast<std::ptrdiff_t>(begin),
                           shape.begin() + static_cast<std::ptrdiff_t>(end)));
}

// --- BatchNormalization

void InferBatchNormalization(InferContext& context) {
  RequireFloat(context, 0);
  RequireMinRank(context, 0, 1);
  for (size_t slot = 1; slot < 5; ++slot) {
    RequireFloat(context, slot);
    RequirePerChannel(context, slot);
  }
  bool training = context.attributes().Int("training_mode", 0) != 0;
  for (size_t i = 1; i < context.node.outputs.size(); ++i) {
    training = training || context.node.outputs[i] != nullptr;
  }
  if (training) {
    Fail(ErrorCode::kUnsupported, "BatchNormalization in training mode",
         {.hint = "export the model for inference"});
  }
  if (context.attributes().Int("spatial", 1) == 0) {
    Fail(ErrorCode::kUnsupported, "BatchNormalization with spatial = 0");
  }
  SameAsInput(context);
}

void EvaluateBatchNormalization(EvalContext& context) {
  const Tensor& x = context.input(0);
  const int64_t channels = x.rank() > 1 ? x.dim(1) : 1;
  const std::vector<double> scale = PerChannel(context, 1, channels);
  const std::vector<double> bias = PerChannel(context, 2, channels);
  const std::vector<double> mean = PerChannel(context, 3, channels);
  const std::vector<double> variance = PerChannel(context, 4, channels);
  const double epsilon = context.attributes().Float("epsilon", 1e-5F);
  Tensor out(x.dtype(), x.shape());
  if (x.count() > 0) {
    const int64_t batch = x.rank() > 0 ? x.dim(0) : 1;
    const int64_t area = x.count() / batch / channels;
    VisitFloat(x.dtype(), [&](auto tag) {
      using T = decltype(tag);
      const T* from = x.data<T>();
      T* to = out.data<T>();
      for (int64_t plane = 0; plane < batch * channels; ++plane) {
        const auto c = static_cast<size_t>(plane % channels);
        const double factor = scale[c] / std::sqrt(variance[c] + epsilon);
        for (int64_t i = 0; i < area; ++i) {
          *to++ = static_cast<T>((*from++ - mean[c]) * factor + bias[c]);
        }
      }
    });
  }
  context.outputs[0] = std::move(out);
}

// --- Softmax, LogSoftmax, Hardmax

/// Elements seen as [outer, length, inner]; the operator works along the middle.
struct Lines {
  int64_t outer, length, inner;
};

/// From opset 13 on only the axis is normalized (default -1). Before, the tensor was a matrix split
/// at the axis (default 1), whose rows were normalized.
Lines SoftmaxLines(const Node& node, int opset, const Shape& shape) {
  const auto rank = static_cast<int64_t>(shape.size());
  const auto axis =
      static_cast<size_t>(NormalizeAxis(node.attributes.Int("axis", opset < 13 ? 1 : -1), rank));
  if (opset < 13) return {Product(shape, 0, axis), Product(shape, axis, shape.size()), 1};
  return {Product(shape, 0, axis), shape[axis], Product(shape, axis + 1, shape.size())};
}

void InferSoftmax(InferContext& context) {
  RequireFloat(context, 0);
  if (const SymbolicShape* shape = context.shape(0)) {
    NormalizeAxis(context.attributes().Int("axis", context.opset < 13 ? 1 : -1),
                  static_cast<int64_t>(shape->size()));
  }
  SameAsInput(context);
}

/// Calls `line(from, to, step)` for each of the lines; elements of a line are `step` apart.
template <typename T, typename Line>
void ForEachLine(const Lines& lines, const Tensor& x, Tensor& out, Line&& line) {
  for (int64_t o = 0; o < lines.outer; ++o) {
    for (int64_t i = 0; i < lines.inner; ++i) {
      const int64_t at = o * lines.length * lines.inner + i;
      line(x.data<T>() + at, out.data<T>() + at, lines.inner);
    }
  }
}

template <typename T>
void SoftmaxLine(const T* from, T* to, int64_t length, int64_t step, bool logarithm) {
  double largest = from[0];
  for (int64_t i = 1; i < length; ++i) largest = std::max<double>(largest, from[i * step]);
  double sum = 0;
  for (int64_t i = 0; i < length; ++i) sum += std::exp(from[i * step] - largest);
  const double log_sum = std::log(sum);
  for (int64_t i = 0; i < length; ++i) {
    const double shifted = from[i * step] - largest;
    to[i * step] = static_cast<T>(logarithm ? shifted - log_sum : std::exp(shifted) / sum);
  }
}

template <typename T>
void HardmaxLine(const T* from, T* to, int64_t length, int64_t step) {
  int64_t best = 0;
  for (int64_t i = 1; i < length; ++i) {
    if (from[i * step] > from[best * step]) best = i;
  }
  for (int64_t i = 0; i < length; ++i) to[i * step] = static_cast<T>(i == best ? 1 : 0);
}

void EvaluateSoftmax(EvalContext& context) {
  const Tensor& x = context.input(0);
  const Lines lines = SoftmaxLines(context.node, context.opset, x.shape());
  const std::string_view op = context.node.op_type;
  Tensor out(x.dtype(), x.shape());
  if (x.count() > 0) {
    VisitFloat(x.dtype(), [&](auto tag) {
      using T = decltype(tag);
      ForEachLine<T>(lines, x, out, [&](const T* from, T* to, int64_t step) {
        if (op == "Hardmax") {
          HardmaxLine(from, to, lines.length, step);
        } else {
          SoftmaxLine(from, to, lines.length, step, op == "LogSoftmax");
        }
      });
    });
  }
  context.outputs[0] = std::move(out);
}

// --- LayerNormalization

void InferLayerNormalization(InferContext& context) {
  RequireFloat(context, 0);
  for (size_t slot = 1; slot < 3; ++slot) RequireSameDType(context, 0, slot);
  SameAsInput(context);
  std::optional<SymbolicShape> moments;
  if (const SymbolicShape* x = context.shape(0)) {
    const auto axis = static_cast<size_t>(
        NormalizeAxis(context.attributes().Int("axis", -1), static_cast<int64_t>(x->size())));
    const SymbolicShape normalized(x->begin() + static_cast<std::ptrdiff_t>(axis), x->end());
    for (size_t slot = 1; slot < 3; ++slot) {
      const SymbolicShape* parameter = context.shape(slot);
      if (!context.has(slot) || parameter == nullptr) continue;
      if (BroadcastSymbolic(*x, *parameter).size() != x->size()) {
        Fail(ErrorCode::kShapeMismatch,
             StrCat("input ", slot, " of LayerNormalization has more dimensions than the data"));
      }
    }
    moments = *x;
    for (size_t i = axis; i < x->size(); ++i) (*moments)[i] = 1;
  }
  SetOutput(context, 1, DType::kFloat32, moments);
  SetOutput(context, 2, DType::kFloat32, std::move(moments));
}

/// The parameter stretched to the shape of the data.
std::vector<double> Stretched(const Tensor& parameter, const Shape& shape) {
  const std::vector<double> values = Doubles(parameter);
  const RowPlan plan = PlanRows(shape, {&parameter.shape()});
  std::vector<double> out(static_cast<size_t>(plan.count));
  ForEachRow(plan, [&](const RowStep& row) {
    for (int64_t i = 0; i < row.length; ++i) {
      out[static_cast<size_t>(row.output + i)] =
          values[static_cast<size_t>(row.input[0] + i * row.step[0])];
    }
  });
  return out;
}

/// 1 / sqrt(mean of squares + epsilon).
template <typename T>
double InverseRoot(const T* from, int64_t count, double epsilon) {
  double squares = 0;
  for (int64_t i = 0; i < count; ++i) squares += static_cast<double>(from[i]) * from[i];
  return 1 / std::sqrt(squares / static_cast<double>(count) + epsilon);
}

void EvaluateLayerNormalization(EvalContext& context) {
  const Tensor& x = context.input(0);
  // RMSNormalization (and its older name) does not subtract the mean.
  const bool simple = context.node.op_type != "LayerNormalization";
  const auto axis =
      static_cast<size_t>(NormalizeAxis(context.attributes().Int("axis", -1), x.rank()));
  const double epsilon = context.attributes().Float("epsilon", 1e-5F);
  const std::vector<double> scale = Stretched(context.input(1), x.shape());
  const std::vector<double> bias =
      context.has(2) ? Stretched(context.input(2), x.shape()) : std::vector<double>{};
  Shape moments_shape = x.shape();
  std::fill(moments_shape.begin() + static_cast<std::ptrdiff_t>(axis), moments_shape.end(), 1);
  Tensor out(x.dtype(), x.shape());
  Tensor means(DType::kFloat32, moments_shape);
  Tensor deviations(DType::kFloat32, moments_shape);
  if (x.count() > 0) {
    const int64_t length = Product(x.shape(), axis, x.shape().size());
    VisitFloat(x.dtype(), [&](auto tag) {
      using T = decltype(tag);
      for (int64_t row = 0; row < means.count(); ++row) {
        const T* from = x.data<T>() + row * length;
        const Moments moments = simple ? Moments{0, InverseRoot(from, length, epsilon)}
                                       : MomentsOf(from, length, epsilon);
        means.data<float>()[row] = static_cast<float>(moments.mean);
        deviations.data<float>()[row] = static_cast<float>(moments.inverse_deviation);
        for (int64_t i = 0; i < length; ++i) {
          const auto at = static_cast<size_t>(row * length + i);
          const double normal = (from[i] - moments.mean) * moments.inverse_deviation;
          out.data<T>()[at] = static_cast<T>(normal * scale[at] + (bias.empty() ? 0 : bias[at]));
        }
      }
    });
  }
  context.outputs[0] = std::move(out);
  if (context.outputs.size() > 1) context.outputs[1] = simple ? deviations : std::move(means);
  if (context.outputs.size() > 2) context.outputs[2] = std::move(deviations);
}

constexpr OpDef SoftmaxRow(const char* name) {
  return {name,
          "",
          1,
          1,
          1,
          1,
          InferSoftmax,
          EvaluateSoftmax,
          QuantRule::kFloat,
          FusionRule::kOutFusable};
}

constexpr OpDef kOps[] = {
    {"BatchNormalization", "", 7, 5, 5, 5, InferBatchNormalization, EvaluateBatchNormalization,
     QuantRule::kFloat, FusionRule::kOutFusable},
    SoftmaxRow("Hardmax"),
    // ONNX has it from opset 17 on; onnxruntime has always had it in this domain, and files use
    // that.
    {"LayerNormalization", "", 1, 2, 3, 3, InferLayerNormalization, EvaluateLayerNormalization,
     QuantRule::kFloat, FusionRule::kOutFusable},
    SoftmaxRow("LogSoftmax"),
    {"RMSNormalization", "", 23, 2, 2, 1, InferLayerNormalization, EvaluateLayerNormalization,
     QuantRule::kFloat, FusionRule::kOutFusable},
    {"SimplifiedLayerNormalization", "", 1, 2, 2, 2, InferLayerNormalization,
     EvaluateLayerNormalization, QuantRule::kFloat, FusionRule::kOutFusable},
    SoftmaxRow("Softmax"),
};

}  // namespace

std::span<const OpDef> NormalizeOps() { return kOps; }

}  // namespace requant
