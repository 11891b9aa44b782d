#include "quant/weights/calibrated_weights.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/str_cat.h"
#include "quant/graph/body_scope.h"

namespace requant {
namespace {

constexpr int64_t kMostRows = 8192;                   // of a product that is calibrated
constexpr int64_t kBytesOfPass = int64_t{256} << 20;  // sums of products at a time

/// Why the product rounds to nearest; empty if samples are to be seen.
std::string WhyNearest(const Graph& graph, const Product& p) {
  if (p.recurrent) return "a recurrent layer";
  if (p.node->attributes.Int("transA", 0) != 0) return "its operand is transposed";
  if (p.k > kMostRows) return StrCat("it has more than ", kMostRows, " rows");
  const Value* input = p.node->inputs[0];
  if (input->is_constant()) return "its operand is constant";
  if (!graph.IsInput(input) && input->producer == nullptr) return "its operand is not computed";
  return "";
}

std::string Shown(double number) {
  const auto hundredths = static_cast<int64_t>(std::llround(number * 1000));
  std::string digits = StrCat(hundredths % 1000);
  digits.insert(0, 3 - digits.size(), '0');
  while (digits.size() > 1 && digits.back() == '0') digits.pop_back();
  return StrCat(hundredths / 1000, ".", digits);
}

}  // namespace

CalibratedWeights::CalibratedWeights(Graph graph, const CalibratedOptions& options)
    : graph_(std::move(graph)), options_(options) {
  CheckWeightOnlyOptions(options.weights);
  BodyScope scope(graph_);
  int64_t bytes = kBytesOfPass;
  for (const Product& p : FindProducts(scope)) {
    if (options.weights.matmul_nbits && !p.plain && !p.recurrent) continue;  // stays float
    if (p.recurrent && p.slot == 2) continue;                                // its layer is listed
    layers_.emplace_back(p.node->name, WhyNearest(graph_, p));
    if (!layers_.back().detail.empty()) continue;
    layers_.back().calibrated = true;
    const std::string& value = p.node->inputs[0]->name;
    readers_[value].push_back({p.node->name, layers_.size() - 1});
    if (inputs_.contains(value)) continue;
    inputs_.emplace(value, nullptr);
    if (bytes + InputProducts::BytesOf(p.k) > kBytesOfPass) {
      values_.emplace_back();
      bytes = 0;
    }
    bytes += InputProducts::BytesOf(p.k);
    values_.back().push_back(value);
  }
  VisitBodies(graph_, [&](const std::string& path, const Node& node, const Node&) {
    if (node.Is(Op::kMatMul) || node.Is(Op::kGemm) || IsRecurrent(node)) {
      const Tensor* weights = node.constant(1);
      if (weights && weights->dtype() == DType::kFloat32) {
        layers_.emplace_back(path, "in a body");
      }
    }
  });
}

std::vector<Product> CalibratedWeights::ProductsOf(const std::string& value) {
  std::vector<Product> products;
  BodyScope scope(graph_);
  for (const Product& p : FindProducts(scope)) {
    for (const Reader& reader : readers_.at(value)) {
      if (reader.node == p.node->name) products.push_back(p);
    }
  }
  return products;
}

void CalibratedWeights::Observe(const std::string& value, const Tensor& seen) {
  const int64_t k = seen.rank() > 0 ? seen.dim(seen.rank() - 1) : 0;
  if (k == 0 || seen.count() == 0) return;
  std::unique_ptr<InputProducts>& inputs = inputs_.at(value);
  if (!inputs) inputs = std::make_unique<InputProducts>(k);
  if (inputs->k() != k) {
    Fail(ErrorCode::kShapeMismatch,
         StrCat("value '", value, "' has rows of ", k, " and of ", inputs->k(), " numbers"),
         {.value = value});
  }
  inputs->Add(seen.data<float>(), seen.count() / k);
}

void CalibratedWeights::EndPass(int pass) {
  for (const std::string& value : observed_values(pass)) {
    if (const InputProducts* inputs = inputs_.at(value).get()) {
      if (!inputs->finite()) {
        Fail(ErrorCode::kInvalidArgument,
             StrCat("value '", value, "' has NaN or infinity in the calibration samples"),
             {.value = value, .hint = "leave such samples out"});
      }
    }
    for (const Reader& reader : readers_.at(value)) waiting_.emplace_back(value, reader);
  }
  std::reverse(waiting_.begin(), waiting_.end());
}

void CalibratedWeights::Scale(const std::string& value) {
  const std::vector<Product> products = ProductsOf(value);
  const bool shared = std::any_of(products.begin(), products.end(),
                                  [](const Product& p) { return p.value()->consumers.size() > 1; });
  InputProducts& inputs = *inputs_.at(value);
  for (const Reader& reader : readers_.at(value)) {
    for (const Product& p : products) {
      if (p.node->name != reader.node) continue;
      layers_[reader.layer].before = OutputError(p, inputs, RoundToBlocks(p, options_.weights));
    }
  }
  if (!options_.scale || shared) return;
  const InputScaling made = ScaleInputs(graph_, products, inputs, options_.weights);
  if (made.alpha == 0) return;
  std::vector<double> inverse;
  for (const double factor : made.factors) inverse.push_back(1 / factor);
  inputs.Scale(inverse);
  // Codes of a layer that was rounded before stay: a column's scales take its factor.
  const auto rounded = made_.find(made.layer_before);
  if (rounded != made_.end()) {
    BlockedWeights blocks = std::move(rounded->second);
    made_.erase(rounded);
    for (size_t i = 0; i < blocks.scales.size(); ++i) {
      const size_t column = i / static_cast<size_t>(blocks.blocks());
      blocks.scales[i] =
          static_cast<float>(static_cast<double>(blocks.scales[i]) / made.factors[column]);
    }
    made_.emplace(made.layer_after, std::move(blocks));
  }
  graph_.RemoveUnusedValues();
  for (const Reader& reader : readers_.at(value)) {
    layers_[reader.layer].detail =
        StrCat("scaled with alpha ", Shown(made.alpha), ", in a ", made.place);
  }
}

void CalibratedWeights::Round(const std::string& value, const Reader& reader) {
  const InputProducts& inputs = *inputs_.at(value);
  CalibratedLayer& layer = layers_[reader.layer];
  for (const Product& p : ProductsOf(value)) {
    if (p.node->name != reader.node) continue;
    BlockedWeights blocks = RoundToBlocks(p, options_.weights, inputs.Diagonal());
    layer.after = OutputError(p, inputs, blocks);
    if (options_.feedback) {
      BlockedWeights fed = blocks;
      if (RoundWithFeedback(p, inputs, fed)) {
        const double error = OutputError(p, inputs, fed);
        if (error < layer.after) {
          layer.after = error;
          blocks = std::move(fed);
          layer.detail = StrCat(layer.detail, layer.detail.empty() ? "" : "; ", "error feedback");
        }
      }
    }
    if (layer.detail.empty()) layer.detail = "nearest";
    made_.emplace(p.value()->name, std::move(blocks));
  }
}

bool CalibratedWeights::Step() {
  if (waiting_.empty()) return false;
  const auto [value, reader] = waiting_.back();
  waiting_.pop_back();
  ++done_;
  std::unique_ptr<InputProducts>& inputs = inputs_.at(value);
  if (!inputs) {
    layers_[reader.layer].calibrated = false;
    layers_[reader.layer].detail = "no sample came to it";
  } else {
    const bool first = readers_.at(value).front().node == reader.node;
    if (first) Scale(value);
    Round(value, reader);
    if (readers_.at(value).back().node == reader.node) inputs.reset();
  }
  return true;
}

Graph CalibratedWeights::Finish(FloatWeights* left) {
  const MakeBlocks make = [this](const Product& p) {
    const auto found = made_.find(p.value()->name);
    if (found != made_.end() && found->second.k == p.k && found->second.n == p.n) {
      return found->second;
    }
    return RoundToBlocks(p, options_.weights);
  };
  return QuantizeWeightsOnly(graph_, options_.weights, left, make);
}

}  // namespace requant
