// Quantizes without calibration, for transformers and other networks of matrix products and
// recurrent layers: only weights, in blocks, or weights and, at run time, activations.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "quant/graph/body_scope.h"
#include "quant/weights/float_weights.h"

namespace requant {

struct WeightOnlyOptions {
  int bits = 4;        // 2, 3, 4 or 8
  int64_t block = 32;  // weights along K that share a scale; a power of two, at least 16
  /// Writes com.microsoft::MatMulNBits instead of a blocked DequantizeLinear (opset 21).
  bool matmul_nbits = false;
  /// MatMulNBits allows its left-hand side to be quantized to eight bits (accuracy_level 4).
  bool int8_activations = false;
  /// Bits of tables of rows (QuantizeTables): 8, 0 for float, and with matmul_nbits 4.
  int embedding_bits = 8;
  /// Whether 0 has the middle code; otherwise every block has a zero point of its own.
  bool symmetric = true;
};

struct BlockedWeights;
struct Product;
/// Makes the integers of a product's weights; they are for all products that share the weights.
using MakeBlocks = std::function<BlockedWeights(const Product&)>;

/// Turns constant weights of MatMul, Gemm, LSTM, GRU and RNN into integers with a scale for every
/// block of each column. With matmul_nbits recurrent layers still have the blocked form;
/// MatMulNBits needs MatMul, or Gemm without transA, alpha and beta; other products stay unchanged.
/// Tables of rows get embedding_bits. Bodies of If, Loop and Scan are quantized like the graph
/// around them; constants that they capture stay there, once. Weights of 2 and 3 bits are int4 in
/// the blocked form, and have their own width in MatMulNBits.
///
/// A product takes long, so that they are quantized one by one.
class WeightQuantizer {
 public:
  /// Quantizes tables and bodies, and lists in `left`, if given, what stays float. `make`, if
  /// given, replaces rounding to nearest (RoundToBlocks). Throws kInvalidArgument for options out
  /// of range, kUnsupported when a graph cannot be raised to opset 21 (blocked form).
  WeightQuantizer(const Graph& graph, const WeightOnlyOptions& options,
                  FloatWeights* left = nullptr, MakeBlocks make = nullptr);
  ~WeightQuantizer();

  /// Quantizes the next product; returns false when there was none left.
  bool Step();
  size_t done() const { return done_; }
  size_t total() const;
  /// The graph, after the last step.
  Graph Finish();

 private:
  Graph graph_;
  BodyScope scope_;
  WeightOnlyOptions options_;
  MakeBlocks make_;
  std::vector<Product> products_;
  size_t done_ = 0;
};

/// All steps of WeightQuantizer.
Graph QuantizeWeightsOnly(const Graph& graph, const WeightOnlyOptions& options,
                          FloatWeights* left = nullptr, const MakeBlocks& make = nullptr);
/// Throws kInvalidArgument for options out of range.
void CheckWeightOnlyOptions(const WeightOnlyOptions& options);

/// Turns MatMul and Gemm with constant weights into DynamicQuantizeLinear, MatMulInteger and a
/// product of scales; weights are symmetric int8 per column. LSTM becomes com.microsoft's
/// DynamicQuantizeLSTM; GRU and RNN, which have no such operator, get int8 weights. Bodies and
/// `left` are as in QuantizeWeightsOnly. Throws kInvalidArgument for other weight_bits than 7
/// and 8.
struct DynamicForm {
  bool embeddings = true;  // tables of rows get 8 bits (QuantizeTables)
  /// Every row of activations has its own scale and zero point, by operators that any engine runs
  /// (passes/fuse/fuse_row_codes.cpp).
  bool by_row = false;
  /// With 7, weights of products are codes from -63 to 63, which processors without products of
  /// whole bytes multiply faster (kernels/conv/dot8/vector_dot7.cpp).
  int weight_bits = 8;
  /// Notes that attention may code its operands in 8 bits (ops/attention/int8_attention.h).
  bool int8_attention = true;
};
Graph QuantizeDynamically(const Graph& graph, FloatWeights* left = nullptr,
                          const DynamicForm& form = {});

/// Whether the operator with this path (BodyScope::PathOf) stays in float.
using KeepsFloat = std::function<bool(const std::string& path)>;

/// Gives the products and recurrent layers in bodies of If, Loop and Scan the form of
/// QuantizeDynamically by row, embeddings included, in place, and leaves the graph around them
/// unchanged, except for constants that bodies capture. `graph` has opset 11 or newer. Lists in
/// `left` the weights in bodies that stay float, except those of operators that `keep` names, and
/// in `quantized` the paths of the quantized operators.
void QuantizeBodiesDynamically(Graph& graph, const KeepsFloat& keep, FloatWeights& left,
                               std::set<std::string>& quantized, bool embeddings);

}  // namespace requant
