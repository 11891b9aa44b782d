// Networks of a layer, a normalization that is decomposed in one of many forms, and another layer.
#pragma once

#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "base/str_cat.h"
#include "interpret/interpreter.h"
#include "quant/model.h"

namespace requant {

/// One form of a normalization. Every choice is an index into a list of names in Name().
struct Spelling {
  enum Layout { kRows, kChannels, kPlane, kImage, kBatch, kGroups, kLayouts } layout = kRows;
  enum Centre { kCentred, kPlain, kCentres } centre = kCentred;
  enum Moment {
    kPow,
    kMul,
    kSumSquare,
    kNorm,
    kSum,
    kPool,
    kDifference,
    kOnes,
    kMoments
  } moment = kPow;
  enum Root {
    kSqrtDiv,
    kReciprocal,
    kPowMinus,
    kPowHalf,
    kOneOver,
    kSwapped,
    kRoots
  } root = kSqrtDiv;
  enum Epsilon { kInside, kOutside, kMax, kClip, kNone, kEpsilons } epsilon = kInside;
  enum Affine { kBare, kScaleBias, kShifted, kScaledFirst, kAffines } affine = kBare;
  /// Reductions drop dimensions that are restored later; axes are inputs; Identity and Cast lie in
  /// between; the divisor is n - 1 instead of n.
  bool dropped = false, axes_input = false, detour = false, corrected = false;

  /// Whether the combination exists.
  bool Valid() const {
    if (moment == kPool && layout != kPlane) return false;
    if (moment == kDifference && centre == kPlain) return false;
    if (moment == kOnes && layout != kRows && layout != kGroups) return false;
    if (moment == kPool && dropped) return false;
    return affine != kShifted || (centre == kCentred && layout != kGroups);
  }

  std::string Name() const {
    constexpr const char* kLayoutNames[] = {"rows",  "channels", "plane",
                                            "image", "batch",    "groups"};
    constexpr const char* kMomentNames[] = {"pow", "mul",  "sum-square", "l2",
                                            "sum", "pool", "difference", "ones"};
    constexpr const char* kRootNames[] = {"sqrt-div", "reciprocal", "pow-minus",
                                          "pow-half", "one-over",   "swapped"};
    constexpr const char* kEpsilonNames[] = {"inside", "outside", "max", "clip", "none"};
    constexpr const char* kAffineNames[] = {"bare", "scale-bias", "shifted", "scaled-first"};
    return StrCat(kLayoutNames[layout], centre == kCentred ? " centred " : " plain ",
                  kMomentNames[moment], " ", kRootNames[root], " ", kEpsilonNames[epsilon], " ",
                  kAffineNames[affine], dropped ? " dropped" : "", axes_input ? " axes-input" : "",
                  detour ? " detour" : "", corrected ? " corrected" : "");
  }
};

/// Every `stride`-th of the valid forms; every value of each choice occurs.
inline std::vector<Spelling> Spellings(size_t stride) {
  std::vector<Spelling> out;
  size_t index = 0;
  for (int code = 0; code < int{Spelling::kLayouts} * Spelling::kCentres * Spelling::kMoments *
                                Spelling::kRoots * Spelling::kEpsilons * Spelling::kAffines * 16;
       ++code) {
    int rest = code;
    const auto next = [&rest](int count) {
      const int value = rest % count;
      rest /= count;
      return value;
    };
    Spelling s;
    s.dropped = next(2) == 1;
    s.axes_input = next(2) == 1;
    s.detour = next(2) == 1;
    s.corrected = next(2) == 1;
    s.affine = static_cast<Spelling::Affine>(next(Spelling::kAffines));
    s.epsilon = static_cast<Spelling::Epsilon>(next(Spelling::kEpsilons));
    s.root = static_cast<Spelling::Root>(next(Spelling::kRoots));
    s.moment = static_cast<Spelling::Moment>(next(Spelling::kMoments));
    s.centre = static_cast<Spelling::Centre>(next(Spelling::kCentres));
    s.layout = static_cast<Spelling::Layout>(next(Spelling::kLayouts));
    if (s.Valid() && index++ % stride == 0) out.push_back(s);
  }
  return out;
}

class SpellingWriter {
 public:
  explicit SpellingWriter(const Spelling& spelling)
      : s_(spelling), b_(spelling.axes_input ? 18 : 13) {}

