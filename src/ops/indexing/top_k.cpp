// TopK: the largest or smallest elements along an axis (onnx docs/Operators.md).
#include <algorithm>
#include <cstring>
#include <type_traits>
#include <vector>

#include "base/error.h"
#include "base/sort.h"
#include "base/str_cat.h"
#include "ops/infer_util.h"
#include "ops/shape/select.h"
#include "ops/table.h"

namespace requant {
namespace {

template <typename Context>
ListArgument ReadK(const Context& context) {
  if (context.attributes().Has("k")) {
    return {ListArgument::State::kKnown, {context.attributes().Int("k", 0)}};
  }
  ListArgument k = ReadList(context, nullptr, 1);
  if (k.absent() || (k.known() && k.values.size() != 1)) {
    Fail(ErrorCode::kInvalidModel, "TopK needs one k");
  }
  return k;
}

int64_t CheckK(int64_t k, int64_t dim) {
  if (k < 0 || k > dim) {
    Fail(ErrorCode::kInvalidArgument, StrCat("TopK of ", k, " out of ", dim, " elements"));
  }
  return k;
}

void InferTopK(InferContext& context) {
  RequireMinRank(context, 0, 1);
  const ListArgument k = ReadK(context);
  std::optional<SymbolicShape> shape;
  if (const SymbolicShape* input = context.shape(0)) {
    shape = *input;
    Dim& dim = (*shape)[static_cast<size_t>(
        NormalizeAxis(context.attributes().Int("axis", -1), static_cast<int64_t>(input->size())))];
    if (k.known()) CheckK(k.values[0], dim.known() ? dim.value : k.values[0]);
    dim = k.known() ? Dim(k.values[0]) : Dim();
  }
  SetOutput(context, 0, context.inputs[0].dtype, shape);
  SetOutput(context, 1, DType::kInt64, shape);
}

/// Keys order values. Zeros of either sign are equal, and so are NaNs, which are above everything
/// else.
using Key = uint64_t;

template <typename T>
inline __attribute__((always_inline)) Key KeyOf(T value) {
  if constexpr (std::is_floating_point_v<T>) {
    using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
    constexpr Bits kSign = Bits{1} << (sizeof(T) * 8 - 1);
    if (value != value) return static_cast<Bits>(~Bits{0});
    const auto bits = __builtin_bit_cast(Bits, value + T{0});
    return (bits & kSign) != 0 ? static_cast<Bits>(~bits) : bits | kSign;
  } else if constexpr (std::is_signed_v<T>) {
    // Keys are below 2^32 for all types but int64.
    return static_cast<Key>(static_cast<int64_t>(value)) + (Key{1} << (sizeof(T) == 8 ? 63 : 31));
  } else {
    return value;
  }
}

/// The keys of elements that are `step` apart, inverted for the largest.
template <typename T>
void KeysOf(const T* from, size_t step, size_t count, bool largest, Key* keys) {
  constexpr Key kAll = sizeof(T) == 8 ? ~Key{0} : ~uint32_t{0};
  for (size_t i = 0; i < count; ++i, from += step) keys[i] = KeyOf(*from) ^ (largest ? kAll : 0);
}

/// Puts a key into the hole at `at` of a heap, or further down; the heap's largest is on top.
void Sink(Key* heap, size_t count, size_t at, Key key) {
  for (size_t child = 2 * at + 1; child < count; child = 2 * at + 1) {
    if (child + 1 < count && heap[child + 1] > heap[child]) ++child;
    if (heap[child] <= key) break;
    heap[at] = heap[child];
    at = child;
  }
  heap[at] = key;
}

/// Moves the least `k` keys to the front, in order. A heap of the least so far rejects most other
/// keys at once (Knuth, "The Art of Computer Programming", vol. 3, 5.2.3).
void LeastFirst(Key* keys, size_t count, size_t k) {
  if (k == 0) return;
  for (size_t i = k / 2; i-- > 0;) Sink(keys, k, i, keys[i]);
  for (size_t i = k; i < count; ++i) {
    if (keys[i] < keys[0]) Sink(keys, k, 0, keys[i]);
  }
  for (size_t end = k; --end > 0;) {
    const Key last = keys[end];
    keys[end] = keys[0];
    Sink(keys, end, 0, last);
  }
}

/// The indices of the least `k` keys; of equal ones the lower index comes first.
void Pick(std::vector<Key>& keys, size_t k, bool whole, std::vector<size_t>& order) {
  if (whole) {
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    StableSort(order, [&](size_t a, size_t b) { return keys[a] < keys[b]; });
    return;
  }
  // For keys below 2^32, key and index share one number.
  Key* key = keys.data();
  const size_t count = keys.size();
  for (size_t i = 0; i < count; ++i) key[i] = key[i] << 32 | i;
  LeastFirst(key, count, k);
  for (size_t i = 0; i < k; ++i) order[i] = static_cast<uint32_t>(key[i]);
}

void EvaluateTopK(EvalContext& context) {
  const Tensor& input = context.input(0);
  const int64_t axis = NormalizeAxis(context.attributes().Int("axis", -1), input.rank());
  const int64_t dim = input.dim(axis);
  const int64_t k = CheckK(ReadK(context).values[0], dim);
  const bool largest = context.attributes().Int("largest", 1) != 0;
  const bool sorted = context.attributes().Int("sorted", 1) != 0;
  Shape shape = input.shape();
  shape[static_cast<size_t>(axis)] = k;
  Tensor values = context.Output(0, input.dtype(), shape);
  Tensor picks = context.Output(1, DType::kInt64, shape);
  const int64_t inner = RowMajorStrides(input.shape())[static_cast<size_t>(axis)];
  const int64_t rows = input.count() > 0 ? input.count() / dim : 0;
  const size_t element = ElementBytes(input.dtype());
  std::vector<Key> keys(static_cast<size_t>(dim));
  std::vector<size_t> order(keys.size());
  for (int64_t row = 0; row < rows; ++row) {
    const auto* from = static_cast<const uint8_t*>(input.raw()) +
                       static_cast<size_t>(row / inner * dim * inner + row % inner) * element;
    const bool known = VisitDType(input.dtype(), [&](auto tag) {
      KeysOf(reinterpret_cast<const decltype(tag)*>(from), static_cast<size_t>(inner), keys.size(),
             largest, keys.data());
    });
    if (!known) Fail(ErrorCode::kUnsupported, StrCat("TopK of ", DTypeName(input.dtype())));
    Pick(keys, static_cast<size_t>(k), element == 8, order);
    if (!sorted) std::sort(order.begin(), order.begin() + k);
    const int64_t first = row / inner * k * inner + row % inner;
    for (int64_t i = 0; i < k; ++i) {
      const size_t place = order[static_cast<size_t>(i)];
      const int64_t to = first + i * inner;
      std::memcpy(static_cast<uint8_t*>(values.raw()) + static_cast<size_t>(to) * element,
                  from + place * static_cast<size_t>(inner) * element, element);
      picks.data<int64_t>()[to] = static_cast<int64_t>(place);
    }
  }
  context.outputs[0] = std::move(values);
  if (context.outputs.size() > 1) context.outputs[1] = std::move(picks);
}

constexpr OpDef kRows[] = {
    {"TopK", "", 1, 1, 2, 2, InferTopK, EvaluateTopK, QuantRule::kFloat},
};

}  // namespace

std::span<const OpDef> TopKOps() { return kRows; }

}  // namespace requant
