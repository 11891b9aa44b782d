// Weights of MatMulNBits in the form that the kernels multiply: 4 or 8 bits, blocks of neighboring
// k.
//   2 and 3 bits:  the codes and zero points as they are, in 4 bits.
//   5 to 8 bits:   as they are, in 8 bits, where the left-hand side stays float; else
//                  code = 16 high + low and zero = 16 high0 + low0, so that
//                  (code - zero) * s = (high - high0) * 16 s + (low - low0) * s,
//                  the sum of two products.
//   g_idx:         the rows k of one group follow each other, filled up to whole blocks by rows of
//                  weight 0; a Gather gives `a` the same order.
#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

#include "ops/matrix/matmul_nbits.h"

namespace requant {
namespace {

constexpr int kOpset = 13;  // of Gather and Add in bodies

/// The order of rows along k: `rows` has the source of each row, or -1 for padding; `blocks` the
/// source of each block's scales and zero points.
struct RowOrder {
  std::vector<int64_t> rows, blocks;
};

/// The order without g_idx.
RowOrder NaturalOrder(const PackedForm& form) {
  RowOrder order;
  order.rows.resize(static_cast<size_t>(form.k));
  order.blocks.resize(static_cast<size_t>(form.blocks()));
  std::iota(order.rows.begin(), order.rows.end(), int64_t{0});
  std::iota(order.blocks.begin(), order.blocks.end(), int64_t{0});
  return order;
}

/// The order by groups, at most twice as long.
RowOrder OrderByGroup(const PackedForm& form, const std::vector<int64_t>& groups) {
  std::vector<std::vector<int64_t>> members(static_cast<size_t>(form.blocks()));
  for (int64_t k = 0; k < form.k; ++k) {
    const int64_t group = groups[static_cast<size_t>(k)];
    members[static_cast<size_t>(group)].push_back(k);
  }
  RowOrder order;
  for (size_t group = 0; group < members.size(); ++group) {
    const auto count = static_cast<int64_t>(members[group].size());
    const int64_t blocks = (count + form.block - 1) / form.block;
    order.rows.insert(order.rows.end(), members[group].begin(), members[group].end());
    order.rows.resize(order.rows.size() + static_cast<size_t>(blocks * form.block - count), -1);
    order.blocks.insert(order.blocks.end(), static_cast<size_t>(blocks),
                        static_cast<int64_t>(group));
  }
  return order;
}

/// Bits `shift` to shift + bits - 1 of all codes as weights of `bits` bits, 4 or 8.
struct Repacked {
  int bits;
  Tensor codes, scales, zeros;
  bool plain = true;  // all zero points are 2^(bits - 1)

  /// `natural`: so many rows from the first on have the order of `from`.
  Repacked(const BlockCodes& from, const RowOrder& order, int64_t natural, int each, int shift)
      : bits(each),
        codes(DType::kUint8,
              {from.form.n, static_cast<int64_t>(order.blocks.size()), from.form.block * bits / 8}),
        scales(DType::kFloat32, {from.form.n * codes.dim(1)}),
        zeros(DType::kUint8, {from.form.n * ZeroBytes()}) {
    const auto blocks = codes.dim(1);
    const int mask = (1 << bits) - 1;
    for (int64_t n = 0; n < from.form.n; ++n) {
      for (int64_t b = 0; b < blocks; ++b) {
        const int64_t source = order.blocks[static_cast<size_t>(b)];
        const int zero = from.Zero(n, source) >> shift & mask;
        plain = plain && zero == 1 << (bits - 1);
        Set(zeros, n * ZeroBytes(), b, zero);
        scales.data<float>()[n * blocks + b] =
            std::ldexp(from.scales[n * from.form.blocks() + source], shift);
        if (bits == 4 && from.form.bits == 8 && (b + 1) * from.form.block <= natural) {
          PackBytes(from, n * blocks + b, shift);
          continue;
        }
        for (int64_t i = 0; i < from.form.block; ++i) {
          const auto row = static_cast<size_t>(b * from.form.block + i);
          const int64_t k = row < order.rows.size() ? order.rows[row] : -1;
          const int code = k < 0 ? zero : from.Code(n, k) >> shift & mask;
          Set(codes, (n * blocks + b) * codes.dim(2), i, code);
        }
      }
    }
  }