  Graph Write() {
    Noise noise(7);
    const bool rows = s_.layout == Spelling::kRows;
    const Shape shape = rows ? Shape{1, 6, 16} : Shape{2, 8, 5, 5};
    Value* x = b_.Input("x", shape);
    Value* h = nullptr;
    if (rows) {
      h = b_.Op("MatMul", {x, b_.Const("w", noise.Make({16, 16}, 0.25F))}, "h");
    } else {
      Tensor weights = noise.Make({8, 8, 1, 1}, 0.35F);
      for (int64_t i = 0; i < weights.count(); ++i) {
        weights.data<float>()[i] *= std::exp2(static_cast<float>(i / 8 % 4) - 1.5F);
      }
      h = b_.Op("Conv", {x, b_.Const("w", std::move(weights))}, "h");
    }
    if (s_.layout == Spelling::kGroups) h = Reshape(h, {2, 2, -1}, "grouped");
    Value* y = Normalize(h);
    if (s_.layout == Spelling::kGroups) y = Reshape(y, {2, 8, 5, 5}, "whole");
    if (rows) {
      y = b_.Op("MatMul", {y, b_.Const("v", noise.Make({16, 8}, 0.25F))}, "y");
    } else {
      y = b_.Op("Conv", {y, b_.Const("v", noise.Make({4, 8, 1, 1}, 0.35F))}, "y");
    }
    b_.graph.AddOutput(y);
    return std::move(b_.graph);
  }

 private:
  Value* Number(float value) { return b_.Const("number", Tensor::Scalar(value)); }
  Value* Ints(const std::vector<int64_t>& values) {
    return b_.Const("ints", Tensor::Vector(values));
  }
  Value* Op(const std::string& type, std::vector<Value*> inputs, AttributeMap attributes = {}) {
    return b_.Op(type, std::move(inputs), StrCat("t", ++count_, "_", type), std::move(attributes));
  }
  Value* Reshape(Value* value, const std::vector<int64_t>& shape, const std::string& name) {
    return b_.Op("Reshape", {value, Ints(shape)}, name);
  }

  std::vector<int64_t> Axes() const {
    switch (s_.layout) {
      case Spelling::kChannels:
        return {1};
      case Spelling::kPlane:
        return {2, 3};
      case Spelling::kImage:
        return {1, 2, 3};
      case Spelling::kBatch:
        return {0, 2, 3};
      default:
        return {-1};
    }
  }
  float Count() const {
    constexpr float kCounts[] = {16, 8, 25, 200, 50, 100};
    return kCounts[s_.layout];
  }

  Value* Reduce(const char* type, Value* value) {
    AttributeMap attributes;
    if (s_.dropped) attributes.Set("keepdims", int64_t{0});
    const bool input = s_.axes_input || std::string(type) == "ReduceSum";
    if (!input) attributes.Set("axes", Axes());
    std::vector<Value*> inputs = {value};
    if (input) inputs.push_back(Ints(Axes()));
    return Op(type, std::move(inputs), std::move(attributes));
  }
  /// Restores the dimensions that the statistics dropped.
  Value* Kept(Value* value) {
    return s_.dropped && s_.moment != Spelling::kOnes ? Op("Unsqueeze", {value, Ints(Axes())})
                                                      : value;
  }
  Value* Detour(Value* value) {
    if (!s_.detour) return value;
    AttributeMap to;
    to.Set("to", int64_t{1});
    return Op("Cast", {Op("Identity", {value})}, std::move(to));
  }

