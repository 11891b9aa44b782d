// Helpers of inference functions: checks with precise errors, broadcasting of symbolic shapes, and
// the window arithmetic of convolutions and pools. An unknown value passes every check and stays
// unknown; only what can never run is an error.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string_view>
#include <vector>

#include "ops/op.h"

namespace requant {

// --- types

/// Throws kInvalidModel when the node lacks the input.
void RequireInput(const InferContext& context, size_t slot);
/// The length of a list of dimensions or axes (a 1-D input), if it is known. Throws kUnsupported
/// for more than 1024: no tensor has so many dimensions.
std::optional<size_t> LengthOfInput(const InferContext& context, size_t slot);
/// Whether arithmetic works on the dtype: all that VisitDType visits, except bool.
bool IsNumeric(DType dtype);
/// Throws kTypeMismatch unless the input's dtype is one of `allowed`. A missing input or an unknown
/// dtype passes. float16 and bfloat16 outside of `allowed` throw kUnsupported.
void RequireDType(const InferContext& context, size_t slot, std::initializer_list<DType> allowed);
/// Requires a dtype that IsNumeric, as RequireDType does.
void RequireNumeric(const InferContext& context, size_t slot);
/// Requires float32 or float64, as RequireDType does.
void RequireFloat(const InferContext& context, size_t slot);
/// Throws kTypeMismatch when both dtypes are known and differ.
void RequireSameDType(const InferContext& context, size_t slot_a, size_t slot_b);
/// Throws kShapeMismatch when the input's rank is known and not `rank` / less than `rank`.
void RequireRank(const InferContext& context, size_t slot, int64_t rank);
void RequireMinRank(const InferContext& context, size_t slot, int64_t rank);

ValueType TypeOf(const Tensor& tensor);
/// Sets output `slot` if the node has it.
void SetOutput(InferContext& context, size_t slot, DType dtype, std::optional<SymbolicShape> shape);

// --- axes and lists

/// `axis` in [0, rank). Throws kInvalidModel for one outside of [-rank, rank).
int64_t NormalizeAxis(int64_t axis, int64_t rank, std::string_view what = "axis");
/// All axes normalized and sorted. Throws for duplicates, too.
std::vector<int64_t> NormalizeAxes(const std::vector<int64_t>& axes, int64_t rank,
                                   std::string_view what = "axes");

/// A list of integers that older opsets give as an attribute and newer ones as an input.
struct ListArgument {
  enum class State : uint8_t { kAbsent, kUnknown, kKnown };
  State state = State::kAbsent;
  std::vector<int64_t> values;
  bool absent() const { return state == State::kAbsent; }
  bool known() const { return state == State::kKnown; }
};
/// Reads the attribute if there is one, else input `slot` (kUnknown when it is not constant).
/// `attribute` may be nullptr.
ListArgument ReadList(const InferContext& context, const char* attribute, size_t slot);
ListArgument ReadList(const EvalContext& context, const char* attribute, size_t slot);

// --- dimensions

/// The better known of two descriptions of one dimension. Throws kShapeMismatch when both are known
/// and differ; `what` names the dimension in the message.
Dim MergeDims(const Dim& a, const Dim& b, std::string_view what);
/// a * b; unknown unless both are known or one of them is 1.
Dim MultiplyDims(const Dim& a, const Dim& b);
/// The product of shape[begin, end).
Dim ProductOfDims(const SymbolicShape& shape, size_t begin, size_t end);
/// The result of ONNX's (numpy's) multidirectional broadcasting. Throws kShapeMismatch.
Dim BroadcastDim(const Dim& a, const Dim& b);
SymbolicShape BroadcastSymbolic(const SymbolicShape& a, const SymbolicShape& b);

// --- whole inference functions

/// Gives output 0 the dtype and shape of input 0.
void SameAsInput(InferContext& context);
/// Gives output 0 the broadcast shape of all inputs and the dtype of input 0.
void ElementwiseBroadcast(InferContext& context);
/// The broadcast shape of all inputs; nullopt when a rank is unknown.
std::optional<SymbolicShape> BroadcastOfInputs(const InferContext& context);

// --- windows of Conv and pools

enum class AutoPad : uint8_t { kNotSet, kSameUpper, kSameLower, kValid };

/// The checked window attributes, one entry per spatial dimension.
struct Window {
  std::vector<int64_t> kernel, strides, dilations;
  std::vector<int64_t> pad_begin, pad_end;  // explicit pads; zeros unless auto_pad is kNotSet
  AutoPad auto_pad = AutoPad::kNotSet;
  bool ceil_mode = false;

  size_t rank() const { return kernel.size(); }
  /// The reach of a dilated kernel: (kernel - 1) * dilation + 1.
  int64_t Extent(size_t axis) const;
};

/// Reads strides, dilations, pads, auto_pad and ceil_mode for a kernel of that size. Throws
/// kInvalidModel for lists of the wrong length, kernels, strides or dilations below 1, negative
/// pads, and sizes whose product overflows.
Window ReadWindow(const AttributeMap& attributes, std::vector<int64_t> kernel);
AutoPad ReadAutoPad(const AttributeMap& attributes);

/// The windows along one dimension of `input` elements.
struct WindowAxis {
  int64_t output;              // number of windows
  int64_t pad_begin, pad_end;  // after auto_pad
};
/// Throws kShapeMismatch when not even one window fits.
WindowAxis PlaceWindow(const Window& window, size_t axis, int64_t input);
/// The number of windows along a dimension that may be unknown. A window that keeps every size
/// keeps the symbol.
Dim WindowOutput(const Window& window, size_t axis, const Dim& input);

}  // namespace requant
