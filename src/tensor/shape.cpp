#include "tensor/shape.h"

#include <algorithm>
#include <cstdint>

#include "base/checked_math.h"
#include "base/str_cat.h"

namespace requant {

int64_t NumElements(const Shape& shape) {
  constexpr int64_t kLimit = int64_t{1} << 62;
  // Callers convert the number, and single dimensions, to size_t, which has 32 bits in wasm.
  constexpr auto kMachine = static_cast<int64_t>(std::min<uint64_t>(SIZE_MAX, kLimit));
  bool empty = false;
  for (const int64_t dim : shape) {
    if (dim < 0) {
      Fail(ErrorCode::kInvalidModel, StrCat("negative dimension in ", ShapeToString(shape)));
    }
    empty = empty || dim == 0;
  }
  int64_t count = 1;
  for (const int64_t dim : shape) {
    if (!empty) count = CheckedMul64(count, dim);
    if (count > kLimit || dim > kLimit) {
      Fail(ErrorCode::kInvalidModel, StrCat("too many elements in ", ShapeToString(shape)));
    }
    if (count > kMachine || dim > kMachine) {
      Fail(ErrorCode::kOutOfMemory,
           StrCat("no machine of ", sizeof(size_t) * 8, " bits holds ", ShapeToString(shape)),
           {.hint = "make the tensors smaller"});
    }
  }
  return empty ? 0 : count;
}

std::string ShapeToString(const Shape& shape) {
  std::string out = "[";
  for (size_t i = 0; i < shape.size(); ++i) out += StrCat(i ? ", " : "", shape[i]);
  return out + "]";
}

Shape BroadcastShapes(const Shape& a, const Shape& b) {
  Shape out(std::max(a.size(), b.size()));
  for (size_t i = 0; i < out.size(); ++i) {
    const int64_t da = i < a.size() ? a[a.size() - 1 - i] : 1;
    const int64_t db = i < b.size() ? b[b.size() - 1 - i] : 1;
    if (da != db && da != 1 && db != 1) {
      Fail(ErrorCode::kShapeMismatch, StrCat("shapes ", ShapeToString(a), " and ", ShapeToString(b),
                                             " cannot be broadcast together"));
    }
    out[out.size() - 1 - i] = da == 1 ? db : da;
  }
  return out;
}

bool ValueType::IsStatic() const {
  return shape && std::all_of(shape->begin(), shape->end(), [](const Dim& d) { return d.known(); });
}

Shape ValueType::StaticShape() const {
  Shape out;
  for (const Dim& dim : *shape) out.push_back(dim.value);
  return out;
}

SymbolicShape ToSymbolic(const Shape& shape) { return {shape.begin(), shape.end()}; }

std::string TypeToString(const ValueType& type) {
  std::string out = DTypeName(type.dtype);
  if (!type.shape) return out + "[...]";
  out += "[";
  for (size_t i = 0; i < type.shape->size(); ++i) {
    const Dim& dim = (*type.shape)[i];
    if (i) out += ", ";
    out += dim.known() ? std::to_string(dim.value) : dim.symbol.empty() ? "?" : dim.symbol;
  }
  return out + "]";
}

}  // namespace requant