  Value* Normalize(Value* h) {
    const bool centred = s_.centre == Spelling::kCentred;
    Value* mean = nullptr;
    Value* flat_mean = nullptr;
    Value* c = h;
    if (centred) {
      flat_mean =
          s_.moment == Spelling::kPool ? Op("GlobalAveragePool", {h}) : Reduce("ReduceMean", h);
      mean = s_.dropped ? Op("Unsqueeze", {flat_mean, Ints(Axes())}) : flat_mean;
      c = Detour(Op("Sub", {h, mean}));
    }
    Value* scale = Scale(h, c, flat_mean);
    const std::vector<float> none;
    Tensor g = PerChannel(1, 0.3F);
    Value* gain = b_.Const("gain", std::move(g));
    Value* shift = b_.Const("shift", PerChannel(0, 0.2F));
    if (s_.affine == Spelling::kShifted) {
      Value* factor = Op("Mul", {gain, Inverse(scale)});
      return Op("Add", {Op("Mul", {h, factor}), Op("Sub", {shift, Op("Mul", {mean, factor})})});
    }
    if (s_.affine == Spelling::kScaledFirst) c = Op("Mul", {c, gain});
    Value* y = divides_                        ? Op("Div", {c, scale})
               : s_.root == Spelling::kSwapped ? Op("Mul", {scale, c})
                                               : Op("Mul", {c, scale});
    if (s_.affine != Spelling::kScaleBias) return y;
    return Op("Add", {Detour(Op("Mul", {y, gain})), shift});
  }

  Tensor PerChannel(float base, float spread) {
    Noise noise(11);
    switch (s_.layout) {
      case Spelling::kRows:
        return noise.Make({16}, spread, base);
      case Spelling::kGroups:
        return noise.Make({1, 2, 1}, spread, base);
      default:
        return noise.Make({1, 8, 1, 1}, spread, base);
    }
  }

  Value* Inverse(Value* scale) { return divides_ ? Op("Reciprocal", {scale}) : scale; }

  /// The standard deviation to divide by (if divides_), or the factor to multiply by.
  Value* Scale(Value* h, Value* c, Value* mean) {
    const float n = Count();
    const auto squares = [this](Value* value) { return Op("Mul", {value, value}); };
    Value* variance = nullptr;
    Value* norm = nullptr;
    switch (s_.moment) {
      case Spelling::kPow:
        variance = Reduce("ReduceMean", Op("Pow", {c, Number(2)}));
        break;
      case Spelling::kMul:
        variance = Reduce("ReduceMean", squares(c));
        break;
      case Spelling::kSumSquare:
        variance = Op("Mul", {Reduce("ReduceSumSquare", c), Number(1 / n)});
        break;
      case Spelling::kNorm:
        norm = Op("Div", {Reduce("ReduceL2", c), Number(std::sqrt(n))});
        break;
      case Spelling::kSum:
        variance = Op("Div", {Reduce("ReduceSum", squares(c)), Number(n)});
        break;
      case Spelling::kPool:
        variance = Op("GlobalAveragePool", {squares(c)});
        break;
      case Spelling::kDifference:
        variance = Op("Sub", {Reduce("ReduceMean", squares(h)), squares(mean)});
        break;
      default: {
        const auto ones = static_cast<int64_t>(n);
        Tensor weights(DType::kFloat32, {ones, 1});
        for (int64_t i = 0; i < ones; ++i) weights.data<float>()[i] = 1;
        variance = Op("Mul", {Op("MatMul", {squares(c), b_.Const("ones", std::move(weights))}),
                              Number(1 / n)});
      }
    }
    if (variance && s_.corrected) variance = Op("Mul", {variance, Number(n / (n - 1))});
    const auto bounded = [this](Value* value) {
      if (s_.epsilon == Spelling::kMax) return Op("Max", {value, Number(1e-5F)});
      return s_.epsilon == Spelling::kClip ? Op("Clip", {value, Number(1e-5F)}) : value;
    };
    const bool outside = s_.epsilon == Spelling::kOutside;
    if (variance) {
      variance = bounded(variance);
      if (s_.epsilon == Spelling::kInside) variance = Op("Add", {Number(1e-5F), variance});
      if (s_.root == Spelling::kPowMinus && !outside) {
        divides_ = false;
        return Kept(Op("Pow", {Detour(variance), Number(-0.5F)}));
      }
      norm = s_.root == Spelling::kPowHalf ? Op("Pow", {variance, Number(0.5F)})
                                           : Op("Sqrt", {Detour(variance)});
    } else {
      norm = bounded(norm);
    }
    if (outside || (s_.moment == Spelling::kNorm && s_.epsilon == Spelling::kInside)) {
      norm = Op("Add", {norm, Number(1e-5F)});
    }
    norm = Kept(norm);
    divides_ = s_.root == Spelling::kSqrtDiv || s_.root == Spelling::kPowHalf;
    if (divides_) return norm;
    if (s_.root == Spelling::kPowMinus) return Op("Pow", {norm, Number(-1)});
    return s_.root == Spelling::kOneOver ? Op("Div", {Number(1), norm}) : Op("Reciprocal", {norm});
  }

