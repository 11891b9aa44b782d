#include "quant/rotate/weight_rotation.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "base/str_cat.h"
#include "quant/graph/body_scope.h"
#include "quant/graph/prepare.h"
#include "quant/rotate/hadamard.h"
#include "quant/rotate/rotation_error.h"

namespace requant {
namespace {

constexpr double kLessFolded = 0.95;  // of the error without, when it costs nothing
constexpr double kLessRunning = 0.9;  // when it costs time

/// The number with two digits behind its first one: "1.23e-4".
std::string Shown(double number) {
  if (!(number > 0)) return "0";
  int exponent = 0;
  while (number < 0.9995) {
    number *= 10;
    --exponent;
  }
  const auto hundredths = static_cast<int64_t>(std::llround(number * 100));
  std::string digits = StrCat(hundredths);
  digits.insert(digits.size() - 2, ".");
  return exponent == 0 ? digits : StrCat(digits, "e", exponent);
}

std::string Errors(double before, double after) {
  return StrCat("error ", Shown(before), " -> ", Shown(after));
}

void CheckRotation(const RotationOptions& options) {
  CheckWeightOnlyOptions(options.weights);
  if (options.size < 2 || options.size > 1024 ||
      !std::has_single_bit(static_cast<uint64_t>(options.size))) {
    Fail(ErrorCode::kInvalidArgument,
         StrCat("a rotation by blocks of ", options.size, " is not possible"),
         {.hint = "use a power of two from 2 to 1024"});
  }
}

}  // namespace

WeightRotation::WeightRotation(Graph graph, const RotationOptions& options)
    : graph_(std::move(graph)), options_(options) {
  CheckRotation(options);
  RefreshTypes(graph_);
  BodyScope scope(graph_);
  for (const Product& p : FindProducts(scope)) Add(p);
  for (Group& group : groups_) {
    const auto has = [&](const RotationRegion& region) { return region.Has(group.value); };
    const auto found = std::find_if(regions_.begin(), regions_.end(), has);
    group.region = static_cast<int>(found - regions_.begin());
    if (found != regions_.end()) continue;
    RotationRegion region = FindRotationRegion(graph_, group.value, options.size);
    if (region.why.empty()) {
      regions_.push_back(std::move(region));
    } else {
      group.region = -1;
      group.why = region.why;
    }
  }
  VisitBodies(graph_, [&](const std::string& path, const Node& node, const Node&) {
    const Tensor* weights = node.constant(1);
    if ((node.Is(Op::kMatMul) || node.Is(Op::kGemm) || IsRecurrent(node)) && weights &&
        weights->dtype() == DType::kFloat32) {
      layers_.push_back({path, "not rotated: in a body"});
    }
  });
}

void WeightRotation::Add(const Product& p) {
  if (options_.weights.matmul_nbits && !p.plain && !p.recurrent) return;  // stays float
  if (p.recurrent && p.slot == 2) return;                                 // its layer is listed
  std::string why = WhyUnseen(graph_, p);
  Value* value = p.node->inputs[0];
  const int64_t size = RotationSize(p.k, options_.size);
  if (why.empty() && SharesWeights(*p.node)) why = "other operators read its weights";
  if (why.empty() && !value->type.shape) why = "the rank of its operand is unknown";
  if (why.empty() && size < 2) why = StrCat(p.k, " rows have no power of two as a divisor");
  layers_.push_back({p.node->name, why.empty() ? "" : StrCat("not rotated: ", why)});
  if (!why.empty()) return;
  inputs_.Watch(value->name, p.k);
  auto group = std::find_if(groups_.begin(), groups_.end(),
                            [&](const Group& one) { return one.value == value; });
  if (group == groups_.end()) {
    groups_.emplace_back();
    group = groups_.end() - 1;
    group->value = value;
    group->size = size;
  }
  group->products.push_back(p);
  group->layers.push_back(layers_.size() - 1);
}

void WeightRotation::EndPass(int pass) {
  inputs_.CheckFinite(pass);
  for (const std::string& value : observed_values(pass)) {
    for (size_t i = 0; i < groups_.size(); ++i) {
      if (groups_[i].value->name == value) waiting_.push_back(i);
    }
  }
  std::reverse(waiting_.begin(), waiting_.end());
}

bool WeightRotation::Step() {
  if (waiting_.empty()) return false;
  Group& group = groups_[waiting_.back()];
  waiting_.pop_back();
  ++done_;
  if (const InputProducts* inputs = inputs_.Of(group.value->name)) {
    Measured(group, inputs);
    inputs_.Drop(group.value->name);
  }
  return true;
}

void WeightRotation::Measured(Group& group, const InputProducts* inputs) {
  group.measured = true;
  const bool feedback = options_.feedback && inputs != nullptr;
  const RotationRegion* region =
      group.region < 0 ? nullptr : &regions_[static_cast<size_t>(group.region)];
  const RotationRegion::Edit* edit =
      region ? region->ReaderOf(group.products.front().node) : nullptr;
  const Tensor* factors = edit ? edit->factors : nullptr;
  RotationTrial trial{options_.weights, feedback, nullptr, factors};
  group.before = TryRotation(group.products, inputs, trial);
  const auto measure = [&](const std::vector<double>& after) {
    Measure sums;
    for (size_t i = 0; i < after.size(); ++i) {
      sums.plain += group.before[i];
      sums.rotated += after[i];
    }
    return sums;
  };
  if (region) {
    const HadamardRotation rotation(region->size);
    trial.rotation = &rotation;
    group.after = TryRotation(group.products, inputs, trial);
    group.folded = measure(group.after);
  }
  const HadamardRotation rotation(group.size);
  trial.rotation = &rotation;
  trial.factors = nullptr;
  // Without samples the plain error must be that of the same white noise.
  if (!inputs && factors) {
    const std::vector<double> folded_before =
        std::exchange(group.before, TryRotation(group.products, inputs, {options_.weights, false}));
    group.after_running = TryRotation(group.products, inputs, trial);
    group.running = measure(group.after_running);
    group.before = folded_before;
  } else {
    group.after_running = TryRotation(group.products, inputs, trial);
    group.running = measure(group.after_running);
  }
}

void WeightRotation::RotateAtRunTime(Group& group) {
  Value* value = group.value;
  const int64_t k = group.products.front().k;
  const SymbolicShape shape = *value->type.shape;
  const std::string name = StrCat(value->name, "_rotated");
  Value*& matrix = matrices_[group.size];
  if (matrix == nullptr) {
    matrix =
        graph_.AddConstant(StrCat("rotation_", group.size), HadamardRotation(group.size).Matrix());
  }
  const ValueType type{DType::kFloat32, shape};
  Value* made = value;
  std::vector<int64_t> dims(shape.size() - 1, 0);  // 0 keeps the axis
  SymbolicShape parts = shape;
  parts.back() = Dim(k / group.size);
  parts.emplace_back(group.size);
  const auto reshape = [&](Value* from, const SymbolicShape& to, const char* suffix) {
    Value* list = graph_.AddConstant(StrCat(name, suffix), Tensor::Vector(dims));
    return graph_.AddOp("Reshape", "", {from, list}, name, {DType::kFloat32, to});
  };
  const bool whole = group.size == k;
  if (!whole) {
    dims.push_back(k / group.size);
    dims.push_back(group.size);
    made = reshape(made, parts, "_parts");
  }
  made = graph_.AddOp("MatMul", "", {made, matrix}, name, {DType::kFloat32, whole ? shape : parts},
                      {}, name);
  if (!whole) {
    dims.resize(shape.size() - 1);
    dims.push_back(k);
    made = reshape(made, shape, "_whole");
  }
  RotationRegion alone;  // of the products' weights only
  alone.size = group.size;
  for (const Product& p : group.products) {
    graph_.SetInput(p.node, 0, made);
    alone.edits.push_back({p.node, 1, RotationRegion::Edit::Kind::kReader});
  }
  RotateRegion(graph_, alone);
}

Graph WeightRotation::Finish(bool sampled) {
  std::vector<Measure> sums(regions_.size());
  for (Group& group : groups_) {
    if (!sampled) Measured(group, nullptr);
    if (group.region < 0 || !group.measured) continue;
    sums[static_cast<size_t>(group.region)].plain += group.folded.plain;
    sums[static_cast<size_t>(group.region)].rotated += group.folded.rotated;
  }
  const auto better = [this](const Measure& of, double margin) {
    return options_.always || of.rotated < margin * of.plain;
  };
  for (Group& group : groups_) {
    const bool possible = group.region >= 0;
    const auto region = static_cast<size_t>(std::max(group.region, 0));
    const bool folds = possible && better(sums[region], kLessFolded);
    const bool runs = !folds && group.measured && better(group.running, kLessRunning);
    for (size_t i = 0; i < group.layers.size(); ++i) {
      RotatedLayer& layer = layers_[group.layers[i]];
      if (group.measured) {
        layer.before = group.before[i];
        layer.after = folds ? group.after[i] : group.after_running[i];
      }
      const std::string errors = group.measured ? Errors(layer.before, layer.after) : "no sample";
      if (folds) {
        layer.detail = StrCat("rotated by ", regions_[region].size, " in the layers before, ");
      } else if (runs) {
        layer.detail = StrCat("rotated by ", group.size, " at run time, ");
      } else {
        layer.detail = "not rotated, ";
      }
      layer.detail += errors;
      if (!folds && !possible) layer.detail += StrCat(" (at run time, as ", group.why, ")");
    }
    if (runs) RotateAtRunTime(group);
  }
  for (size_t i = 0; i < regions_.size(); ++i) {
    if (better(sums[i], kLessFolded)) RotateRegion(graph_, regions_[i]);
  }
  graph_.RemoveUnusedValues();
  graph_.SortTopologically();
  return std::move(graph_);
}

Graph RotateWeights(const Graph& graph, const RotationOptions& options,
                    std::vector<RotatedLayer>& layers) {
  WeightRotation rotation(graph.Clone(), options);
  Graph out = rotation.Finish(false);
  layers.insert(layers.end(), rotation.layers().begin(), rotation.layers().end());
  return out;
}

}  // namespace requant
