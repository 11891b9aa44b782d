// Unique, Compress, the bitwise operators, Det, TfIdfVectorizer (onnx docs/Operators.md).
#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <vector>

#include "base/error.h"
#include "base/str_cat.h"
#include "ops/elementwise.h"
#include "ops/infer_util.h"
#include "ops/select.h"
#include "ops/table.h"

namespace requant {
namespace {

// --- Unique: values, first index, inverse, counts

void InferUnique(InferContext& context) {
  SymbolicShape unknown(1);
  std::optional<SymbolicShape> values = unknown;
  if (context.attributes().Has("axis")) {
    values = context.inputs[0].shape;
    if (values) {
      const int64_t axis =
          NormalizeAxis(context.attributes().Int("axis", 0), static_cast<int64_t>(values->size()));
      (*values)[static_cast<size_t>(axis)] = Dim();
    }
  }
  SetOutput(context, 0, context.inputs[0].dtype, values);
  for (size_t slot = 1; slot < 4; ++slot) SetOutput(context, slot, DType::kInt64, unknown);
}

/// -1, 0, 1: how `count` elements from `a` on compare to those from `b` on, NaN being the greatest.
int CompareRows(const Tensor& tensor, int64_t a, int64_t b, int64_t count) {
  int order = 0;
  const bool known = VisitDType(tensor.dtype(), [&](auto tag) {
    using T = decltype(tag);
    const T* values = static_cast<const T*>(tensor.raw());
    const auto less = [](T x, T y) { return x < y || (x == x && y != y); };
    for (int64_t i = 0; i < count && order == 0; ++i) {
      if (less(values[a + i], values[b + i])) order = -1;
      if (less(values[b + i], values[a + i])) order = 1;
    }
  });
  if (!known) Fail(ErrorCode::kUnsupported, StrCat("Unique of ", DTypeName(tensor.dtype())));
  return order;
}

void EvaluateUnique(EvalContext& context) {
  const bool flat = !context.attributes().Has("axis");
  const Tensor x = flat ? context.input(0).Reshaped({context.input(0).count()}) : context.input(0);
  const auto axis =
      static_cast<size_t>(flat ? 0 : NormalizeAxis(context.attributes().Int("axis", 0), x.rank()));
  const int64_t count = x.shape()[axis];
  const int64_t inner = RowMajorStrides(x.shape())[axis];
  const int64_t outer = x.count() > 0 ? x.count() / count / inner : 0;
  const Tensor comparable = x.dtype() == DType::kFloat16 || x.dtype() == DType::kBfloat16
                                ? Tensor::FromVector<double>(x.ToDoubles(), x.shape())
                                : x;
  /// -1, 0, 1: how two slices compare, element by element.
  const auto compare = [&](int64_t a, int64_t b) {
    for (int64_t o = 0; o < outer; ++o) {
      const int order =
          CompareRows(comparable, (o * count + a) * inner, (o * count + b) * inner, inner);
      if (order != 0) return order;
    }
    return 0;
  };
  std::vector<int64_t> order = Sequence(count);
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t a, int64_t b) { return compare(a, b) < 0; });
  // Groups of equal slices, each by its first index.
  struct Group {
    int64_t first, size;
    size_t sorted;  // place among the sorted groups
  };
  std::vector<Group> groups;
  std::vector<size_t> group_of(static_cast<size_t>(count));
  for (size_t i = 0; i < order.size(); ++i) {
    if (i == 0 || compare(order[i - 1], order[i]) != 0)
      groups.push_back({order[i], 0, groups.size()});
    ++groups.back().size;
    group_of[static_cast<size_t>(order[i])] = groups.size() - 1;
  }
  if (context.attributes().Int("sorted", 1) == 0) {
    std::sort(groups.begin(), groups.end(),
              [](const Group& a, const Group& b) { return a.first < b.first; });
  }
  std::vector<int64_t> place(groups.size()), firsts, sizes, inverse;
  for (size_t i = 0; i < groups.size(); ++i) {
    place[groups[i].sorted] = static_cast<int64_t>(i);
    firsts.push_back(groups[i].first);
    sizes.push_back(groups[i].size);
  }
  for (const size_t group : group_of) inverse.push_back(place[group]);
  std::vector<std::vector<int64_t>> picked;
  for (const int64_t dim : x.shape()) picked.push_back(Sequence(dim));
  picked[axis] = firsts;
  context.outputs[0] = SelectByAxis(x, picked);
  const std::vector<int64_t>* lists[] = {&firsts, &inverse, &sizes};
  for (size_t slot = 1; slot < context.outputs.size(); ++slot) {
    context.outputs[slot] = Tensor::Vector(*lists[slot - 1]);
  }
}