  Spelling s_;
  Builder b_;
  int count_ = 0;
  bool divides_ = true;
};

/// Feeds whose rows, images and pixels have unlike magnitudes.
inline TensorMap UnevenFeeds(const Graph& graph, uint32_t seed) {
  Noise noise(seed);
  TensorMap feeds;
  for (const Value* input : graph.inputs()) {
    Tensor x = noise.Make(input->type.StaticShape());
    const int64_t last = x.dim(x.rank() - 1);
    const int64_t pixels = x.rank() == 4 ? x.dim(2) * last : last;
    for (int64_t i = 0; i < x.count(); ++i) {
      const int64_t line = x.rank() == 4 ? i % pixels + i / (x.count() / x.dim(0)) * 3 : i / last;
      x.data<float>()[i] *= std::exp2(static_cast<float>((line + seed) % 5) - 2.5F);
    }
    feeds[input->name] = std::move(x);
  }
  return feeds;
}

/// Quantizes with samples of a graph that `feeds_of(graph, seed)` makes.
template <typename Feeds>
QuantizedModel QuantizeOn(const Graph& graph, const QuantizeOptions& options, const Feeds& feeds_of,
                          int samples = 8) {
  Quantizer quantizer(FloatModel(graph), options);
  for (int pass = 0; pass < quantizer.passes(); ++pass) {
    const std::vector<std::string> wanted = quantizer.observed_values(pass);
    for (int i = 0; i < samples; ++i) {
      const TensorMap feeds = feeds_of(graph, 100 + static_cast<uint32_t>(i));
      TensorMap seen = feeds;
      InterpretOptions observe;
      observe.observe = [&](const Value& value, const Tensor& tensor) {
        seen[value.name] = tensor;
      };
      Interpret(quantizer.graph(), feeds, observe);
      for (const std::string& name : wanted) quantizer.Observe(pass, name, seen.at(name));
      quantizer.EndSample(pass);
    }
  }
  return quantizer.Finish();
}

/// Signal to noise ratio in dB on samples that calibration has not seen.
template <typename Feeds>
double SnrOn(const Graph& wanted, const Graph& got, const Feeds& feeds_of, int samples = 8) {
  double signal = 0;
  double noise = 0;
  for (int i = 0; i < samples; ++i) {
    const TensorMap feeds = feeds_of(wanted, 1000 + static_cast<uint32_t>(i));
    const std::vector<Tensor> a = Interpret(wanted, feeds);
    const std::vector<Tensor> b = Interpret(got, feeds);
    for (size_t output = 0; output < a.size(); ++output) {
      for (int64_t j = 0; j < a[output].count(); ++j) {
        const double x = a[output].AsDouble(j);
        const double error = x - b[output].AsDouble(j);
        signal += x * x;
        noise += error * error;
      }
    }
  }
  return 10 * std::log10(signal / (noise + 1e-30));
}

}  // namespace requant
