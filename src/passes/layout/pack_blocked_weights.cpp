// PackBlockedWeights
//   Before: y = MatMul(x, DequantizeLinear(w [K, N], s [K / b, N], z) {axis = 0, block_size = b})
//           y = Gemm(x, DequantizeLinear(w [N, K], s [N, K / b], z) {axis = 1, block_size = b}, c)
//               {transB = 1}
//   After:  y = com.microsoft::MatMulNBits(x, w', s', z', _, c) {K, N, bits, block_size = b}
//   Conditions: w of 4 or 8 bits, signed or not, constant like s, z and c; positive float32
//     scales; b a power of two from 16 on that divides K; nobody else reads the floats.
//   Formula: h = 2^(bits - 1); w' = w + h for signed w, w for unsigned; z' = z + h or z, where h
//     stands for none; then
//     (w' - z') * s' = (w - z) * s   (onnxruntime docs/ContribOperators.md, MatMulNBits)
#include <algorithm>
#include <bit>
#include <cmath>

#include "base/squares.h"
#include "passes/pass.h"
#include "passes/rewrite.h"

namespace requant {
namespace {

bool HasHalfBytes(DType dtype) { return dtype == DType::kInt4 || dtype == DType::kUint4; }

/// The operands of a dequantization of a matrix with rows k and columns n.
struct Blocked {
  const Tensor* codes;
  const Tensor* scales;
  const Tensor* zeros;  // or nullptr
  int64_t k, n, block;
  bool transposed;  // codes are [n, k]

