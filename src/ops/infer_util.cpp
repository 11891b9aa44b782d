#include "ops/infer_util.h"

#include <algorithm>

#include "base/checked_math.h"
#include "base/error.h"
#include "base/str_cat.h"

namespace requant {
namespace {

DType InputDType(const InferContext& context, size_t slot) {
  return slot < context.inputs.size() ? context.inputs[slot].dtype : DType::kUndefined;
}

[[noreturn]] void WrongDType(const InferContext& context, size_t slot, DType dtype) {
  const bool half = IsHalf(dtype);
  const Value* value = context.node.input(slot);
  Fail(half ? ErrorCode::kUnsupported : ErrorCode::kTypeMismatch,
       StrCat("input ", slot, " of ", context.node.op_type, " cannot be ", DTypeName(dtype)),
       {.node = context.node.name,
        .value = value ? value->name : "",
        .hint = half ? "run the pass WidenHalves first" : "insert a Cast"});
}

std::vector<int64_t> WindowList(const AttributeMap& attributes, const char* name, size_t count,
                                int64_t fallback, int64_t minimum) {
  std::vector<int64_t> list = attributes.Ints(name);
  if (list.empty()) list.assign(count, fallback);
  if (list.size() != count) {
    Fail(ErrorCode::kInvalidModel,
         StrCat("attribute ", name, " has ", list.size(), " entries where ", count, " are needed"));
  }
  // No honest model exceeds 31 bits here, and products of two such numbers cannot overflow below.
  constexpr int64_t kMaximum = (int64_t{1} << 31) - 1;
  for (const int64_t entry : list) {
    if (entry > kMaximum) {
      Fail(ErrorCode::kInvalidModel, StrCat("attribute ", name, " has the absurd entry ", entry));
    }
    if (entry < minimum) {
      Fail(ErrorCode::kInvalidModel, StrCat("attribute ", name, " is ", ShapeToString(list),
                                            "; the least allowed is ", minimum));
    }
  }
  return list;
}

}  // namespace

bool IsNumeric(DType dtype) {
  return dtype != DType::kBool && VisitDType(dtype, [](auto) {});
}

std::optional<size_t> LengthOfInput(const InferContext& context, size_t slot) {
  constexpr int64_t kMostDims = 1024;
  const SymbolicShape* shape = context.shape(slot);
  if (shape == nullptr || shape->size() != 1 || !(*shape)[0].known()) return std::nullopt;
  const int64_t length = (*shape)[0].value;
  if (length > kMostDims) {
    Fail(ErrorCode::kUnsupported, StrCat(context.node.op_type, " for ", length, " dimensions"),
         {.node = context.node.name, .hint = "tensors have at most 1024 dimensions"});
  }
  return static_cast<size_t>(length);
}

void RequireInput(const InferContext& context, size_t slot) {
  if (context.has(slot)) return;
  Fail(ErrorCode::kInvalidModel,
       StrCat("input ", slot, " of ", context.node.op_type, " is missing"));
}

void RequireDType(const InferContext& context, size_t slot, std::initializer_list<DType> allowed) {
  const DType dtype = InputDType(context, slot);
  if (dtype == DType::kUndefined) return;
  if (std::find(allowed.begin(), allowed.end(), dtype) == allowed.end()) {
    WrongDType(context, slot, dtype);
  }
}

void RequireNumeric(const InferContext& context, size_t slot) {
  const DType dtype = InputDType(context, slot);
  if (dtype != DType::kUndefined && !IsNumeric(dtype)) WrongDType(context, slot, dtype);
}

void RequireFloat(const InferContext& context, size_t slot) {
  RequireDType(context, slot, {DType::kFloat32, DType::kFloat64});
}

void RequireSameDType(const InferContext& context, size_t slot_a, size_t slot_b) {
  const DType a = InputDType(context, slot_a);
  const DType b = InputDType(context, slot_b);
  if (a == DType::kUndefined || b == DType::kUndefined || a == b) return;
  Fail(ErrorCode::kTypeMismatch,
       StrCat("inputs ", slot_a, " and ", slot_b, " of ", context.node.op_type, " are ",
              DTypeName(a), " and ", DTypeName(b), " but must be the same"),
       {.node = context.node.name, .hint = "insert a Cast"});
}

void RequireRank(const InferContext& context, size_t slot, int64_t rank) {
  const SymbolicShape* shape = context.shape(slot);
  if (shape == nullptr || static_cast<int64_t>(shape->size()) == rank) return;
  Fail(ErrorCode::kShapeMismatch,
       StrCat("input ", slot, " of ", context.node.op_type, " must have ", rank,
              " dimensions but is ", TypeToString(context.inputs[slot])),
       {.node = context.node.name});
}

void RequireMinRank(const InferContext& context, size_t slot, int64_t rank) {
  const SymbolicShape* shape = context.shape(slot);
  if (shape == nullptr || static_cast<int64_t>(shape->size()) >= rank) return;
  Fail(ErrorCode::kShapeMismatch,
       StrCat("input ", slot, " of ", context.node.op_type, " must have at least ", rank,
              " dimensions but is ", TypeToString(context.inputs[slot])),
       {.node = context.node.name});
}

ValueType TypeOf(const Tensor& tensor) { return {tensor.dtype(), ToSymbolic(tensor.shape())}; }

void SetOutput(InferContext& context, size_t slot, DType dtype,
               std::optional<SymbolicShape> shape) {
  if (slot < context.outputs.size()) context.outputs[slot] = {dtype, std::move(shape)};
}

int64_t NormalizeAxis(int64_t axis, int64_t rank, std::string_view what) {
  if (axis < -rank || axis >= rank) {
    Fail(ErrorCode::kInvalidModel,
         StrCat(what, " ", axis, " is outside of a tensor with ", rank, " dimensions"));
  }
  return axis < 0 ? axis + rank : axis;
}

std::vector<int64_t> NormalizeAxes(const std::vector<int64_t>& axes, int64_t rank,
                                   std::string_view what) {
  std::vector<int64_t> out;
  out.reserve(axes.size());
  for (const int64_t axis : axes) out.push_back(NormalizeAxis(axis, rank, what));
  std::sort(out.begin(), out.end());
  if (std::adjacent_find(out.begin(), out.end()) != out.end()) {
    Fail(ErrorCode::kInvalidModel, StrCat(what, " ", ShapeToString(axes), " name an axis twice"));
  }
  return out;
}

ListArgument ReadList(const InferContext& context, const char* attribute, size_t slot) {
  using State = ListArgument::State;
  if (attribute != nullptr && context.attributes().Has(attribute)) {
    return {State::kKnown, context.attributes().Ints(attribute)};
  }
  if (!context.has(slot)) return {};
  RequireDType(context, slot, {DType::kInt64, DType::kInt32});
  const Tensor* constant = context.constant(slot);
  if (constant == nullptr) return {State::kUnknown, {}};
  return {State::kKnown, constant->ToInts()};
}

ListArgument ReadList(const EvalContext& context, const char* attribute, size_t slot) {
  using State = ListArgument::State;
  if (attribute != nullptr && context.attributes().Has(attribute)) {
    return {State::kKnown, context.attributes().Ints(attribute)};
  }
  if (!context.has(slot)) return {};
  return {State::kKnown, context.input(slot).ToInts()};
}

Dim MergeDims(const Dim& a, const Dim& b, std::string_view what) {
  if (a.known() && b.known() && a.value != b.value) {
    Fail(ErrorCode::kShapeMismatch, StrCat(what, " do not agree: ", a.value, " and ", b.value));
  }
  if (a.known()) return a;
  if (b.known()) return b;
  return a.symbol.empty() ? b : a;
}

Dim MultiplyDims(const Dim& a, const Dim& b) {
  if (a.known() && b.known()) return CheckedMul64(a.value, b.value);
  if (a.known() && a.value == 1) return b;
  if (b.known() && b.value == 1) return a;
  return {};
}

Dim ProductOfDims(const SymbolicShape& shape, size_t begin, size_t end) {
  Dim product = 1;
  for (size_t i = begin; i < end; ++i) product = MultiplyDims(product, shape[i]);
  return product;
}

Dim BroadcastDim(const Dim& a, const Dim& b) {
  if (a == b || (b.known() && b.value == 1)) return a;
  if (a.known() && a.value == 1) return b;
  if (a.known() && b.known()) {
    Fail(ErrorCode::kShapeMismatch,
         StrCat("dimensions ", a.value, " and ", b.value, " cannot be broadcast together"));
  }
  // One of them is unknown, and so 1 or equal to the other: a known one decides.
  if (a.known()) return a;
  if (b.known()) return b;
  return {};
}

SymbolicShape BroadcastSymbolic(const SymbolicShape& a, const SymbolicShape& b) {
  SymbolicShape out(std::max(a.size(), b.size()));
  for (size_t i = 0; i < out.size(); ++i) {
    const Dim da = i < a.size() ? a[a.size() - 1 - i] : Dim(1);
    const Dim db = i < b.size() ? b[b.size() - 1 - i] : Dim(1);
    out[out.size() - 1 - i] = BroadcastDim(da, db);
  }
  return out;
}

void SameAsInput(InferContext& context) {
  SetOutput(context, 0, context.inputs[0].dtype, context.inputs[0].shape);
}

std::optional<SymbolicShape> BroadcastOfInputs(const InferContext& context) {
  std::optional<SymbolicShape> shape = SymbolicShape{};
  for (size_t slot = 0; slot < context.inputs.size(); ++slot) {
    if (!context.has(slot)) continue;
    if (context.shape(slot) == nullptr) return std::nullopt;
    shape = BroadcastSymbolic(*shape, *context.shape(slot));
  }
  return shape;
}

void ElementwiseBroadcast(InferContext& context) {
  for (size_t slot = 1; slot < context.inputs.size(); ++slot) RequireSameDType(context, 0, slot);
  DType dtype = DType::kUndefined;
  for (const ValueType& input : context.inputs) {
    if (dtype == DType::kUndefined) dtype = input.dtype;
  }
  SetOutput(context, 0, dtype, BroadcastOfInputs(context));
}

int64_t Window::Extent(size_t axis) const {
  return CheckedAdd64(CheckedMul64(kernel[axis] - 1, dilations[axis]), 1);
}

AutoPad ReadAutoPad(const AttributeMap& attributes) {
  const std::string text = attributes.String("auto_pad", "NOTSET");
  if (text == "NOTSET" || text.empty()) return AutoPad::kNotSet;
  if (text == "SAME_UPPER") return AutoPad::kSameUpper;
  if (text == "SAME_LOWER") return AutoPad::kSameLower;
  if (text == "VALID") return AutoPad::kValid;
  Fail(ErrorCode::kInvalidModel, StrCat("auto_pad '", text, "' does not exist"),
       {.hint = "use NOTSET, SAME_UPPER, SAME_LOWER or VALID"});
}

Window ReadWindow(const AttributeMap& attributes, std::vector<int64_t> kernel) {
  Window window;
  const size_t rank = kernel.size();
  for (const int64_t size : kernel) {
    if (size < 1 || size >= int64_t{1} << 31) {
      Fail(ErrorCode::kInvalidModel,
           StrCat("kernel ", ShapeToString(kernel), " has an impossible size"));
    }
  }
  NumElements(kernel);  // throws when the product overflows
  window.kernel = std::move(kernel);
  window.strides = WindowList(attributes, "strides", rank, 1, 1);
  window.dilations = WindowList(attributes, "dilations", rank, 1, 1);
  window.auto_pad = ReadAutoPad(attributes);
  window.ceil_mode = attributes.Int("ceil_mode", 0) != 0;
  std::vector<int64_t> pads(2 * rank, 0);
  if (window.auto_pad == AutoPad::kNotSet) pads = WindowList(attributes, "pads", 2 * rank, 0, 0);
  const auto middle = pads.begin() + static_cast<std::ptrdiff_t>(rank);
  window.pad_begin.assign(pads.begin(), middle);
  window.pad_end.assign(middle, pads.end());
  for (size_t axis = 0; axis < rank; ++axis) window.Extent(axis);  // throws on overflow
  return window;
}

WindowAxis PlaceWindow(const Window& window, size_t axis, int64_t input) {
  const int64_t extent = window.Extent(axis);
  const int64_t stride = window.strides[axis];
  if (window.auto_pad == AutoPad::kSameUpper || window.auto_pad == AutoPad::kSameLower) {
    // ONNX, Conv: output = ceil(input / stride). The total padding is the least that gives it; an
    // odd one goes to the end (UPPER) or to the beginning (LOWER).
    const int64_t output = input / stride + (input % stride != 0);
    if (output == 0) return {0, 0, 0};
    const int64_t reach = CheckedAdd64(CheckedMul64(output - 1, stride), extent);
    const int64_t total = std::max<int64_t>(0, reach - input);
    const int64_t small = total / 2;
    if (window.auto_pad == AutoPad::kSameUpper) return {output, small, total - small};
    return {output, total - small, small};
  }
  const int64_t begin = window.pad_begin[axis];
  const int64_t end = window.pad_end[axis];
  const int64_t padded = CheckedAdd64(CheckedAdd64(input, begin), end);
  if (padded < extent) {
    if (input == 0) return {0, begin, end};
    // ceil((padded - extent) / stride) + 1 is 1 where less than a stride is missing.
    if (window.ceil_mode && extent - padded < stride) return {1, begin, end};
    Fail(ErrorCode::kShapeMismatch,
         StrCat("a window of ", extent, " does not fit into ", input, " + ", begin, " + ", end,
                " elements (spatial dimension ", axis, ")"));
  }
  const int64_t steps = (padded - extent) / stride;
  int64_t output = steps + 1;
  // ONNX, MaxPool and AveragePool: ceil_mode adds a last window that overhangs, unless it would
  // start in the end padding (AveragePool-19's note; ONNX Runtime and PyTorch agree).
  if (window.ceil_mode && (padded - extent) % stride != 0 &&
      CheckedMul64(output, stride) < CheckedAdd64(input, begin)) {
    ++output;
  }
  return {output, begin, end};
}

Dim WindowOutput(const Window& window, size_t axis, const Dim& input) {
  if (input.known()) return PlaceWindow(window, axis, input.value).output;
  if (window.strides[axis] != 1) return {};
  const bool same =
      window.auto_pad == AutoPad::kSameUpper || window.auto_pad == AutoPad::kSameLower;
  const int64_t pads = CheckedAdd64(window.pad_begin[axis], window.pad_end[axis]);
  if (same || pads == window.Extent(axis) - 1) return input;
  return {};
}

}  // namespace requant
