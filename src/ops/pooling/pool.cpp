// MaxPool, AveragePool and their global forms.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/error.h"
#include "base/str_cat.h"
#include "ops/elementwise/elementwise.h"
#include "ops/pooling/pool_windows.h"
#include "ops/shape_rules.h"
#include "ops/table.h"

namespace requant {
namespace {

std::optional<SymbolicShape> InferredPool(const InferContext& context) {
  if (context.shape(0) == nullptr) {
    PoolWindow(context.attributes());  // checks the attributes even without a shape
    return std::nullopt;
  }
  return PoolOutputShape(context.attributes(), *context.shape(0));
}

// --- MaxPool

void InferMaxPool(InferContext& context) {
  RequireDType(context, 0, {DType::kFloat32, DType::kFloat64, DType::kInt8, DType::kUint8});
  std::optional<SymbolicShape> shape = InferredPool(context);
  SetOutput(context, 0, context.inputs[0].dtype, shape);
  SetOutput(context, 1, DType::kInt64, std::move(shape));
}

/// The entry of MaxPool's Indices: the element's index in the whole tensor [N, C, ...], the spatial
/// part in row-major (storage_order 0) or column-major order. `offset` is row-major in the plane.
int64_t StoredIndex(const Geometry& g, int64_t plane, int64_t offset, bool column_major) {
  const int64_t base = plane * g.input_size();
  if (!column_major) return base + offset;
  const int64_t w = offset % g.input[2];
  const int64_t h = offset / g.input[2] % g.input[1];
  const int64_t d = offset / g.input[2] / g.input[1];
  return base + d + g.input[0] * (h + g.input[1] * w);
}

template <typename T>
void PoolMaximum(const PoolJob& job, const T* x, T* to, int64_t* indices, bool column_major) {
  const Geometry& g = job.geometry;
  for (int64_t plane = 0; plane < job.planes; ++plane) {
    const T* from = x + plane * g.input_size();
    ForEachWindow(g, [&](const auto& taps, const auto& start, int64_t index) {
      T best = std::numeric_limits<T>::lowest();  // stays for a dilated window without any element
      int64_t where = -1;
      ForEachTap(g, taps, start, [&](int64_t offset) {
        const T value = from[offset];
        // The first maximum wins; NaN wins over everything, as in numpy.
        if (where < 0 || value > best || (IsNaN(value) && !IsNaN(best))) {
          best = value;
          where = offset;
        }
      });
      to[plane * g.output_size() + index] = best;
      if (indices) {
        indices[plane * g.output_size() + index] =
            where < 0 ? -1 : StoredIndex(g, plane, where, column_major);
      }
    });
  }
}

void EvaluateMaxPool(EvalContext& context) {
  const Tensor& x = context.input(0);
  PoolJob job = StartPool(context);
  Tensor indices;
  if (context.outputs.size() > 1) indices = Tensor(DType::kInt64, job.out.shape());
  const bool column_major = context.attributes().Int("storage_order", 0) != 0;
  if (job.out.count() > 0) {
    int64_t* where = indices.empty() ? nullptr : indices.data<int64_t>();
    const auto run = [&](auto tag) {
      using T = decltype(tag);
      PoolMaximum<T>(job, x.data<T>(), job.out.data<T>(), where, column_major);
    };
    switch (x.dtype()) {
      case DType::kFloat64:
        run(double{});
        break;
      case DType::kInt8:
        run(int8_t{});
        break;
      case DType::kUint8:
        run(uint8_t{});
        break;
      default:
        run(float{});
    }
  }
  context.outputs[0] = std::move(job.out);
  if (context.outputs.size() > 1) context.outputs[1] = std::move(indices);
}

// --- AveragePool

template <typename T>
void PoolAverage(const PoolJob& job, const T* x, T* to, bool include_pad) {
  const Geometry& g = job.geometry;
  for (int64_t plane = 0; plane < job.planes; ++plane) {
    const T* from = x + plane * g.input_size();
    ForEachWindow(g, [&](const auto& taps, const auto& start, int64_t index) {
      double sum = 0;
      ForEachTap(g, taps, start, [&](int64_t offset) { sum += from[offset]; });
      const double divisor = AverageDivisor(g, taps, start, include_pad);
      to[plane * g.output_size() + index] = static_cast<T>(divisor > 0 ? sum / divisor : 0.0);
    });
  }
}

void EvaluateAveragePool(EvalContext& context) {
  const Tensor& x = context.input(0);
  PoolJob job = StartPool(context);
  const bool include_pad = context.attributes().Int("count_include_pad", 0) != 0;
  if (job.out.count() > 0) {
    if (x.dtype() == DType::kFloat64) {
      PoolAverage(job, x.data<double>(), job.out.data<double>(), include_pad);
    } else {
      PoolAverage(job, x.data<float>(), job.out.data<float>(), include_pad);
    }
  }
  context.outputs[0] = std::move(job.out);
}

// --- global forms

void InferGlobal(InferContext& context) {
  std::optional<SymbolicShape> shape;
  if (context.shape(0)) shape = GlobalPoolOutputShape(*context.shape(0));
  SetOutput(context, 0, context.inputs[0].dtype, std::move(shape));
}

void InferGlobalMax(InferContext& context) {
  RequireDType(context, 0, {DType::kFloat32, DType::kFloat64, DType::kInt8, DType::kUint8});
  InferGlobal(context);
}

template <typename T>
Tensor GlobalMaximum(const Tensor& x) {
  return ReducePlanes<T>(x, [](const T* from, int64_t count) {
    T best = std::numeric_limits<T>::lowest();
    for (int64_t i = 0; i < count; ++i) {
      if (from[i] > best || IsNaN(from[i])) best = from[i];
    }
    return best;
  });
}

void EvaluateGlobalMaxPool(EvalContext& context) {
  const Tensor& x = context.input(0);
  switch (x.dtype()) {
    case DType::kFloat64:
      context.outputs[0] = GlobalMaximum<double>(x);
      break;
    case DType::kInt8:
      context.outputs[0] = GlobalMaximum<int8_t>(x);
      break;
    case DType::kUint8:
      context.outputs[0] = GlobalMaximum<uint8_t>(x);
      break;
    default:
      context.outputs[0] = GlobalMaximum<float>(x);
  }
}

template <typename T>
Tensor GlobalAverage(const Tensor& x) {
  return ReducePlanes<T>(x, [](const T* from, int64_t count) {
    double sum = 0;
    for (int64_t i = 0; i < count; ++i) sum += from[i];
    return static_cast<T>(sum / static_cast<double>(count));
  });
}

void EvaluateGlobalAveragePool(EvalContext& context) {
  const Tensor& x = context.input(0);
  context.outputs[0] =
      x.dtype() == DType::kFloat64 ? GlobalAverage<double>(x) : GlobalAverage<float>(x);
}

constexpr OpDef kOps[] = {
    {"MaxPool", "", 1, 1, 1, 2, InferMaxPool, EvaluateMaxPool, QuantRule::kPassive,
     FusionRule::kOutFusable},
    {"AveragePool", "", 1, 1, 1, 1, InferFloatPool, EvaluateAveragePool, QuantRule::kAveragePool,
     FusionRule::kOutFusable},
    {"GlobalMaxPool", "", 1, 1, 1, 1, InferGlobalMax, EvaluateGlobalMaxPool, QuantRule::kPassive,
     FusionRule::kOutFusable},
    {"GlobalAveragePool", "", 1, 1, 1, 1, InferGlobalFloat, EvaluateGlobalAveragePool,
     QuantRule::kAveragePool, FusionRule::kOutFusable},
};

}  // namespace

bool WindowsHoldData(const AttributeMap& attributes, const std::optional<SymbolicShape>& x) {
  const Window window = PoolWindow(attributes);
  if (x && x->size() != window.rank() + 2) return false;
  for (size_t axis = 0; axis < window.rank(); ++axis) {
    const Dim size = x ? (*x)[axis + 2] : Dim();
    const int64_t taps = window.kernel[axis];
    const int64_t dilation = window.dilations[axis];
    if (!size.known()) {
      if (dilation != 1 || window.pad_begin[axis] >= taps || window.pad_end[axis] >= taps) {
        return false;
      }
      continue;
    }
    const WindowAxis place = PlaceWindow(window, axis, size.value);
    for (int64_t i = 0; i < place.output; ++i) {
      const int64_t start = i * window.strides[axis] - place.pad_begin;
      const Range inside = InsideTaps(start, taps, dilation, 0, size.value);
      if (inside.first >= inside.last) return false;
    }
  }
  return true;
}

PoolJob StartPool(const EvalContext& context) {
  const Tensor& x = context.input(0);
  const ValueType type{x.dtype(), PoolOutputShape(context.attributes(), ToSymbolic(x.shape()))};
  return {Tensor(x.dtype(), type.StaticShape()),
          PlaceGeometry(PoolWindow(context.attributes()), x.shape()), x.dim(0) * x.dim(1)};
}

void InferFloatPool(InferContext& context) {
  RequireFloat(context, 0);
  SetOutput(context, 0, context.inputs[0].dtype, InferredPool(context));
}

void InferGlobalFloat(InferContext& context) {
  RequireFloat(context, 0);
  InferGlobal(context);
}

std::span<const OpDef> PoolOps() { return kOps; }

}  // namespace requant
