// ai.requant::UnpackBits turns B, scales and zero points of MatMulNBits into the [k, n] matrix of
// floats.
#include "ops/matrix/matmul_nbits.h"

#include <bit>

#include "base/error.h"
#include "base/str_cat.h"
#include "ops/infer_util.h"
#include "ops/table.h"

namespace requant {
namespace {

// limit of K, N and a block: their products fit 64 bits
constexpr int64_t kMost = int64_t{1} << 30;

}  // namespace

PackedForm PackedFormOf(const AttributeMap& attributes) {
  const PackedForm form{attributes.Int("K", 0), attributes.Int("N", 0), attributes.Int("bits", 4),
                        attributes.Int("block_size", 32)};
  if (form.k < 1 || form.n < 1 || form.block < 1 || form.k > kMost || form.n > kMost ||
      form.block > kMost || (form.bits != 2 && form.bits != 4 && form.bits != 8)) {
    Fail(ErrorCode::kUnsupported, StrCat("MatMulNBits of ", form.k, " by ", form.n, " weights of ",
                                         form.bits, " bits in blocks of ", form.block));
  }
  return form;
}

bool IsPackedProduct(const Node& node) {
  const PackedForm form = PackedFormOf(node.attributes);
  const Tensor* codes = node.constant(1);
  const Tensor* scales = node.constant(2);
  const Tensor* zeros = node.constant(3);
  if (form.bits != 4 || form.block < 16 ||
      !std::has_single_bit(static_cast<uint64_t>(form.block)) || node.input(4) || !codes ||
      !scales || scales->dtype() != DType::kFloat32 || (node.input(3) && !zeros) ||
      (zeros && zeros->dtype() != DType::kUint8)) {
    return false;
  }
  const int64_t blocks = form.blocks();
  if (codes->dtype() != DType::kUint8 || codes->count() != form.n * blocks * (form.block / 2) ||
      scales->count() != form.n * blocks ||
      (zeros && zeros->count() != form.n * ((blocks + 1) / 2))) {
    Fail(ErrorCode::kShapeMismatch, "the weights of MatMulNBits do not fit K, N and block_size",
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
  const Tensor& packed = context.input(0);
  const std::vector<float> scales = context.input(1).ToFloats();
  const int64_t blocks = form.blocks();
  const int64_t each = form.block * form.bits / 8;
  const int64_t zero_bytes = (blocks * form.bits + 7) / 8;
  const bool zeros = context.has(2);
  const bool packed_zeros = zeros && context.input(2).dtype() == DType::kUint8;
  if (packed.count() != form.n * blocks * each ||
      static_cast<int64_t>(scales.size()) != form.n * blocks ||
      (zeros && context.input(2).count() != form.n * (packed_zeros ? zero_bytes : blocks))) {
    Fail(ErrorCode::kShapeMismatch, "the weights of MatMulNBits do not fit K, N and block_size");
  }
  const auto field = [&form](const uint8_t* bytes, int64_t i) {
    const int64_t bit = i * form.bits;
    return (bytes[bit / 8] >> (bit % 8)) & ((1 << form.bits) - 1);
  };
  Tensor out(DType::kFloat32, {form.k, form.n});
  for (int64_t n = 0; n < form.n; ++n) {
    for (int64_t k = 0; k < form.k; ++k) {
      const int64_t block = k / form.block;
      const uint8_t* bytes = packed.data<uint8_t>() + (n * blocks + block) * each;
      float zero = static_cast<float>(1 << (form.bits - 1));
      if (packed_zeros) {
        zero = static_cast<float>(field(context.input(2).data<uint8_t>() + n * zero_bytes, block));
      } else if (zeros) {
        zero = static_cast<float>(context.input(2).AsDouble(n * blocks + block));
      }
      out.data<float>()[k * form.n + n] =
          (static_cast<float>(field(bytes, k % form.block)) - zero) *
          scales[static_cast<size_t>(n * blocks + block)];
    }
  }
  context.outputs[0] = std::move(out);
}

constexpr OpDef kRows[] = {
    {"UnpackBits", kRequantDomain, 1, 2, 3, 1, InferUnpackBits, EvaluateUnpackBits,
     QuantRule::kFloat},
};

}  // namespace

std::span<const OpDef> MatMulNBitsOps() { return kRows; }

}  // namespace requant
