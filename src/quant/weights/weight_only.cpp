#include "quant/weights/weight_only.h"

#include <bit>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/str_cat.h"
#include "quant/graph/body_scope.h"
#include "quant/graph/prepare.h"
#include "quant/weights/blocks.h"
#include "quant/weights/products.h"
#include "quant/weights/table_rows.h"

namespace requant {
namespace {

/// Makes the constants of a product's weights. Another product may have made them before.
class Derivation {
 public:
  Derivation(BodyScope& scope, const Product& product, const MakeBlocks& make)
      : scope_(scope), product_(product), make_(make) {}

  template <typename MakeTensor>
  Value* operator()(const char* suffix, const MakeTensor& tensor) {
    return scope_.Derive(product_.value(), StrCat(suffix, product_.order()), [&] {
      if (!made_) made_ = make_(product_);
      return tensor(*made_);
    });
  }

 private:
  BodyScope& scope_;
  const Product& product_;
  const MakeBlocks& make_;
  std::optional<BlockedWeights> made_;
};

void Blocked(BodyScope& scope, const Product& p, const WeightOnlyOptions& options,
             const MakeBlocks& make) {
  Graph& graph = scope.graph();
  const std::string name = scope.FreeName(StrCat(p.value()->name, "_dequantized"));
  const SymbolicShape shape = ToSymbolic(p.tensor->shape());
  Derivation derive(scope, p, make);
  std::vector<Value*> inputs{
      derive("_q", [&](const auto& made) { return DequantizeCodes(p, made, options.symmetric); }),
      derive("_scale", [&](const auto& made) { return DequantizeScales(p, made); })};
  if (!options.symmetric) {
    inputs.push_back(derive("_zero", [&](const auto& made) { return DequantizeZeros(p, made); }));
  }
  AttributeMap attributes;
  attributes.Set("axis", p.axis);
  attributes.Set("block_size", options.block);
  Value* made =
      graph.AddOp("DequantizeLinear", "", std::move(inputs), name, {DType::kFloat32, shape},
                  std::move(attributes), p.node->name + "_dequantize");
  graph.SetInput(p.node, p.slot, made);
}

void NBits(BodyScope& scope, const Product& p, const WeightOnlyOptions& options,
           const MakeBlocks& make) {
  if (!p.plain) return;
  Graph& graph = scope.graph();
  Derivation derive(scope, p, make);
  std::vector<Value*> inputs{p.node->inputs[0], derive("_q", PackedCodes),
                             derive("_scales", PackedScales)};
  if (!options.symmetric) inputs.push_back(derive("_zeros", PackedZeros));
  AttributeMap attributes;
  attributes.Set("K", p.k);
  attributes.Set("N", p.n);
  attributes.Set("bits", int64_t{options.bits});
  attributes.Set("block_size", options.block);
  if (options.int8_activations) attributes.Set("accuracy_level", int64_t{4});
  Value* product = graph.AddOp("MatMulNBits", kMicrosoftDomain, std::move(inputs),
                               scope.FreeName(p.node->name + "_product"), p.node->outputs[0]->type,
                               std::move(attributes), p.node->name + "_nbits");
  Replace(graph, p.node, AddBias(graph, *p.node, product));
}

void QuantizeProduct(BodyScope& scope, const Product& product, const WeightOnlyOptions& options,
                     const MakeBlocks& make) {
  const bool packed = options.matmul_nbits && !product.recurrent;
  (packed ? NBits : Blocked)(scope, product, options, make);
}

void CleanUp(Graph& graph) {
  graph.RemoveUnusedValues();
  graph.SortTopologically();
}

/// Quantizes everything in the bodies of a graph's nodes and its tables, and lists its products.
std::vector<Product> PrepareWeights(BodyScope& scope, const WeightOnlyOptions& options,
                                    const MakeBlocks& make) {
  if (options.matmul_nbits) scope.graph().opsets[kMicrosoftDomain] = 1;
  scope.ForEachBody([&](BodyScope& body) {
    for (const Product& product : PrepareWeights(body, options, make)) {
      QuantizeProduct(body, product, options, make);
    }
    CleanUp(body.graph());
  });
  QuantizeTables(scope, {.bits = options.embedding_bits, .block = options.block});
  return FindProducts(scope);
}

}  // namespace

void CheckWeightOnlyOptions(const WeightOnlyOptions& options) {
  if (options.bits != 2 && options.bits != 3 && options.bits != 4 && options.bits != 8) {
    Fail(ErrorCode::kInvalidArgument,
         StrCat("weights alone take 2, 3, 4 or 8 bits, not ", options.bits));
  }
  if (options.block < 16 || !std::has_single_bit(static_cast<uint64_t>(options.block))) {
    Fail(ErrorCode::kInvalidArgument, StrCat("a block of ", options.block, " is not possible"),
         {.hint = "use a power of two from 16 on"});
  }
  if (options.embedding_bits == 4 && !options.matmul_nbits) {
    Fail(ErrorCode::kInvalidArgument, "embeddings of 4 bits need the form of MatMulNBits",
         {.hint = "use format 'matmulnbits', or 8 bits for embeddings"});
  }
}

WeightQuantizer::WeightQuantizer(const Graph& source, const WeightOnlyOptions& options,
                                 FloatWeights* left, MakeBlocks make)
    : graph_(source.Clone()), scope_(graph_), options_(options), make_(std::move(make)) {
  CheckWeightOnlyOptions(options);
  if (left) {
    ListFloat(scope_, options.matmul_nbits, *left, nullptr, options.embedding_bits != 0);
  }
  if (!options.matmul_nbits || HasRecurrent(scope_)) {
    RefreshTypes(graph_);
    RaiseOpset(graph_, 21);
  }
  if (!make_) make_ = [this](const Product& product) { return RoundToBlocks(product, options_); };
  products_ = PrepareWeights(scope_, options_, make_);
}

WeightQuantizer::~WeightQuantizer() = default;

size_t WeightQuantizer::total() const { return products_.size(); }

bool WeightQuantizer::Step() {
  if (done_ == products_.size()) return false;
  QuantizeProduct(scope_, products_[done_++], options_, make_);
  return true;
}

Graph WeightQuantizer::Finish() {
  CleanUp(graph_);
  return std::move(graph_);
}

Graph QuantizeWeightsOnly(const Graph& source, const WeightOnlyOptions& options, FloatWeights* left,
                          const MakeBlocks& make) {
  WeightQuantizer quantizer(source, options, left, make);
  while (quantizer.Step()) continue;
  return quantizer.Finish();
}

}  // namespace requant
