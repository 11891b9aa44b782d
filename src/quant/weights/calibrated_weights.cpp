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
  for (const Product& p : FindProducts(scope)) {
    if (options.weights.matmul_nbits && !p.plain && !p.recurrent) continue;  // stays float
    if (p.recurrent && p.slot == 2) continue;                                // its layer is listed
    layers_.emplace_back(p.node->name, WhyUnseen(graph_, p));
    if (!layers_.back().detail.empty()) continue;
    layers_.back().calibrated = true;
    const std::string& value = p.node->inputs[0]->name;
    readers_[value].push_back({p.node->name, layers_.size() - 1});
    inputs_.Watch(value, p.k);
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

void CalibratedWeights::EndPass(int pass) {
  inputs_.CheckFinite(pass);
  for (const std::string& value : observed_values(pass)) {
    for (const Reader& reader : readers_.at(value)) waiting_.emplace_back(value, reader);
  }
  std::reverse(waiting_.begin(), waiting_.end());
}

void CalibratedWeights::Scale(const std::string& value) {
  const std::vector<Product> products = ProductsOf(value);
  const bool shared = std::any_of(products.begin(), products.end(),
                                  [](const Product& p) { return p.value()->consumers.size() > 1; });
  InputProducts& inputs = *inputs_.Of(value);
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
  const InputProducts& inputs = *inputs_.Of(value);
  CalibratedLayer& layer = layers_[reader.layer];
  for (const Product& p : ProductsOf(value)) {
    if (p.node->name != reader.node) continue;
    BlockedWeights blocks = RoundToBlocks(p, options_.weights, inputs.Diagonal());
    BlockedWeights fed = blocks;
    layer.after = OutputError(p, inputs, blocks);
    // The weighed errors count as if they were independent. Scales of least error of the weights
    // are the better ones where that is far from true.
    BlockedWeights unweighed = RoundToBlocks(p, options_.weights);
    const double error = OutputError(p, inputs, unweighed);
    if (error < layer.after) {
      layer.after = error;
      blocks = std::move(unweighed);
    }
    if (options_.feedback) {
      if (RoundWithFeedback(p, inputs, fed)) {
        const double with_feedback = OutputError(p, inputs, fed);
        if (with_feedback < layer.after) {
          layer.after = with_feedback;
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
  if (inputs_.Of(value) == nullptr) {
    layers_[reader.layer].calibrated = false;
    layers_[reader.layer].detail = "no sample came to it";
  } else {
    const bool first = readers_.at(value).front().node == reader.node;
    if (first) Scale(value);
    Round(value, reader);
    if (readers_.at(value).back().node == reader.node) inputs_.Drop(value);
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
