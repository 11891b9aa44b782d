// Random networks of integers, with as many channels as kernels need: layers of mixed widths
// between joins, windows and movement.
#pragma once

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "api/requant.h"
#include "base/str_cat.h"
#include "quant/model.h"
#include "support/random_graphs/dice.h"

namespace requant {

using Ints = std::vector<int64_t>;

/// Builds a network of images [N, C, H, W] from up to a dozen fragments. Each adds a value that
/// later ones can read.
class NetworkMaker {
 public:
  explicit NetworkMaker(uint64_t seed) : b_(14), noise_(static_cast<uint32_t>(seed)), dice_(seed) {}

  Graph Make() {
    const int64_t size = dice_.In(4, 14);
    Keep(b_.Input("x", {dice_.In(1, 2), Channels(), size, dice_.Chance(70) ? size : size + 3}));
    Keep(Layer(pool_[0]));
    for (int64_t left = dice_.In(3, 10); left > 0; --left) Keep(Fragment());
    b_.graph.AddOutput(dice_.Chance(40) ? Classifier(pool_.back()) : pool_.back());
    for (Value* value : pool_) {
      const bool unread = value->consumers.empty() && !b_.graph.IsOutput(value);
      if (value->producer && unread && dice_.Chance(50)) b_.graph.AddOutput(value);
    }
    DeadCode();
    return std::move(b_.graph);
  }

 private:
  int64_t Channels() {
    return dice_.Of<int64_t>({1, 3, 8, 16, 16, 24, 32, 32, 40, 64, 64, 96, dice_.In(1, 70)});
  }
  std::string Name() { return StrCat("v", next_++); }
  static const SymbolicShape& Of(const Value* value) { return *value->type.shape; }
  static int64_t Size(const Value* value, size_t axis) { return Of(value)[axis].value; }

  Value* Op(const std::string& type, std::vector<Value*> inputs,
            std::vector<AttributeMap::Entry> entries = {}) {
    AttributeMap attributes;
    for (auto& [name, value] : entries) attributes.Set(name, std::move(value));
    Value* made = b_.Op(type, std::move(inputs), Name(), std::move(attributes));
    made->type = InferNode(b_.graph, *made->producer)[0];
    return made;
  }
  Value* Const(Tensor tensor) { return b_.Const(Name(), std::move(tensor)); }
  Value* List(const Ints& values) { return Const(Tensor::Vector(values)); }

  void Keep(Value* value) {
    if (value) pool_.push_back(value);
  }
  Value* Pick() {
    if (dice_.Chance(60)) return pool_.back();
    return pool_[static_cast<size_t>(dice_.In(0, static_cast<int64_t>(pool_.size()) - 1))];
  }
  /// A value with the sizes of `like` in all dimensions but `axis` (4: in all).
  Value* PickLike(const Value* like, size_t axis) {
    std::vector<Value*> fits;
    for (Value* value : pool_) {
      bool same = true;
      for (size_t d = 0; d < 4; ++d) same = same && (d == axis || Size(value, d) == Size(like, d));
      if (same) fits.push_back(value);
    }
    return fits.empty() ? nullptr : fits[static_cast<size_t>(dice_.Next() % fits.size())];
  }

  Value* Activation(Value* x) {
    if (dice_.Chance(50)) return Op("Relu", {x});
    if (dice_.Chance(30)) {
      return Op("Clip", {x, Const(Tensor::Scalar(0.0F)), Const(Tensor::Scalar(2.0F))});
    }
    return dice_.Chance(20) ? Op(dice_.Of<std::string>({"HardSwish", "Sigmoid", "Tanh"}), {x}) : x;
  }

  Value* Conv(Value* x, int64_t rows, int64_t group, Ints kernel, int64_t stride, bool padded) {
    const int64_t inner = Size(x, 1) / group;
    const int64_t dilation = dice_.Chance(10) ? 2 : 1;
    const auto fits = [&](size_t i) {
      return (kernel[i] - 1) * dilation < Size(x, i + 2) + (padded ? kernel[i] - 1 : 0);
    };
    if (!fits(0) || !fits(1)) return nullptr;
    const Ints pads =
        padded ? Ints{kernel[0] / 2, kernel[1] / 2, (kernel[0] - 1) / 2, (kernel[1] - 1) / 2}
               : Ints{0, 0, 0, 0};
    const auto fan = static_cast<float>(inner * kernel[0] * kernel[1]);
    Value* weights = Const(noise_.Make({rows, inner, kernel[0], kernel[1]}, 1 / std::sqrt(fan)));
    std::vector<Value*> inputs = {x, weights};
    if (dice_.Chance(80)) inputs.push_back(Const(noise_.Make({rows}, 0.1F)));
    return Op("Conv", inputs,
              {{"kernel_shape", kernel},
               {"strides", Ints{stride, stride}},
               {"dilations", Ints{dilation, dilation}},
               {"pads", pads},
               {"group", group}});
  }