 private:
  int64_t ZeroBytes() const { return (codes.dim(1) * bits + 7) / 8; }
  /// Writes code `i` of a run that begins at a byte; the run is 0 before.
  void Set(Tensor& tensor, int64_t begin, int64_t i, int code) const {
    uint8_t& byte = tensor.data<uint8_t>()[begin + i * bits / 8];
    byte = static_cast<uint8_t>(byte | code << (bits == 4 ? i % 2 * 4 : 0));
  }
  /// Halves the codes of a block of 8 bits, which has the same number in both.
  void PackBytes(const BlockCodes& from, int64_t block, int shift) {
    const uint8_t* bytes = from.codes.data<uint8_t>() + block * from.form.block;
    uint8_t* to = codes.data<uint8_t>() + block * (from.form.block / 2);
    for (int64_t i = 0; i < from.form.block / 2; ++i) {
      const int low = (bytes[2 * i] >> shift) & 15;
      const int high = (bytes[2 * i + 1] >> shift) & 15;
      to[i] = static_cast<uint8_t>(low | (high << 4));
    }
  }
};

}  // namespace

std::unique_ptr<Graph> RepackedProduct(const Node& node) {
  const PackedForm form = PackedFormOf(node.attributes);
  const Tensor* codes = node.constant(1);
  const Tensor* scales = node.constant(2);
  const Tensor* zeros = node.constant(3);
  const Tensor* groups = node.constant(4);
  if (form.block < 16 || !std::has_single_bit(static_cast<uint64_t>(form.block)) || !codes ||
      !scales || scales->dtype() != DType::kFloat32 || (node.input(3) && !zeros) ||
      (node.input(4) && !groups)) {
    return nullptr;
  }
  const BlockCodes weights(form, *codes, *scales, zeros);
  if (weights.zeros != zeros) return nullptr;
  const RowOrder order = groups ? OrderByGroup(form, GroupsOf(*groups, form)) : NaturalOrder(form);
  for (const float scale : weights.scales) {
    if (!std::isfinite(std::ldexp(scale, 4))) return nullptr;
  }
  auto body = std::make_unique<Graph>();
  body->opsets = {{"", kOpset}, {kMicrosoftDomain, 1}};
  std::vector<Value*> inputs;
  for (const Value* input : node.inputs) {
    inputs.push_back(input ? body->AddValue(input->name) : nullptr);
    if (input) body->AddInput(inputs.back());
  }
  Value* a = inputs[0];
  AttributeMap attributes = node.attributes;
  const int bits = form.bits > 4 && !TakesInt8Activations(attributes) ? 8 : 4;
  attributes.Set("bits", int64_t{bits});
  if (groups) {
    std::vector<int64_t> rows = order.rows;
    for (int64_t& row : rows) row = std::max<int64_t>(row, 0);
    attributes.Set("K", static_cast<int64_t>(rows.size()));
    Value* indices = body->AddConstant("order", Tensor::Vector<int64_t>(rows));
    AttributeMap axis;
    axis.Set("axis", int64_t{-1});
    a = body->AddOp("Gather", "", {a, indices}, "ordered", {}, std::move(axis));
  }
  Value* sum = nullptr;
  for (const int shift : {4, 0}) {
    if (shift > 0 && form.bits <= bits) continue;
    Repacked part(weights, order, groups ? 0 : form.k, bits, shift);
    std::vector<Value*> operands = {a, body->AddConstant("codes", std::move(part.codes)),
                                    body->AddConstant("scales", std::move(part.scales))};
    if (!part.plain) operands.push_back(body->AddConstant("zeros", std::move(part.zeros)));
    Value* product = body->AddOp("MatMulNBits", kMicrosoftDomain, std::move(operands), "product",
                                 {}, attributes);
    sum = sum ? body->AddOp("Add", "", {sum, product}, "sum", {}) : product;
  }
  if (node.input(5)) sum = body->AddOp("Add", "", {sum, inputs[5]}, "biased", {});
  body->AddOutput(sum);
  return body;
}

}  // namespace requant