  int bits() const { return HasHalfBytes(codes->dtype()) ? 4 : 8; }
  bool is_signed() const {
    return codes->dtype() == DType::kInt4 || codes->dtype() == DType::kInt8;
  }
  /// The code that stands for 0 without zero points.
  int zero() const { return is_signed() ? 1 << (bits() - 1) : 0; }
  /// The code of a weight or of a zero point; `rows` is the number of rows of that tensor. Adding
  /// 2^(bits - 1) to a signed code flips its highest bit.
  int Code(const Tensor& tensor, int64_t row, int64_t column, int64_t rows) const {
    const int64_t at = transposed ? column * rows + row : row * n + column;
    const auto* bytes = static_cast<const uint8_t*>(tensor.raw());
    const int code = bits() == 8 ? bytes[at] : bytes[at / 2] >> (at % 2 * 4) & 15;
    return code ^ zero();
  }
};

/// Writes the codes of each column one after another, those of 4 bits two to a byte.
void PackCodes(const Blocked& blocked, uint8_t* to) {
  const auto* from = static_cast<const uint8_t*>(blocked.codes->raw());
  const int64_t k = blocked.k, n = blocked.n;
  const int flip = blocked.bits() == 8 ? blocked.zero() : blocked.zero() * 17;
  if (blocked.transposed) {
    const int64_t bytes = n * k * blocked.bits() / 8;
    for (int64_t i = 0; i < bytes; ++i) to[i] = static_cast<uint8_t>(from[i] ^ flip);
    return;
  }
  if (blocked.bits() == 8) {
    VisitInSquares(n, k, [from, to, k, n, flip](int64_t column, int64_t row) {
      to[column * k + row] = static_cast<uint8_t>(from[row * n + column] ^ flip);
    });
    return;
  }
  const auto half = [from](int64_t at) { return from[at / 2] >> (at % 2 * 4) & 15; };
  VisitInSquares(n, k / 2, [half, to, k, n, flip](int64_t column, int64_t pair) {
    const int low = half(2 * pair * n + column), high = half((2 * pair + 1) * n + column);
    to[column * (k / 2) + pair] = static_cast<uint8_t>((low | high << 4) ^ flip);
  });
}

std::optional<Blocked> ReadBlocked(const Graph& graph, const Node& node) {
  const Value* floats = node.input(1);
  const Node* dequantize = floats ? floats->producer : nullptr;
  if (dequantize == nullptr || !dequantize->Is(Op::kDequantizeLinear) ||
      graph.SoleConsumer(floats) != &node) {
    return {};
  }
  const bool gemm = node.Is(Op::kGemm);
  if (gemm && (node.attributes.Int("transB", 0) == 0 || node.attributes.Int("transA", 0) != 0 ||
               node.attributes.Float("alpha", 1) != 1 || node.attributes.Float("beta", 1) != 1)) {
    return {};
  }
  Blocked out{dequantize->constant(0),
              dequantize->constant(1),
              dequantize->constant(2),
              0,
              0,
              dequantize->attributes.Int("block_size", 0),
              gemm};
  if (!out.codes || !out.scales || (dequantize->input(2) && !out.zeros) ||
      (!HasHalfBytes(out.codes->dtype()) && !IsByte(out.codes->dtype())) ||
      out.codes->rank() != 2 || out.scales->dtype() != DType::kFloat32) {
    return {};
  }
  const int64_t axis = dequantize->attributes.Int("axis", 1);
  const int64_t along = gemm ? 1 : 0;
  out.k = out.codes->dim(along);
  out.n = out.codes->dim(1 - along);
  if ((axis != along && axis + 2 != along) || out.block < 16 ||
      !std::has_single_bit(static_cast<uint64_t>(out.block)) || out.k < 1 || out.n < 1 ||
      out.k % out.block != 0) {
    return {};
  }
  const int64_t blocks = out.k / out.block;
  const Shape expected = gemm ? Shape{out.n, blocks} : Shape{blocks, out.n};
  if (out.scales->shape() != expected || (out.zeros && out.zeros->shape() != expected)) return {};
  // DequantizeLinear reports other scales as an error.
  const auto values = out.scales->values<float>();
  const bool right = std::all_of(values.begin(), values.end(),
                                 [](float scale) { return scale > 0 && std::isfinite(scale); });
  return right ? std::optional(out) : std::nullopt;
}

bool Pack(Graph& graph, Node* node) {
  if ((!node->Is(Op::kMatMul) && !node->Is(Op::kGemm)) || !IsFloat32(node->input(0))) return false;
  const auto blocked = ReadBlocked(graph, *node);
  if (!blocked) return false;
  const int64_t n = blocked->n;
  const int64_t blocks = blocked->k / blocked->block;
  Value* bias = node->input(2);
  const Tensor* biases = node->constant(2);
  if (bias && (!biases || biases->dtype() != DType::kFloat32 || biases->count() != n)) return false;
  const int bits = blocked->bits();
  Tensor codes(DType::kUint8, {n, blocks, blocked->block * bits / 8});
  Tensor scales(DType::kFloat32, {n * blocks});
  const int64_t zero_bytes = (blocks * bits + 7) / 8;
  Tensor zeros(DType::kUint8, {n * zero_bytes});
  PackCodes(*blocked, codes.data<uint8_t>());
  for (int64_t column = 0; column < n; ++column) {
    for (int64_t b = 0; b < blocks; ++b) {
      const int64_t at = blocked->transposed ? column * blocks + b : b * n + column;
      scales.data<float>()[column * blocks + b] = blocked->scales->data<float>()[at];
      const int zero =
          blocked->zeros ? blocked->Code(*blocked->zeros, b, column, blocks) : blocked->zero();
      uint8_t& byte = zeros.data<uint8_t>()[column * zero_bytes + b * bits / 8];
      byte = static_cast<uint8_t>(byte | zero << (bits == 4 ? b % 2 * 4 : 0));
    }
  }
  const bool plain = blocked->zeros == nullptr && blocked->is_signed();
  AttributeMap attributes;
  attributes.Set("K", blocked->k);
  attributes.Set("N", n);
  attributes.Set("bits", int64_t{bits});
  attributes.Set("block_size", blocked->block);
  std::vector<Value*> inputs = {node->input(0), AddNear(graph, node, std::move(codes)),
                                AddNear(graph, node, std::move(scales))};
  if (!plain) inputs.push_back(AddNear(graph, node, std::move(zeros)));
  if (bias) {
    inputs.resize(5, nullptr);
    // The bias has one number for each column, whatever its dimensions are.
    inputs.push_back(AddNear(graph, node, biases->Reshaped({n})));
  }
  TruncateInputs(graph, node, 0);
  for (size_t i = 0; i < inputs.size(); ++i) graph.SetInput(node, i, inputs[i]);
  node->Retype(Op::kMatMulNBits);
  node->attributes = std::move(attributes);
  graph.opsets.try_emplace(kMicrosoftDomain, 1);
  return true;
}

}  // namespace

bool PackBlockedWeights(Graph& graph, PassContext&) { return RewriteNodes(graph, Pack); }

}  // namespace requant