  Value* Layer(Value* x) {
    const int64_t channels = Size(x, 1);
    const int64_t edge = dice_.Of<int64_t>({1, 1, 3, 3, 3, 5, 2});
    const Ints kernel = dice_.Chance(85) ? Ints{edge, edge} : Ints{edge, dice_.In(1, 4)};
    const int64_t stride = dice_.Chance(25) ? 2 : 1;
    const bool padded = dice_.Chance(75);
    Value* made = nullptr;
    if (dice_.Chance(20)) {
      made = Conv(x, channels, channels, kernel, stride, padded);
    } else if (channels % 2 == 0 && dice_.Chance(15)) {
      made = Conv(x, 2 * dice_.In(1, 20), 2, kernel, stride, padded);
    } else {
      made = Conv(x, dice_.Chance(50) ? channels : Channels(), 1, kernel, stride, padded);
    }
    return made ? Activation(made) : nullptr;
  }

  Value* Residual(Value* x) {
    Value* other = PickLike(x, 4);
    Value* branch = Conv(x, Size(x, 1), 1, dice_.Chance(50) ? Ints{3, 3} : Ints{1, 1}, 1, true);
    if (branch == nullptr) return nullptr;
    return Of(branch) == Of(other) ? Activation(Op("Add", {branch, other})) : branch;
  }

  Value* Join(Value* x) {
    const auto axis = static_cast<size_t>(dice_.In(1, 3));
    Value* other = PickLike(x, axis);
    if (Size(x, axis) + Size(other, axis) > 130) return nullptr;
    return Op("Concat", {x, other}, {{"axis", static_cast<int64_t>(axis)}});
  }

  Value* Product(Value* x) {
    Value* gate = Op("GlobalAveragePool", {x});
    Value* weights = Conv(gate, Size(x, 1), 1, {1, 1}, 1, false);
    return Op("Mul", {x, Op(dice_.Of<std::string>({"Sigmoid", "HardSigmoid"}), {weights})});
  }

  Value* Pool(Value* x) {
    const int64_t edge = dice_.In(2, 3);
    if (Size(x, 2) < edge || Size(x, 3) < edge) return nullptr;
    const int64_t pad = dice_.In(0, 1);
    return Op(dice_.Of<std::string>({"MaxPool", "AveragePool"}), {x},
              {{"kernel_shape", Ints{edge, edge}},
               {"strides", Ints{dice_.In(1, 2), dice_.In(1, 2)}},
               {"pads", Ints{pad, 0, 0, pad}}});
  }

  Value* Move(Value* x) {
    const int64_t n = Size(x, 0), c = Size(x, 1), h = Size(x, 2), w = Size(x, 3);
    switch (dice_.In(0, 6)) {
      case 0: {
        const int64_t axis = dice_.In(1, 3), size = Size(x, static_cast<size_t>(axis));
        const int64_t from = dice_.In(0, size - 1);
        return Op("Slice", {x, List({from}), List({dice_.In(from + 1, size)}), List({axis})});
      }
      case 1:
        return Op("Pad", {x, List({0, 0, dice_.In(0, 2), 0, 0, 0, 0, dice_.In(0, 2)})});
      case 2:
        if (c % 2 != 0) return nullptr;
        x = Op("Reshape", {x, List({n, 2, c / 2, h, w})});
        x = Op("Transpose", {x}, {{"perm", Ints{0, 2, 1, 3, 4}}});
        return Op("Reshape", {x, List({n, c, h, w})});
      case 3:
        return Op("Transpose", {x}, {{"perm", Ints{0, 1, 3, 2}}});
      case 4:
        if (h * w > 200) return nullptr;
        return Op("Resize", {x, nullptr, Const(Tensor::Vector<float>({1, 1, 2, 2}))},
                  {{"mode", std::string("nearest")},
                   {"coordinate_transformation_mode", std::string("asymmetric")},
                   {"nearest_mode", std::string("floor")}});
      case 5:
        if (c % 4 == 0 && h * w <= 200) return Op("DepthToSpace", {x}, {{"blocksize", int64_t{2}}});
        return nullptr;
      default:
        if (h % 2 == 0 && w % 2 == 0 && c <= 32) {
          return Op("SpaceToDepth", {x}, {{"blocksize", int64_t{2}}});
        }
        return nullptr;
    }
  }

