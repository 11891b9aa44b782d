#include "quant/weights/weight_only.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/error.h"
#include "base/str_cat.h"
#include "quant/graph/body_scope.h"
#include "quant/graph/prepare.h"
#include "quant/weights/products.h"
#include "quant/weights/table_rows.h"

namespace requant {
namespace {

/// The scale of least squared error for some weights of one column, with codes [-2^(b-1), 2^(b-1) -
/// 1].
float BlockScale(const Product& p, int64_t column, int64_t begin, int64_t end, int bits) {
  float extreme = 0;  // the weight of the largest magnitude, which gets the lowest code
  for (int64_t k = begin; k < end; ++k) {
    const float w = p.weights[column * p.n_step + k * p.k_step];
    if (std::fabs(w) > std::fabs(extreme)) extreme = w;
  }
  if (extreme == 0 || !std::isfinite(extreme)) return 1;
  const double low = -std::ldexp(1, bits - 1);
  double best = static_cast<double>(std::fabs(extreme)) / -low;
  double least = HUGE_VAL;
  for (int step = 0; step < 24; ++step) {
    const double scale =
        static_cast<double>(std::fabs(extreme)) / (-low - 1) * (1.02 - 0.02 * step);
    double error = 0;
    for (int64_t k = begin; k < end; ++k) {
      const auto w = static_cast<double>(p.weights[column * p.n_step + k * p.k_step]);
      const double d = w - scale * std::clamp(std::nearbyint(w / scale), low, -low - 1);
      error += d * d;
    }
    if (error < least) {
      least = error;
      best = scale;
    }
  }
  return static_cast<float>(best);
}

}  // namespace

std::pair<Tensor, Tensor> BlockCodes(const Product& p, const WeightOnlyOptions& options) {
  const int64_t blocks = (p.k + options.block - 1) / options.block;
  const Shape shape = p.tensor->shape();
  const bool rows_are_k = p.axis == 0;
  Shape scales = shape;
  scales[static_cast<size_t>(p.axis)] = blocks;
  Tensor scale(DType::kFloat32, scales);
  Tensor codes(options.bits == 4 ? DType::kInt4 : DType::kInt8, shape);
  auto* bytes = static_cast<uint8_t*>(codes.raw());
  for (int64_t column = 0; column < p.n; ++column) {
    for (int64_t block = 0; block < blocks; ++block) {
      const int64_t begin = block * options.block;
      const int64_t end = std::min(p.k, begin + options.block);
      const float s = BlockScale(p, column, begin, end, options.bits);
      scale.data<float>()[rows_are_k ? block * p.n + column : column * blocks + block] = s;
      for (int64_t k = begin; k < end; ++k) {
        const int64_t at = column * p.n_step + k * p.k_step;
        const auto code = static_cast<uint8_t>(Code(p, column, k, s, options.bits));
        if (options.bits == 8) {
          bytes[at] = code;
        } else {
          bytes[at / 2] |= static_cast<uint8_t>((code & 15) << (at % 2 * 4));
        }
      }
    }
  }
  return {std::move(codes), std::move(scale)};
}

namespace {

void Blocked(BodyScope& scope, const Product& p, const WeightOnlyOptions& options) {
  Graph& graph = scope.graph();
  const std::string name = scope.FreeName(StrCat(p.value()->name, "_dequantized"));
  const SymbolicShape shape = ToSymbolic(p.tensor->shape());
  const auto [codes, scale] =
      DerivePair(scope, p, "_q", "_scale", [&] { return BlockCodes(p, options); });
  AttributeMap attributes;
  attributes.Set("axis", p.axis);
  attributes.Set("block_size", options.block);
  Value* made = graph.AddOp("DequantizeLinear", "", {codes, scale}, name, {DType::kFloat32, shape},
                            std::move(attributes), p.node->name + "_dequantize");
  graph.SetInput(p.node, p.slot, made);
}

/// Codes and scales of a product's blocks, in the layout of MatMulNBits.
std::pair<Tensor, Tensor> NBitsCodes(const Product& p, const WeightOnlyOptions& options) {
  const int64_t blocks = (p.k + options.block - 1) / options.block;
  const int64_t blob = options.block * options.bits / 8;
  const int half = 1 << (options.bits - 1);
  Tensor codes(DType::kUint8, {p.n, blocks, blob});
  Tensor scales(DType::kFloat32, {p.n * blocks});
  auto* bytes = codes.data<uint8_t>();
  for (int64_t column = 0; column < p.n; ++column) {
    for (int64_t block = 0; block < blocks; ++block) {
      const int64_t begin = block * options.block;
      const int64_t end = std::min(p.k, begin + options.block);
      const float s = BlockScale(p, column, begin, end, options.bits);
      scales.data<float>()[column * blocks + block] = s;
      uint8_t* to = bytes + (column * blocks + block) * blob;
      for (int64_t i = 0; i < options.block; ++i) {
        const int code = (begin + i < end ? Code(p, column, begin + i, s, options.bits) : 0) + half;
        if (options.bits == 8) {
          to[i] = static_cast<uint8_t>(code);
        } else {
          to[i / 2] |= static_cast<uint8_t>(code << (i % 2 * 4));
        }
      }
    }
  }
  return {std::move(codes), std::move(scales)};
}

void NBits(BodyScope& scope, const Product& p, const WeightOnlyOptions& options) {
  if (!p.plain) return;
  Graph& graph = scope.graph();
  const auto [codes, scales] =
      DerivePair(scope, p, "_q", "_scales", [&] { return NBitsCodes(p, options); });
  AttributeMap attributes;
  attributes.Set("K", p.k);
  attributes.Set("N", p.n);
  attributes.Set("bits", int64_t{options.bits});
  attributes.Set("block_size", options.block);
  if (options.int8_activations) attributes.Set("accuracy_level", int64_t{4});
  Value* product = graph.AddOp("MatMulNBits", kMicrosoftDomain, {p.node->inputs[0], codes, scales},
                               scope.FreeName(p.node->name + "_product"), p.node->outputs[0]->type,
                               std::move(attributes), p.node->name + "_nbits");
  Replace(graph, p.node, AddBias(graph, *p.node, product));
}

void QuantizeWeightsIn(BodyScope& scope, const WeightOnlyOptions& options) {
  if (options.matmul_nbits) scope.graph().opsets[kMicrosoftDomain] = 1;
  scope.ForEachBody([&](BodyScope& body) { QuantizeWeightsIn(body, options); });
  QuantizeTables(scope, {.bits = options.embedding_bits, .block = options.block});
  for (const Product& product : FindProducts(scope)) {
    (options.matmul_nbits && !product.recurrent ? NBits : Blocked)(scope, product, options);
  }
  scope.graph().RemoveUnusedValues();
  scope.graph().SortTopologically();
}

}  // namespace

Graph QuantizeWeightsOnly(const Graph& source, const WeightOnlyOptions& options,
                          FloatWeights* left) {
  if (options.bits != 4 && options.bits != 8) {
    Fail(ErrorCode::kInvalidArgument, StrCat("weights alone take 4 or 8 bits, not ", options.bits));
  }
  if (options.block < 16 || !std::has_single_bit(static_cast<uint64_t>(options.block))) {
    Fail(ErrorCode::kInvalidArgument, StrCat("a block of ", options.block, " is not possible"),
         {.hint = "use a power of two from 16 on"});
  }
  if (options.embedding_bits == 4 && !options.matmul_nbits) {
    Fail(ErrorCode::kInvalidArgument, "embeddings of 4 bits need the form of MatMulNBits",
         {.hint = "use format 'matmulnbits', or 8 bits for embeddings"});
  }
  Graph graph = source.Clone();
  BodyScope scope(graph);
  if (left) ListFloat(scope, options.matmul_nbits, *left, nullptr, options.embedding_bits != 0);
  if (!options.matmul_nbits || HasRecurrent(scope)) {
    RefreshTypes(graph);
    RaiseOpset(graph, 21);
  }
  QuantizeWeightsIn(scope, options);
  return graph;
}

}  // namespace requant
