#include "quant/weights/pack_weights.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "base/error.h"
#include "base/str_cat.h"

namespace requant {
namespace {

/// Smaller constants do not justify five operators.
constexpr int64_t kLeastElements = 512;

/// The bits that distinguish values: -0 differs from 0, and a NaN equals itself.
template <typename T>
auto Pattern(T value) {
  using Bits = std::conditional_t<sizeof(T) == 1, uint8_t, uint32_t>;
  return __builtin_bit_cast(Bits, value);
}

template <typename T>
struct TwoValues {
  T low, high;
};

/// The two values of a tensor, distinguished by their bits; nothing if it has more or fewer.
template <typename T>
std::optional<TwoValues<T>> ValuesOf(const Tensor& tensor) {
  const auto* data = tensor.data<T>();
  const auto same = [](T a, T b) { return Pattern(a) == Pattern(b); };
  const T first = data[0];
  const auto* end = data + tensor.count();
  const auto* other = std::find_if(data, end, [&](const T& x) { return !same(x, first); });
  if (other == end) return std::nullopt;
  const T second = *other;
  if (!std::all_of(other, end, [&](const T& x) { return same(x, first) || same(x, second); })) {
    return std::nullopt;
  }
  return first < second ? TwoValues<T>{first, second} : TwoValues<T>{second, first};
}

/// One bit per element, 1 for the higher value; the first element takes the lowest bit. Shape
/// [bytes, 1].
template <typename T>
Tensor BitsOf(const Tensor& tensor, T high) {
  const int64_t bytes = (tensor.count() + 7) / 8;
  Tensor out(DType::kUint8, {bytes, 1});
  std::memset(out.raw(), 0, out.bytes());
  const auto* data = tensor.data<T>();
  for (int64_t i = 0; i < tensor.count(); ++i) {
    const bool bit = Pattern(data[i]) == Pattern(high);
    out.data<uint8_t>()[i / 8] |= static_cast<uint8_t>((bit ? 1 : 0) << (i % 8));
  }
  return out;
}

/// Constants that all packed constants of a graph share.
struct Shared {
  Value* shifts;  // 0 .. 7
  Value* two;
};

class Unpacker {
 public:
  Unpacker(Graph& graph, const Shared& shared, Value* constant)
      : graph_(graph), shared_(shared), constant_(constant) {}

  template <typename T>
  bool Run() {
    const Tensor tensor = constant_->constant;
    const auto values = ValuesOf<T>(tensor);
    if (!values) return false;
    const int64_t count = tensor.count(), bytes = (count + 7) / 8;
    AttributeMap right;
    right.Set("direction", std::string("RIGHT"));
    Value* x = Add("BitShift", {Constant("bits", BitsOf<T>(tensor, values->high)), shared_.shifts},
                   {DType::kUint8, ToSymbolic({bytes, 8})}, std::move(right));
    x = Add("Mod", {x, shared_.two}, x->type);
    AttributeMap to;
    to.Set("to", int64_t{6});  // TensorProto.INT32
    x = Add("Cast", {x}, {DType::kInt32, x->type.shape}, std::move(to));
    // Gather instead of Where, which onnxruntime has for few types.
    Value* table = Constant("table", Tensor::Vector<T>({values->low, values->high}));
    x = Add("Gather", {table, x}, {tensor.dtype(), x->type.shape});
    if (bytes * 8 != count) {
      x = Reshaped(x, {bytes * 8}, "flat");
      x = Add("Slice",
              {x, Constant("begin", Tensor::Vector<int64_t>({0})),
               Constant("end", Tensor::Vector<int64_t>({count}))},
              {tensor.dtype(), ToSymbolic({count})});
    }
    x = Reshaped(x, tensor.shape(), "shape");
    graph_.ReplaceAllUses(constant_, x);
    return true;
  }

 private:
  Value* Constant(const char* what, Tensor tensor) {
    return graph_.AddConstant(constant_->name + "_" + what, std::move(tensor));
  }
  Value* Add(const char* op, const std::vector<Value*>& inputs, const ValueType& type,
             AttributeMap attributes = {}) {
    const std::string name = constant_->name + "_" + op + std::to_string(made_++);
    return graph_.AddOp(op, "", inputs, name, type, std::move(attributes), name);
  }
  Value* Reshaped(Value* x, const Shape& shape, const char* what) {
    return Add("Reshape", {x, Constant(what, Tensor::Vector<int64_t>(shape))},
               {x->type.dtype, ToSymbolic(shape)});
  }

  Graph& graph_;
  const Shared& shared_;
  Value* constant_;
  int made_ = 0;
};

bool Unpack(Graph& graph, const Shared& shared, Value* value) {
  Unpacker unpacker(graph, shared, value);
  switch (value->constant.dtype()) {
    case DType::kInt8:
      return unpacker.Run<int8_t>();
    case DType::kUint8:
      return unpacker.Run<uint8_t>();
    case DType::kFloat32:
      return unpacker.Run<float>();
    default:
      return false;
  }
}

}  // namespace

Graph PackTwoValues(const Graph& source) {
  Graph graph = source.Clone();
  if (graph.opset() < 13) {
    Fail(ErrorCode::kUnsupported, StrCat("a bit for a weight takes opset 13, not ", graph.opset()),
         {.hint = "quantize the model first: what that gives has opset 13"});
  }
  std::vector<Value*> large;
  for (const auto& value : graph.values()) {
    if (value->is_constant() && value->constant.count() >= kLeastElements) {
      large.push_back(value.get());
    }
  }
  const std::vector<uint8_t> shifts = {0, 1, 2, 3, 4, 5, 6, 7};
  const Shared shared{graph.AddConstant("bit_shifts", Tensor::Vector(shifts)),
                      graph.AddConstant("bit_two", Tensor::Scalar(uint8_t{2}))};
  for (Value* value : large) Unpack(graph, shared, value);
  graph.RemoveUnusedValues();
  graph.SortTopologically();
  return graph;
}

}  // namespace requant