// --- Compress

void InferCompress(InferContext& context) {
  RequireDType(context, 1, {DType::kBool});
  RequireRank(context, 1, 1);
  std::optional<SymbolicShape> shape = SymbolicShape(1);
  if (context.attributes().Has("axis")) {
    shape = context.inputs[0].shape;
    if (shape) {
      const int64_t axis =
          NormalizeAxis(context.attributes().Int("axis", 0), static_cast<int64_t>(shape->size()));
      (*shape)[static_cast<size_t>(axis)] = Dim();
    }
  }
  SetOutput(context, 0, context.inputs[0].dtype, shape);
}

void EvaluateCompress(EvalContext& context) {
  const bool flat = !context.attributes().Has("axis");
  const Tensor x = flat ? context.input(0).Reshaped({context.input(0).count()}) : context.input(0);
  const auto axis =
      static_cast<size_t>(flat ? 0 : NormalizeAxis(context.attributes().Int("axis", 0), x.rank()));
  const Tensor& condition = context.input(1);
  std::vector<std::vector<int64_t>> picked;
  for (const int64_t dim : x.shape()) picked.push_back(Sequence(dim));
  picked[axis].clear();
  for (int64_t i = 0; i < std::min(condition.count(), x.shape()[axis]); ++i) {
    if (condition.AsInt64(i) != 0) picked[axis].push_back(i);
  }
  context.outputs[0] = SelectByAxis(x, picked);
}

// --- BitShift, BitwiseAnd, BitwiseOr, BitwiseXor, BitwiseNot

void InferBitwise(InferContext& context) {
  for (size_t slot = 0; slot < context.inputs.size(); ++slot) {
    const DType dtype = context.inputs[slot].dtype;
    if (dtype != DType::kUndefined && (!IsInteger(dtype) || DTypeBits(dtype) < 8)) {
      Fail(ErrorCode::kTypeMismatch, StrCat(context.node.op_type, " of ", DTypeName(dtype)));
    }
  }
  ElementwiseBroadcast(context);
}

uint64_t Combine(char kind, uint64_t a, uint64_t b, unsigned bits) {
  switch (kind) {
    case '&':
      return a & b;
    case '|':
      return a | b;
    case '^':
      return a ^ b;
    case '<':
      return b >= bits ? 0 : a << b;
    default:
      return b >= bits ? 0 : a >> b;
  }
}

void EvaluateBitwise(EvalContext& context) {
  const std::string& op = context.node.op_type;
  char kind = op == "BitwiseAnd" ? '&' : op == "BitwiseOr" ? '|' : '^';
  if (op == "BitShift") {
    const std::string direction = context.attributes().String("direction", "");
    if (direction != "LEFT" && direction != "RIGHT") {
      Fail(ErrorCode::kInvalidModel, StrCat("direction '", direction, "' of BitShift"));
    }
    kind = direction == "LEFT" ? '<' : '>';
  }
  const Tensor& a = context.input(0);
  const Tensor ones = Tensor::Scalar(int64_t{-1});  // BitwiseNot: x ^ ...1
  const bool unary = op == "BitwiseNot";
  const Tensor& b = unary ? ones : context.input(1);
  Tensor out(a.dtype(), BroadcastShapes(a.shape(), b.shape()));
  VisitDType(a.dtype(), [&](auto tag) {
    using T = decltype(tag);
    if constexpr (std::is_integral_v<T>) {
      ForEachRow(PlanRows(out.shape(), {&a.shape(), &b.shape()}), [&](const RowStep& row) {
        const auto* left = static_cast<const T*>(a.raw()) + row.input[0];
        const auto* right = static_cast<const T*>(b.raw()) + row.input[1];
        for (int64_t i = 0; i < row.length; ++i) {
          const auto x = static_cast<uint64_t>(left[i * row.step[0]]);
          const uint64_t y = unary ? ~uint64_t{0} : static_cast<uint64_t>(right[i * row.step[1]]);
          static_cast<T*>(out.raw())[row.output + i] =
              static_cast<T>(Combine(kind, x, y, sizeof(T) * 8));
        }
      });
    }
  });
  context.outputs[0] = std::move(out);
}