  Value* Transposed(Value* x) {
    if (Size(x, 2) * Size(x, 3) > 100) return nullptr;
    const int64_t rows = dice_.In(1, 20), edge = dice_.In(2, 3);
    const auto fan = static_cast<float>(Size(x, 1));
    return Op("ConvTranspose",
              {x, Const(noise_.Make({Size(x, 1), rows, edge, edge}, 1 / std::sqrt(fan)))},
              {{"strides", Ints{2, 2}}});
  }

  Value* Fragment() {
    Value* x = Pick();
    const int64_t ticket = dice_.In(0, 99);
    if (ticket < 40) return Layer(x);
    if (ticket < 58) return Residual(x);
    if (ticket < 68) return Join(x);
    if (ticket < 73) return Product(x);
    if (ticket < 81) return Pool(x);
    if (ticket < 95) return Move(x);
    return Transposed(x);
  }

  Value* Classifier(Value* x) {
    Value* flat = Op("Flatten", {Op("GlobalAveragePool", {x})});
    return Op("Gemm",
              {flat, Const(noise_.Make({Size(x, 1), 10}, 0.3F)), Const(noise_.Make({10}, 0.1F))});
  }

  void DeadCode() {
    const auto& nodes = b_.graph.nodes();
    for (size_t i = nodes.size(); i-- > 0;) {
      const Value* output = nodes[i]->outputs[0];
      if (output->consumers.empty() && !b_.graph.IsOutput(output)) {
        b_.graph.EraseNode(nodes[i].get());
      }
    }
    b_.graph.RemoveUnusedValues();
  }

  Builder b_;
  Noise noise_;
  Dice dice_;
  int next_ = 0;
  std::vector<Value*> pool_;
};

/// Gives every layer widths of its own, or all layers the same.
inline QuantizeOptions RandomWidths(const Graph& graph, Dice& dice) {
  const auto any = [&dice] {
    OperatorSettings settings;
    settings.weights.bits = dice.Of({8, 8, 7, 4, 4, 2, 2, 3, 5});
    settings.activations.bits = dice.Of({8, 8, 4, 4, 2, 2, 3, 6, 7});
    settings.activations.is_signed = dice.Chance(20);
    return settings;
  };
  QuantizeOptions options;
  options.recover.clear();
  options.global = any();
  if (dice.Chance(50)) return options;
  for (const auto& node : graph.nodes()) options.by_name[node->name] = any();
  return options;
}

/// Whether the graph has no float operators between integers: the last bits of floats depend on the
/// kernel.
inline bool IsAllInteger(const Graph& graph) {
  return std::all_of(graph.nodes().begin(), graph.nodes().end(), [](const auto& node) {
    if (node->Is("QuantizeLinear") || node->Is("DequantizeLinear")) return true;
    return std::none_of(node->inputs.begin(), node->inputs.end(), [](const Value* value) {
      return value && !value->is_constant() && IsFloat(value->type.dtype);
    });
  });
}

/// A network of integers, ready to run, and its feeds.
inline std::pair<PreparedModel, TensorMap> RandomIntegers(uint64_t seed, Dice& dice) {
  const Graph graph = NetworkMaker(seed).Make();
  TensorMap feeds = RandomFeeds(graph, static_cast<uint32_t>(seed));
  Calibrator calibrator(graph, RandomWidths(Calibrator(graph, {}).graph(), dice));
  for (int pass = 0; pass < calibrator.passes(); ++pass) calibrator.Add(pass, feeds);
  return {PrepareForRun(LowerToInteger(calibrator.Finish())), std::move(feeds)};
}

}  // namespace requant
