// ai.requant::UnpackBits turns B, scales, zero points and g_idx of MatMulNBits into the [k, n]
// matrix of floats, UnpackBnb4 those of MatMulBnb4.
#include "ops/matrix/matmul_nbits.h"

#include <bit>

#include "base/error.h"
#include "base/late_text.h"
#include "base/str_cat.h"
#include "ops/infer_util.h"
#include "ops/table.h"

namespace requant {
namespace {

// limit of K, N and a block: their products fit 64 bits
constexpr int64_t kMost = int64_t{1} << 30;

}  // namespace

BlockCodes::BlockCodes(const PackedForm& packed, const Tensor& bytes, const Tensor& scale_tensor,
                       const Tensor* zero_points)
    : form(packed),
      codes(bytes),
      scales(scale_tensor.ToFloats()),
      zeros(zero_points && zero_points->dtype() == DType::kUint8 ? zero_points : nullptr) {
  const int64_t blocks = form.blocks();
  const int64_t each = (form.block * form.bits + 7) / 8;
  const int64_t zero_bytes = (blocks * form.bits + 7) / 8;
  if (codes.dtype() != DType::kUint8 || codes.count() != form.n * blocks * each ||
      static_cast<int64_t>(scales.size()) != form.n * blocks ||
      (zero_points && zero_points->count() != form.n * (zeros ? zero_bytes : blocks))) {
    Fail(ErrorCode::kShapeMismatch,
         RQ_LATE_TEXT("the weights of MatMulNBits do not fit K, N and block_size"));
  }
}

std::vector<int64_t> GroupsOf(const Tensor& indices, const PackedForm& form) {
  std::vector<int64_t> groups = indices.ToInts();
  if (static_cast<int64_t>(groups.size()) < form.k) {
    Fail(ErrorCode::kShapeMismatch, StrCat(RQ_LATE_TEXT("g_idx of MatMulNBits has "), groups.size(),
                                           RQ_LATE_TEXT(" entries for "), form.k, " rows"));
  }
  for (const int64_t group : groups) {
    if (group >= 0 && group < form.blocks()) continue;
    Fail(ErrorCode::kInvalidModel,
         StrCat(RQ_LATE_TEXT("g_idx of MatMulNBits names block "), group, " of ", form.blocks()));
  }
  return groups;
}

PackedForm PackedFormOf(const AttributeMap& attributes) {
  const PackedForm form{attributes.Int("K", 0), attributes.Int("N", 0), attributes.Int("bits", 4),
                        attributes.Int("block_size", 32)};
  if (form.k < 1 || form.n < 1 || form.block < 1 || form.k > kMost || form.n > kMost ||
      form.block > kMost || form.bits < 2 || form.bits > 8) {
    Fail(ErrorCode::kUnsupported, StrCat(RQ_LATE_TEXT("MatMulNBits of "), form.k, " by ", form.n,
                                         RQ_LATE_TEXT(" weights of "), form.bits,
                                         RQ_LATE_TEXT(" bits in blocks of "), form.block));
  }
  return form;
}

bool TakesInt8Activations(const AttributeMap& attributes) {
  constexpr int64_t kInt8Level = 4;
  return attributes.Int("accuracy_level", 0) == kInt8Level;
}

bool IsPackedProduct(const Node& node) {
  const PackedForm form = PackedFormOf(node.attributes);
  const Tensor* codes = node.constant(1);
  const Tensor* scales = node.constant(2);
  const Tensor* zeros = node.constant(3);
  const bool has_kernel =
      form.bits == 4 || (form.bits == 8 && !TakesInt8Activations(node.attributes));
  if (!has_kernel || form.block < 16 || !std::has_single_bit(static_cast<uint64_t>(form.block)) ||
      node.input(4) || !codes || !scales || scales->dtype() != DType::kFloat32 ||
      (node.input(3) && !zeros) || (zeros && zeros->dtype() != DType::kUint8)) {
    return false;
  }
  const int64_t blocks = form.blocks();
  if (codes->dtype() != DType::kUint8 ||
      codes->count() != form.n * blocks * (form.block * form.bits / 8) ||
      scales->count() != form.n * blocks ||
      (zeros && zeros->count() != form.n * ((blocks * form.bits + 7) / 8))) {
    Fail(ErrorCode::kShapeMismatch,
         RQ_LATE_TEXT("the weights of MatMulNBits do not fit K, N and block_size"),
         {.node = node.name});
  }
  return true;
}

namespace {

void InferUnpackBits(InferContext& context) {
  RequireDType(context, 0, {DType::kUint8});
  RequireFloat(context, 1);
  const PackedForm form = PackedFormOf(context.attributes());
  SetOutput(context, 0, DType::kFloat32, SymbolicShape{form.k, form.n});
}

void EvaluateUnpackBits(EvalContext& context) {
  const PackedForm form = PackedFormOf(context.attributes());
  const Tensor* zeros = context.has(2) ? &context.input(2) : nullptr;
  const BlockCodes weights(form, context.input(0), context.input(1), zeros);
  std::vector<int64_t> groups;
  if (context.has(3)) groups = GroupsOf(context.input(3), form);
  const int64_t blocks = form.blocks();
  Tensor out(DType::kFloat32, {form.k, form.n});
  for (int64_t n = 0; n < form.n; ++n) {
    for (int64_t k = 0; k < form.k; ++k) {
      const int64_t block = groups.empty() ? k / form.block : groups[static_cast<size_t>(k)];
      const bool floats = zeros != weights.zeros;
      const float zero = floats ? static_cast<float>(zeros->AsDouble(n * blocks + block))
                                : static_cast<float>(weights.Zero(n, block));
      out.data<float>()[k * form.n + n] = (static_cast<float>(weights.Code(n, k)) - zero) *
                                          weights.scales[static_cast<size_t>(n * blocks + block)];
    }
  }
  context.outputs[0] = std::move(out);
}

// --- UnpackBnb4

/// Codes of 4 bits, two to a byte, the first in the high half: the weights [n, k] row by row.
struct Bnb4Form {
  int64_t k, n, block;
  bool normal;     // NF4, not FP4
  bool transpose;  // to [k, n]
};

Bnb4Form Bnb4FormOf(const AttributeMap& attributes) {
  const Bnb4Form form{attributes.Int("K", 0), attributes.Int("N", 0),
                      attributes.Int("block_size", 0), attributes.Int("quant_type", 1) != 0,
                      attributes.Int("transB", 1) != 0};
  if (form.k < 1 || form.n < 1 || form.block < 1 || form.k > kMost || form.n > kMost) {
    Fail(ErrorCode::kUnsupported, StrCat(RQ_LATE_TEXT("MatMulBnb4 of "), form.k, " by ", form.n,
                                         RQ_LATE_TEXT(" weights in blocks of "), form.block));
  }
  return form;
}

void InferUnpackBnb4(InferContext& context) {
  RequireDType(context, 0, {DType::kUint8});
  RequireFloat(context, 1);
  const Bnb4Form form = Bnb4FormOf(context.attributes());
  SetOutput(context, 0, DType::kFloat32,
            form.transpose ? SymbolicShape{form.k, form.n} : SymbolicShape{form.n, form.k});
}

/// The real number of a code (Dettmers et al., QLoRA, 2023, appendix E; onnxruntime
/// blockwise_quant_block_bnb4.h).
float Bnb4Value(int code, bool normal) {
  constexpr float kNormal[] = {-1.0F,
                               -0.6961928009986877F,
                               -0.5250730514526367F,
                               -0.39491748809814453F,
                               -0.28444138169288635F,
                               -0.18477343022823334F,
                               -0.09105003625154495F,
                               0.0F,
                               0.07958029955625534F,
                               0.16093020141124725F,
                               0.24611230194568634F,
                               0.33791524171829224F,
                               0.44070982933044434F,
                               0.5626170039176941F,
                               0.7229568362236023F,
                               1.0F};
  constexpr float kFloat[] = {0.0F, 5.208333333e-03F, 0.66666667F, 1.0F, 0.33333333F,
                              0.5F, 0.16666667F,      0.25F};
  if (normal) return kNormal[code];
  return code < 8 ? kFloat[code] : -kFloat[code - 8];
}

void EvaluateUnpackBnb4(EvalContext& context) {
  const Bnb4Form form = Bnb4FormOf(context.attributes());
  const Tensor& packed = context.input(0);
  const Tensor& largest = context.input(1);
  const int64_t count = form.n * form.k;
  if (packed.count() != (count + 1) / 2 || largest.count() != (count - 1) / form.block + 1) {
    Fail(ErrorCode::kShapeMismatch,
         RQ_LATE_TEXT("the weights of MatMulBnb4 do not fit K, N and block_size"));
  }
  Tensor out(DType::kFloat32, form.transpose ? Shape{form.k, form.n} : Shape{form.n, form.k});
  for (int64_t i = 0; i < count; ++i) {
    const uint8_t byte = packed.data<uint8_t>()[i / 2];
    const float value = Bnb4Value(i % 2 == 0 ? byte >> 4 : byte & 15, form.normal);
    const int64_t at = form.transpose ? i % form.k * form.n + i / form.k : i;
    out.data<float>()[at] = value * static_cast<float>(largest.AsDouble(i / form.block));
  }
  context.outputs[0] = std::move(out);
}

constexpr OpDef kRows[] = {
    {"UnpackBits", kRequantDomain, 1, 2, 4, 1, InferUnpackBits, EvaluateUnpackBits,
     QuantRule::kFloat},
    {"UnpackBnb4", kRequantDomain, 1, 2, 2, 1, InferUnpackBnb4, EvaluateUnpackBnb4,
     QuantRule::kFloat},
};

}  // namespace

std::span<const OpDef> MatMulNBitsOps() { return kRows; }

}  // namespace requant