// --- Det

void InferDet(InferContext& context) {
  RequireFloat(context, 0);
  RequireMinRank(context, 0, 2);
  std::optional<SymbolicShape> shape = context.inputs[0].shape;
  if (shape) {
    MergeDims((*shape)[shape->size() - 1], (*shape)[shape->size() - 2], "sides of a matrix");
    shape->resize(shape->size() - 2);
  }
  SetOutput(context, 0, context.inputs[0].dtype, shape);
}

/// Gaussian elimination with partial pivoting; the matrix is used up.
double Determinant(std::vector<double>& m, size_t n) {
  double det = 1;
  for (size_t k = 0; k < n; ++k) {
    size_t pivot = k;
    for (size_t i = k + 1; i < n; ++i) {
      if (std::fabs(m[i * n + k]) > std::fabs(m[pivot * n + k])) pivot = i;
    }
    if (m[pivot * n + k] == 0) return 0;
    if (pivot != k) {
      std::swap_ranges(m.begin() + static_cast<std::ptrdiff_t>(k * n),
                       m.begin() + static_cast<std::ptrdiff_t>((k + 1) * n),
                       m.begin() + static_cast<std::ptrdiff_t>(pivot * n));
      det = -det;
    }
    det *= m[k * n + k];
    for (size_t i = k + 1; i < n; ++i) {
      const double factor = m[i * n + k] / m[k * n + k];
      for (size_t j = k; j < n; ++j) m[i * n + j] -= factor * m[k * n + j];
    }
  }
  return det;
}

void EvaluateDet(EvalContext& context) {
  const Tensor& x = context.input(0);
  const int64_t n = x.rank() >= 2 ? x.dim(x.rank() - 1) : -1;
  if (n < 0 || x.dim(x.rank() - 2) != n) {
    Fail(ErrorCode::kShapeMismatch, StrCat("Det of ", ShapeToString(x.shape())));
  }
  Tensor out(x.dtype(), Shape(x.shape().begin(), x.shape().end() - 2));
  const std::vector<double> values = x.ToDoubles();
  for (int64_t i = 0; i < out.count(); ++i) {
    std::vector<double> matrix(values.begin() + i * n * n, values.begin() + (i + 1) * n * n);
    const double det = Determinant(matrix, static_cast<size_t>(n));
    if (x.dtype() == DType::kFloat64) {
      out.data<double>()[i] = det;
    } else {
      out.data<float>()[i] = static_cast<float>(det);
    }
  }
  context.outputs[0] = std::move(out);
}

// --- TfIdfVectorizer (of integers)

int64_t VectorSize(const AttributeMap& attributes) {
  const std::vector<int64_t> indexes = attributes.Ints("ngram_indexes");
  if (indexes.empty() || *std::min_element(indexes.begin(), indexes.end()) < 0) {
    Fail(ErrorCode::kInvalidModel, "TfIdfVectorizer without ngram_indexes");
  }
  return CheckedAdd64(*std::max_element(indexes.begin(), indexes.end()), 1);
}

void InferTfIdf(InferContext& context) {
  RequireDType(context, 0, {DType::kInt32, DType::kInt64});
  std::optional<SymbolicShape> shape = context.inputs[0].shape;
  if (shape) {
    if (shape->empty() || shape->size() > 2) {
      Fail(ErrorCode::kShapeMismatch, StrCat("TfIdfVectorizer of rank ", shape->size()));
    }
    shape->back() = VectorSize(context.attributes());
  }
  SetOutput(context, 0, DType::kFloat32, shape);
}

