#include "tflite/convert/weights.h"

#include <algorithm>
#include <limits>

#include "base/late_text.h"
#include "base/str_cat.h"
#include "ops/shape/select.h"

namespace requant::tflite {
namespace {

/// The constant with its dimensions permuted. One that was widened from 16 bits keeps them, and
/// codes of four bits get a byte each if they move.
Tensor Moved(const Tensor& tensor, const std::vector<int64_t>& perm) {
  if (perm.size() != tensor.shape().size() || std::is_sorted(perm.begin(), perm.end())) {
    return tensor;
  }
  return tensor.half() ? Tensor::Widened(Permute(*tensor.half(), perm)) : Bytes(tensor, perm);
}

/// Whether an input that is no constant has codes.
bool HasCodes(Context& context) {
  Converter& graph = context.graph();
  for (size_t slot = 0; slot < context.inputs(); ++slot) {
    if (!context.has(slot) || context.constant(slot) != nullptr) continue;
    if (graph.quantized(context.in(slot))) return true;
  }
  return false;
}

/// The numbers of codes with a scale and a zero point, or one for each index of dimension `axis`.
Tensor Numbers(const Tensor& codes, const Quantization& grid, size_t axis) {
  Tensor out(DType::kFloat32, codes.shape());
  const bool one = grid.scales.size() == 1;
  int64_t inner = 1;
  for (size_t d = axis + 1; d < codes.shape().size(); ++d) inner *= codes.shape()[d];
  for (int64_t i = 0; i < codes.count(); ++i) {
    const size_t at = one ? 0 : static_cast<size_t>(i / inner) % grid.scales.size();
    const int64_t zero = grid.zero_points.empty() ? 0 : grid.zero_points[at];
    out.data<float>()[i] = static_cast<float>(codes.AsInt64(i) - zero) * grid.scales[at];
  }
  return out;
}

}  // namespace

Tensor Bytes(const Tensor& codes, const std::vector<int64_t>& perm) {
  if (codes.dtype() != DType::kInt4) return Permute(codes, perm);
  Tensor bytes(DType::kInt8, codes.shape());
  for (int64_t i = 0; i < codes.count(); ++i) {
    bytes.data<int8_t>()[i] = static_cast<int8_t>(codes.AsInt64(i));
  }
  return Permute(bytes, perm);
}

Value* Weights(Context& context, size_t slot, const std::vector<int64_t>& perm) {
  Converter& graph = context.graph();
  const int32_t index = context.in(slot);
  const FileTensor& file = graph.tensor(index);
  Value* codes = nullptr;
  if (const Tensor* known = graph.Constant(index)) {
    codes = graph.graph().AddConstant(file.name, Moved(*known, perm));
  } else {
    codes = graph.Transposed(graph.Codes(index, Order::kPlain), perm);
  }
  if (!graph.quantized(index)) return codes;
  const auto axis = std::find(perm.begin(), perm.end(), file.quantization.axis) - perm.begin();
  if (graph.float_layers() && codes->is_constant() && !HasCodes(context)) {
    const auto place = static_cast<size_t>(axis);
    return graph.AddConstant(Numbers(codes->constant, file.quantization, place));
  }
  const DType dtype = codes->is_constant() ? codes->constant.dtype() : file.dtype;
  return graph.Dequantize(codes, file.quantization, dtype, axis);
}

Value* Bias(Context& context, size_t slot, size_t input, size_t weights) {
  Converter& graph = context.graph();
  const int32_t index = context.in(slot);
  const FileTensor& file = graph.tensor(index);
  const Tensor* known = graph.Constant(index);
  if (!IsInteger(file.dtype)) return context.Reals(slot);
  const Quantization& x = context.input(input).quantization;
  const Quantization& w = context.input(weights).quantization;
  Quantization product = file.quantization;
  if (product.scales.empty() && x.scales.size() == 1) {
    for (const float scale : w.scales) product.scales.push_back(x.scales[0] * scale);
    product.zero_points.resize(product.scales.size(), 0);
  }
  if (product.scales.empty() || known == nullptr ||
      (product.scales.size() != 1 &&
       static_cast<int64_t>(product.scales.size()) != known->count())) {
    context.Invalid(RQ_LATE_TEXT("has a bias of integers whose scales are unknown"));
  }
  if (known->dtype() == DType::kInt32) {
    return graph.Dequantize(context.Codes(slot), product, DType::kInt32, 0);
  }
  // Biases of layers of 16-bit inputs have 64 bits, which no sum of such a layer needs.
  std::vector<int32_t> narrow;
  std::vector<float> reals;
  bool fits = true;
  for (int64_t i = 0; i < known->count(); ++i) {
    const int64_t code = known->AsInt64(i);
    fits = fits && code >= std::numeric_limits<int32_t>::min() &&
           code <= std::numeric_limits<int32_t>::max();
    narrow.push_back(static_cast<int32_t>(code));
    const float scale = product.scales[product.scales.size() == 1 ? 0 : static_cast<size_t>(i)];
    reals.push_back(static_cast<float>(static_cast<double>(code) * scale));
  }
  if (!fits) return graph.AddConstant(Tensor::Vector(reals));
  return graph.Dequantize(graph.AddConstant(Tensor::Vector(narrow)), product, DType::kInt32, 0);
}

}  // namespace requant::tflite
