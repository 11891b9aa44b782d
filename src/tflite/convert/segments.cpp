// Operators that gather elements into segments, or place them: segments, SPARSE_TO_DENSE,
// DYNAMIC_UPDATE_SLICE, diagonals, UNIQUE.
#include <algorithm>
#include <limits>

#include "base/checked_math.h"
#include "base/late_text.h"
#include "base/str_cat.h"
#include "tflite/operators.h"

namespace requant::tflite {
namespace {

/// A list of this many indices takes 8 MB.
constexpr int64_t kMostIndices = int64_t{1} << 20;

/// The sizes behind the first `from` dimensions of an input, computed.
Value* SizesFrom(Context& context, size_t slot, int64_t from) {
  return context.Add("Shape", {context.Codes(slot)}, With("start", from));
}

Value* Filled(Context& context, Value* shape, Tensor value) {
  return context.Add("ConstantOfShape", {shape}, With("value", std::move(value)));
}

Value* OneInt(Context& context, Value* value) {
  return context.Add("Reshape", {value, context.Ints({1})});
}

template <typename T>
Tensor Limit(bool most) {
  return Tensor::Vector(
      std::vector<T>{most ? std::numeric_limits<T>::max() : std::numeric_limits<T>::lowest()});
}

/// The neutral element of a reduction, which is the result for a segment without elements.
Tensor Neutral(const Context& context, std::string_view reduction, DType dtype) {
  if (reduction == "add") return Tensor(dtype, {1});
  switch (dtype) {
    case DType::kFloat32:
      return reduction == "mul" ? Tensor::Vector(std::vector<float>{1})
                                : Limit<float>(reduction == "min");
    case DType::kInt32:
      return reduction == "mul" ? Tensor::Vector(std::vector<int32_t>{1})
                                : Limit<int32_t>(reduction == "min");
    case DType::kInt64:
      return reduction == "mul" ? Tensor::Vector(std::vector<int64_t>{1})
                                : Limit<int64_t>(reduction == "min");
    default:
      context.Refuse(StrCat(RQ_LATE_TEXT("reduces "), DTypeName(dtype)),
                     RQ_LATE_TEXT("use float32, int32 or int64"));
  }
}

}  // namespace

/// The ids ascend, so the last one tells the number of segments.
void ConvertSegmentSum(Context& context, const char*) {
  Value* ids = context.Int64(1);
  Value* last = context.Add("ReduceMax", {ids}, With("keepdims", int64_t{1}));
  Value* count = context.Add("Add", {OneInt(context, last), context.Ints({1})});
  Value* shape = context.Add("Concat", {count, SizesFrom(context, 0, 1)}, With("axis", int64_t{0}));
  Value* zeros = Filled(context, shape, Tensor(context.output().dtype, {1}));
  Value* places = context.Add("Unsqueeze", {ids, context.Ints({-1})});
  context.Define(context.Add("ScatterND", {zeros, places, context.Codes(0)},
                             With("reduction", std::string("add"))));
}

/// UNSORTED_SEGMENT_SUM, _PROD, _MAX and _MIN; `reduction` is that of ScatterND. Elements with a
/// negative id are left out: they go to a segment behind the last, which is cut off.
void ConvertUnsortedSegment(Context& context, const char* reduction) {
  const auto ids_rank = static_cast<int64_t>(context.rank(1));
  Value* ids = context.Int64(1);
  Value* count = OneInt(context, context.Int64(2));
  Value* used = context.Add("Less", {ids, context.Ints({0})});
  Value* places = context.Add("Where", {used, count, ids});
  Value* rows = context.Add("Add", {count, context.Ints({1})});
  Value* shape =
      context.Add("Concat", {rows, SizesFrom(context, 0, ids_rank)}, With("axis", int64_t{0}));
  Value* start = Filled(context, shape, Neutral(context, reduction, context.output().dtype));
  places = context.Add("Unsqueeze", {places, context.Ints({-1})});
  Value* sums = context.Add("ScatterND", {start, places, context.Codes(0)},
                            With("reduction", std::string(reduction)));
  context.Define(context.Add("Slice", {sums, context.Ints({0}), count, context.Ints({0})}));
}

/// Indices are a number, a list of numbers, or a list of positions.
void ConvertSparseToDense(Context& context, const char*) {
  const auto rank =
      static_cast<int64_t>(context.input(1).shape.empty() || !context.input(1).shape[0].known()
                               ? 1
                               : context.input(1).shape[0].value);
  Value* dense = context.Add("Expand", {context.Codes(3), context.Int64(1)});
  Value* places = context.Add("Reshape", {context.Int64(0), context.Ints({-1, rank})});
  Value* count = context.Add("Shape", {places}, With("start", int64_t{0}, "end", int64_t{1}));
  Value* values = context.Add("Expand", {context.Codes(2), count});
  context.Define(context.Add("ScatterND", {dense, places, values}));
}

/// Places the update at a position that is moved so far that it fits (XLA's DynamicUpdateSlice).
void ConvertDynamicUpdateSlice(Context& context, const char*) {
  const SymbolicShape& whole = context.input(0).shape;
  const SymbolicShape& part = context.input(1).shape;
  if (whole.size() != part.size()) context.Invalid(RQ_LATE_TEXT("has an update of another rank"));
  if (whole.empty()) return context.Define(context.Add("Identity", {context.Reals(1)}));
  // Behind the last dimension that the update does not fill, whole blocks are placed.
  size_t depth = 0;
  int64_t count = 1;
  std::vector<int64_t> room;
  for (size_t i = 0; i < whole.size(); ++i) {
    if (!whole[i].known() || !part[i].known()) {
      context.Refuse(RQ_LATE_TEXT("has an input of open size"),
                     RQ_LATE_TEXT("convert the model with fixed shapes"));
    }
    if (part[i].value > whole[i].value) context.Invalid(RQ_LATE_TEXT("has too large an update"));
    room.push_back(whole[i].value - part[i].value);
    if (room.back() != 0) depth = i + 1;
  }
  if (depth == 0) return context.Define(context.Add("Identity", {context.Reals(1)}));
  Shape grid;
  for (size_t i = 0; i < depth; ++i) {
    grid.push_back(part[i].value);
    count = CheckedMul64(count, part[i].value);
  }
  if (count > kMostIndices / static_cast<int64_t>(depth)) {
    context.Refuse(RQ_LATE_TEXT("has an update of too many elements"),
                   RQ_LATE_TEXT("update fewer at a time"));
  }
  std::vector<int64_t> offsets;
  for (int64_t place = 0; place < count; ++place) {
    int64_t rest = place;
    std::vector<int64_t> position(depth);
    for (size_t i = depth; i-- > 0;) {
      position[i] = rest % grid[i];
      rest /= grid[i];
    }
    offsets.insert(offsets.end(), position.begin(), position.end());
  }
  grid.push_back(static_cast<int64_t>(depth));
  Value* start = context.Int64(2);
  const std::vector<int64_t> most(room.begin(), room.begin() + static_cast<std::ptrdiff_t>(depth));
  start = context.Add("Slice", {start, context.Ints({0}), context.Ints({grid.back()})});
  start = context.Add("Max", {start, context.Ints({0})});
  start = context.Add("Min", {start, context.Ints(most)});
  Value* places =
      context.Add("Add", {context.graph().AddConstant(Tensor::FromVector(offsets, grid)), start});
  context.Define(context.Add("ScatterND", {context.Reals(0), places, context.Reals(1)}));
}

namespace {

/// Where the last two dimensions [rows, columns] have their diagonal.
Value* Diagonal(Context& context, const SymbolicShape& shape) {
  const size_t rank = shape.size();
  if (rank < 2 || !shape[rank - 2].known() || !shape[rank - 1].known()) {
    context.Refuse(RQ_LATE_TEXT("makes matrices of open size"),
                   RQ_LATE_TEXT("convert the model with fixed shapes"));
  }
  const int64_t rows = shape[rank - 2].value;
  const int64_t columns = shape[rank - 1].value;
  if (CheckedMul64(rows, columns) > kMostIndices) {
    context.Refuse(RQ_LATE_TEXT("makes too large matrices"), RQ_LATE_TEXT("make smaller ones"));
  }
  Tensor mask(DType::kBool, {rows, columns});
  for (int64_t i = 0; i < std::min(rows, columns); ++i) mask.data<bool>()[i * columns + i] = true;
  return context.graph().AddConstant(mask);
}

}  // namespace

void ConvertMatrixDiag(Context& context, const char*) {
  Value* mask = Diagonal(context, context.output().shape);
  Value* diagonal = context.Add("Unsqueeze", {context.Codes(0), context.Ints({-1})});
  Value* zero = context.graph().AddConstant(Tensor(context.output().dtype, {}));
  context.Define(context.Add("Where", {mask, diagonal, zero}));
}

void ConvertMatrixSetDiag(Context& context, const char*) {
  const SymbolicShape& shape = context.input(0).shape;
  Value* mask = Diagonal(context, shape);
  const bool tall = shape[shape.size() - 2].value > shape.back().value;
  Value* diagonal = context.Add("Unsqueeze", {context.Codes(1), context.Ints({tall ? -2 : -1})});
  context.Define(context.Add("Where", {mask, diagonal, context.Codes(0)}));
}

/// In the order in which elements are first seen.
void ConvertUnique(Context& context, const char*) {
  const std::vector<Value*> found =
      context.graph().AddMany("Unique", {context.Codes(0)}, 3, With("sorted", int64_t{0}));
  context.Define(found[0]);
  context.DefineInts(found[2], 1);
}

}  // namespace requant::tflite
