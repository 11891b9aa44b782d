#include "tflite/write/ops/weights.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/late_text.h"
#include "base/str_cat.h"

namespace requant::tflite {
namespace {

/// Numbers [count] of a bias that may be one number, or have leading dimensions of 1.
Tensor Spread(Writer& w, const Tensor& bias, int64_t count) {
  if (bias.count() == count) return bias.Reshaped({count});
  if (bias.count() != 1) {
    w.Refuse(StrCat("its bias has ", bias.count(), " numbers for ", count, " outputs"),
             RQ_LATE_TEXT("give one for each output"));
  }
  return Tensor::Vector(std::vector<float>(static_cast<size_t>(count), bias.ToFloats()[0]));
}

}  // namespace

std::optional<ConstantCodes> LayerCodes(const Writer& w, const Value* weights, int64_t axis) {
  auto codes = w.CodesOf(weights);
  if (!codes || !IsByte(codes->codes.dtype())) return std::nullopt;
  const bool one = codes->scales.size() == 1;
  if (!one && codes->axis != axis) return std::nullopt;
  if (w.code_type() == TensorType::kUint8) return one ? codes : std::nullopt;
  const bool centered =
      std::all_of(codes->zeros.begin(), codes->zeros.end(), [](int64_t zero) { return zero == 0; });
  return centered ? codes : std::nullopt;
}

int32_t AddCodeWeights(Writer& w, const std::string& name, ConstantCodes weights,
                       const Tensor& arranged, int32_t axis) {
  Tensor codes = arranged;
  if (w.code_type() == TensorType::kInt8) {
    const auto values = arranged.values<int8_t>();
    const auto lowest = std::count(values.begin(), values.end(), int8_t{-128});
    if (lowest > 0) {
      codes = arranged.Clone();
      auto* changed = codes.data<int8_t>();
      for (int64_t i = 0; i < codes.count(); ++i) {
        changed[i] = std::max<int8_t>(changed[i], -127);
      }
      w.Note(StrCat(static_cast<int64_t>(lowest), " weights of '", name,
                    RQ_LATE_TEXT("' are -127 instead of -128, which LiteRT does not allow")));
    }
  }
  Grid grid{w.code_type(), std::move(weights.scales), std::move(weights.zeros), axis};
  if (grid.scales.size() == 1) grid.axis = 0;
  return w.AddConstant(name, codes, std::move(grid));
}

int32_t AddFloatWeights(Writer& w, const Value* weights, const std::optional<ConstantCodes>& codes,
                        const Tensor& arranged, int32_t axis) {
  if (!codes) return w.AddFloats(weights->name, arranged);
  Grid grid{w.code_type(), codes->scales, codes->zeros, axis};
  if (grid.scales.size() == 1) grid.axis = 0;
  return w.Dequantized(w.AddConstant(StrCat(weights->name, "_codes"), arranged, grid),
                       weights->name);
}

int32_t AddCodeBias(Writer& w, const Value* bias, int64_t count, float input_scale,
                    const std::vector<float>& scales) {
  Grid grid{TensorType::kInt32, {}, {}, 0};
  for (const float scale : scales) grid.scales.push_back(input_scale * scale);
  grid.zeros.assign(grid.scales.size(), 0);
  Tensor codes(DType::kInt32, {count});
  const std::string name = bias ? bias->name : StrCat(w.node().name, "_bias");
  if (bias == nullptr) return w.AddConstant(name, codes, grid);
  const auto stored = w.CodesOf(bias);
  bool fits = stored && stored->codes.dtype() == DType::kInt32 && stored->codes.count() == count &&
              (stored->scales.size() == 1 || stored->scales.size() == scales.size());
  for (size_t i = 0; fits && i < grid.scales.size(); ++i) {
    const float own = stored->scales[stored->scales.size() == 1 ? 0 : i];
    fits = std::abs(own - grid.scales[i]) <= 1e-6F * grid.scales[i];
  }
  if (fits) return w.AddConstant(name, stored->codes.Reshaped({count}), grid);
  const Tensor numbers = Spread(w, w.ConstantOf(bias, "biases"), count);
  for (int64_t i = 0; i < count; ++i) {
    const double scale = grid.scales[grid.scales.size() == 1 ? 0 : static_cast<size_t>(i)];
    const double code = std::nearbyint(numbers.AsDouble(i) / scale);
    if (!(std::abs(code) <= std::numeric_limits<int32_t>::max())) {
      w.Refuse(
          StrCat("bias ", numbers.AsDouble(i), RQ_LATE_TEXT(" is no int32 at the scale "), scale),
          RQ_LATE_TEXT("give the weights of that channel a larger scale"), bias);
    }
    codes.data<int32_t>()[i] = static_cast<int32_t>(code);
  }
  return w.AddConstant(name, codes, grid);
}

int32_t AddFloatBias(Writer& w, const Value* bias, int64_t count) {
  if (bias == nullptr) {
    return w.AddConstant(StrCat(w.node().name, "_bias"), Tensor(DType::kFloat32, {count}));
  }
  return w.AddConstant(bias->name, Spread(w, w.ConstantOf(bias, "biases"), count));
}

}  // namespace requant::tflite
