#include "quant/weights/table_rows.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/str_cat.h"
#include "ops/infer_util.h"
#include "quant/weights/blocks.h"
#include "quant/weights/products.h"

namespace requant {
namespace {

/// The table as a product's weights: its rows are the columns of the product.
Product TableOf(Node& node, const Tensor& tensor) {
  Product table;
  table.node = &node;
  table.slot = 0;
  table.tensor = &tensor;
  table.weights = tensor.data<float>();
  table.n = tensor.dim(0);
  table.k = table.n_step = tensor.dim(1);
  table.k_step = 1;
  table.axis = 1;
  return table;
}

/// Codes [rows, length] and scales [rows, 1].
std::pair<Tensor, Tensor> RowCodes(const Product& p) {
  Tensor codes(DType::kInt8, {p.n, p.k});
  Tensor scales(DType::kFloat32, {p.n, 1});
  for (int64_t row = 0; row < p.n; ++row) {
    const float* from = p.weights + row * p.k;
    float largest = 0;
    for (int64_t i = 0; i < p.k; ++i) largest = std::max(largest, std::fabs(from[i]));
    // The least normal number keeps the division below finite.
    float scale = largest > 0 ? std::max(largest / 127, 1.17549435e-38f) : 1;
    if (!std::isfinite(scale * 127)) scale = std::nextafter(scale, 0.0f);
    scales.data<float>()[row] = scale;
    int8_t* to = codes.data<int8_t>() + row * p.k;
    for (int64_t i = 0; i < p.k; ++i) {
      to[i] = static_cast<int8_t>(std::clamp(std::nearbyint(from[i] / scale), -127.0f, 127.0f));
    }
  }
  return {std::move(codes), std::move(scales)};
}

void InBytes(BodyScope& scope, const Product& p) {
  Graph& graph = scope.graph();
  const Node& node = *p.node;
  const std::string& name = node.name;
  const auto& shape = node.outputs[0]->type.shape;
  const auto [codes, scales] =
      DerivePair(scope, p, "_rows", "_row_scales", [&] { return RowCodes(p); });
  auto one_each = shape;
  if (one_each) one_each->back() = 1;
  const auto gather = [&](Value* table, const char* what, ValueType type) {
    return graph.AddOp("Gather", "", {table, node.inputs[1]}, scope.FreeName(name + what),
                       std::move(type), {}, name + what);
  };
  Value* row = gather(codes, "_codes", {DType::kInt8, shape});
  Value* scale = gather(scales, "_scales", {DType::kFloat32, one_each});
  AttributeMap to;
  to.Set("to", int64_t{1});  // TensorProto.FLOAT
  Value* real = graph.AddOp("Cast", "", {row}, scope.FreeName(name + "_cast"),
                            {DType::kFloat32, shape}, std::move(to), name + "_cast");
  Value* made = graph.AddOp("Mul", "", {real, scale}, scope.FreeName(name + "_rescaled"),
                            {DType::kFloat32, shape}, {}, name + "_rescale");
  Node* last = made->producer;
  const std::string kept = name;
  Replace(graph, p.node, made);
  graph.RenameNode(last, kept);
}

void InBlocks(BodyScope& scope, const Product& p, const TableOptions& options) {
  Graph& graph = scope.graph();
  const WeightOnlyOptions form{.bits = options.bits, .block = options.block};
  const auto [codes, scales] = DerivePair(scope, p, "_row_blocks", "_row_block_scales", [&] {
    const BlockedWeights made = RoundToBlocks(p, form);
    return std::pair(DequantizeCodes(p, made, true), DequantizeScales(p, made));
  });
  AttributeMap attributes;
  attributes.Set("block_size", options.block);
  attributes.Set("gather_axis", int64_t{0});
  attributes.Set("quantize_axis", int64_t{1});
  graph.opsets[kMicrosoftDomain] = 1;
  const std::string name = p.node->name;
  Value* made = graph.AddOp("GatherBlockQuantized", kMicrosoftDomain,
                            {codes, p.node->inputs[1], scales}, scope.FreeName(name + "_rows"),
                            p.node->outputs[0]->type, std::move(attributes), name + "_blocks");
  Node* last = made->producer;
  Replace(graph, p.node, made);
  graph.RenameNode(last, name);
}

}  // namespace

bool IsTable(const BodyScope& scope, const Node& node) {
  if (!node.Is(Op::kGather)) return false;
  const Tensor* table = scope.ConstantOf(node.input(0));
  if (table == nullptr || table->dtype() != DType::kFloat32 || table->rank() != 2 ||
      table->count() < kLeastTable || scope.ConstantOf(node.input(1)) != nullptr ||
      NormalizeAxis(node.attributes.Int("axis", 0), 2) != 0) {
    return false;
  }
  const auto values = table->values<float>();
  return std::all_of(values.begin(), values.end(), [](float x) { return std::isfinite(x); });
}

int64_t QuantizeTables(BodyScope& scope, const TableOptions& options,
                       const std::function<bool(const Node&)>& keep) {
  if (options.bits == 0) return 0;
  if (options.bits != 8 && options.bits != 4) {
    Fail(ErrorCode::kInvalidArgument,
         StrCat("tables of rows take 8 or 4 bits, not ", options.bits));
  }
  std::vector<Product> tables;
  for (const auto& node : scope.graph().nodes()) {
    if (!IsTable(scope, *node) || (keep && keep(*node))) continue;
    tables.push_back(TableOf(*node, *scope.ConstantOf(node->input(0))));
  }
  for (const Product& table : tables) {
    options.bits == 8 ? InBytes(scope, table) : InBlocks(scope, table, options);
  }
  scope.graph().RemoveUnusedValues();
  scope.graph().SortTopologically();
  return static_cast<int64_t>(tables.size());
}

}  // namespace requant