void EvaluateTfIdf(EvalContext& context) {
  const AttributeMap& attributes = context.attributes();
  const Tensor& x = context.input(0);
  const std::vector<int64_t> starts = attributes.Ints("ngram_counts");
  const std::vector<int64_t> indexes = attributes.Ints("ngram_indexes");
  const std::vector<int64_t> pool = attributes.Ints("pool_int64s");
  const std::vector<float> weights = attributes.Floats("weights");
  const int64_t shortest = attributes.Int("min_gram_length", 1);
  const int64_t longest = attributes.Int("max_gram_length", 1);
  const int64_t skips = attributes.Int("max_skip_count", 0);
  const std::string mode = attributes.String("mode", "TF");
  const int64_t size = VectorSize(attributes);
  if (x.rank() < 1 || x.rank() > 2 || pool.empty() || shortest < 1 || longest < shortest ||
      (mode != "TF" && mode != "IDF" && mode != "TFIDF") ||
      (!weights.empty() && weights.size() != indexes.size())) {
    Fail(ErrorCode::kInvalidModel, "TfIdfVectorizer with attributes that do not fit together");
  }
  const int64_t length = x.dim(x.rank() - 1);
  const int64_t rows = x.rank() == 2 ? x.dim(0) : 1;
  const std::vector<int64_t> values = x.ToInts();
  Shape shape = x.shape();
  shape.back() = size;
  Tensor out(DType::kFloat32, shape);
  size_t gram = 0;  // counts the n-grams of the pool
  for (size_t n = 1; n <= starts.size(); ++n) {
    const auto width = static_cast<int64_t>(n);
    const auto words = static_cast<int64_t>(pool.size());
    const int64_t end = n < starts.size() ? starts[n] : words;
    if (starts[n - 1] < 0 || starts[n - 1] > words || end < 0 || end > words) {
      Fail(ErrorCode::kInvalidModel, "ngram_counts of TfIdfVectorizer do not fit its pool");
    }
    for (int64_t at = starts[n - 1]; width <= end - at; at += width, ++gram) {
      if (gram >= indexes.size()) {
        Fail(ErrorCode::kInvalidModel, "TfIdfVectorizer has more n-grams than ngram_indexes");
      }
      if (width < shortest || width > longest) continue;
      for (int64_t row = 0; row < rows; ++row) {
        float found = 0;
        // One word alone has nothing to skip.
        const int64_t last_step = n == 1 ? 1 : std::min(skips, length) + 1;
        for (int64_t step = 1; step <= last_step; ++step) {
          for (int64_t first = 0; first + (width - 1) * step < length; ++first) {
            bool same = true;
            for (int64_t i = 0; same && i < width; ++i) {
              same = values[static_cast<size_t>(row * length + first + i * step)] ==
                     pool[static_cast<size_t>(at + i)];
            }
            found += same ? 1 : 0;
          }
        }
        const float weight = weights.empty() ? 1 : weights[gram];
        if (mode == "IDF") found = found > 0 ? weight : 0;
        if (mode == "TFIDF") found *= weight;
        if (found != 0) out.data<float>()[row * size + indexes[gram]] = found;
      }
    }
  }
  context.outputs[0] = std::move(out);
}

constexpr OpDef Bitwise(const char* name, int since, int inputs) {
  return {name,
          "",
          since,
          inputs,
          inputs,
          1,
          InferBitwise,
          EvaluateBitwise,
          QuantRule::kFloat,
          FusionRule::kBroadcast};
}

constexpr OpDef kRows[] = {
    Bitwise("BitShift", 11, 2),
    Bitwise("BitwiseAnd", 18, 2),
    Bitwise("BitwiseNot", 18, 1),
    Bitwise("BitwiseOr", 18, 2),
    Bitwise("BitwiseXor", 18, 2),
    {"Compress", "", 9, 2, 2, 1, InferCompress, EvaluateCompress, QuantRule::kFloat},
    {"Det", "", 11, 1, 1, 1, InferDet, EvaluateDet, QuantRule::kFloat},
    {"TfIdfVectorizer", "", 9, 1, 1, 1, InferTfIdf, EvaluateTfIdf, QuantRule::kFloat},
    {"Unique", "", 11, 1, 1, 4, InferUnique, EvaluateUnique, QuantRule::kFloat},
};

}  // namespace

std::span<const OpDef> SelectDataOps() { return kRows; }

}  // namespace requant
