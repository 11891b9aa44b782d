// Masks that are added to scores.
#include "quant/masks.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <limits>

#include "ir/text.h"
#include "normalization_spellings.h"
#include "quant/assign.h"
#include "quant/prepare.h"
#include "quant/soi.h"
#include "quant/statistics.h"

namespace requant {
namespace {

constexpr int64_t kTokens = 6;
constexpr int64_t kWidth = 8;

/// One way to mask an attention.
struct Masking {
  enum Source {
    kConstant,
    kFolded,
    kFloatInput,
    kIntInput,
    kBoolInput,
    kComparison,
    kTrilu,
    kLog,
    kSources
  } source;
  enum Way { kAdd, kSub, kWhere, kWhereFlipped, kMax, kWays } way;
  enum Place { kBefore, kBehind, kInQuery, kPlaces } place;  // of the scale
  enum Between { kNothing, kClamp, kReshape, kSecond, kBias, kBetweens } between;
  enum Reader { kSoftmax, kLogSoftmax, kParts, kReaders } reader;
  bool causal;
  float value;

  bool Valid() const {
    const bool chosen = source == kBoolInput || source == kComparison;
    if ((way == kWhere || way == kWhereFlipped) && !chosen) return false;
    if (way == kMax && source != kConstant) return false;
    if (source == kLog && value != -std::numeric_limits<float>::infinity()) return false;
    return source != kTrilu || causal;
  }
  std::string Name() const {
    return StrCat("source ", int{source}, ", way ", int{way}, ", place ", int{place}, ", between ",
                  int{between}, ", reader ", int{reader}, causal ? ", causal, " : ", padding, ",
                  value);
  }
};

class MaskedNetwork {
 public:
  explicit MaskedNetwork(const Masking& masking)
      : m_(masking), b_(masking.source == Masking::kTrilu ? 14 : 13) {}

  Graph Write() {
    Noise noise(5);
    Value* x = b_.Input("x", {2, kTokens, kWidth});
    const auto layer = [&](Value* in, const char* name, float scale) {
      return b_.Op("MatMul", {in, b_.Const("w", noise.Make({kWidth, kWidth}, scale))}, name);
    };
    Value* q = layer(x, "q", 0.2F);
    Value* k = layer(x, "k", 0.2F);
    Value* v = layer(x, "v", 0.3F);
    AttributeMap perm;
    perm.Set("perm", std::vector<int64_t>{0, 2, 1});
    Value* turned = Op("Transpose", {k}, perm);
    if (m_.place == Masking::kInQuery) q = Op("Mul", {q, Number(0.5F)});
    Value* s = Op("MatMul", {q, turned});
    if (m_.place == Masking::kBefore) s = Op("Mul", {s, Number(0.5F)});
    s = Mask(s);
    if (m_.place == Masking::kBehind) s = Op("Div", {s, Number(2)});
    if (m_.between == Masking::kClamp) {
      s = Op("Max", {s, Number(std::numeric_limits<float>::lowest())});
    }
    if (m_.between == Masking::kReshape) s = Reshape(s, {2, 1, kTokens, kTokens});
    if (m_.between == Masking::kSecond) {
      s = Op("Add", {s, b_.Const("again", Causal(std::max(m_.value, -1e9F)))});
    }
    if (m_.between == Masking::kBias) {
      s = Op("Add", {s, b_.Const("near", noise.Make({kTokens, kTokens}, 0.3F))});
    }
    Value* p = Softmax(s);
    if (m_.between == Masking::kReshape) p = Reshape(p, {2, kTokens, kTokens});
    b_.graph.AddOutput(layer(Op("MatMul", {p, v}), "y", 0.7F));
    return std::move(b_.graph);
  }

  /// What is to be seen: later places for causal masks, else the last two of every row.
  static bool Hidden(bool causal, int64_t row, int64_t column) {
    return causal ? column > row : column >= kTokens - 2;
  }

 private:
  Value* Number(float value) { return b_.Const("number", Tensor::Scalar(value)); }
  Value* Ints(const std::vector<int64_t>& values) {
    return b_.Const("ints", Tensor::Vector(values));
  }
  Value* Op(const std::string& type, std::vector<Value*> inputs, AttributeMap attributes = {}) {
    return b_.Op(type, std::move(inputs), StrCat("t", ++count_, "_", type), std::move(attributes));
  }
  Value* Reshape(Value* value, const std::vector<int64_t>& shape) {
    return Op("Reshape", {value, Ints(shape)});
  }
  Value* Input(const char* name, DType dtype, const Shape& shape) {
    Value* value = b_.Input(name, shape);
    value->type.dtype = dtype;
    return value;
  }
  Tensor Make(float value, bool causal) {
    Tensor out(DType::kFloat32, {kTokens, kTokens});
    for (int64_t i = 0; i < out.count(); ++i) {
      out.data<float>()[i] = Hidden(causal, i / kTokens, i % kTokens) ? value : 0;
    }
    return out;
  }
  Tensor Causal(float value) { return Make(value, true); }

  /// True where something is hidden.
  Value* Condition() {
    if (m_.source == Masking::kBoolInput) return Input("mask", DType::kBool, {kTokens, kTokens});
    std::vector<int64_t> columns;
    std::vector<int64_t> rows;
    for (int64_t i = 0; i < kTokens; ++i) {
      columns.push_back(i);
      rows.push_back(m_.causal ? i : kTokens - 3);
    }
    Value* lengths = Input("mask", DType::kInt64, {kTokens, 1});
    return Op("Greater", {b_.Const("columns", Tensor::Vector(columns)), lengths});
  }

  /// 0 and the mask's value.
  Value* Additive() {
    const float value = m_.way == Masking::kSub ? -m_.value : m_.value;
    const bool finite = std::isfinite(value);
    switch (m_.source) {
      case Masking::kConstant:
        return b_.Const("mask", Make(value, m_.causal));
      case Masking::kFolded:
        return Op("Unsqueeze", {b_.Const("mask", Make(value, m_.causal)), Ints({0})});
      case Masking::kFloatInput:
        return Input("mask", DType::kFloat32, {kTokens, kTokens});
      case Masking::kTrilu: {
        AttributeMap upper;
        upper.Set("upper", int64_t{1});
        Tensor all(DType::kFloat32, {kTokens, kTokens});
        for (int64_t i = 0; i < all.count(); ++i) all.data<float>()[i] = value;
        return b_.Op("Trilu",
                     {b_.Const("all", std::move(all)), b_.Const("one", Tensor::Scalar<int64_t>(1))},
                     "mask", upper);
      }
      case Masking::kLog: {
        AttributeMap to;
        to.Set("to", int64_t{1});
        Value* seen =
            Op("Cast", {Op("Not", {Input("mask", DType::kBool, {kTokens, kTokens})})}, to);
        Value* mask = Op("Log", {seen});
        return m_.way == Masking::kSub ? Op("Neg", {mask}) : mask;
      }
      case Masking::kIntInput: {
        AttributeMap to;
        to.Set("to", int64_t{1});
        Value* seen = Op("Cast", {Input("mask", DType::kInt64, {kTokens, kTokens})}, to);
        if (finite) return Op("Mul", {Op("Sub", {Number(1), seen}), Number(value)});
        AttributeMap boolean;
        boolean.Set("to", int64_t{9});
        return Op("Where", {Op("Cast", {seen}, boolean), Number(0), Number(value)});
      }
      default:
        return Op("Where", {Condition(), Number(value), Number(0)});
    }
  }

  Value* Mask(Value* s) {
    switch (m_.way) {
      case Masking::kWhere:
        return Op("Where", {Condition(), Number(m_.value), s});
      case Masking::kWhereFlipped:
        return Op("Where", {Op("Not", {Condition()}), s, Number(m_.value)});
      case Masking::kSub:
        return Op("Sub", {s, Additive()});
      case Masking::kMax: {  // at least -8, and then what is hidden
        return Op("Add", {b_.Const("mask", Make(m_.value, m_.causal)), Op("Max", {s, Number(-8)})});
      }
      default:
        return Op("Add", {s, Additive()});
    }
  }

  Value* Softmax(Value* s) {
    AttributeMap last;
    last.Set("axis", int64_t{-1});
    if (m_.reader == Masking::kSoftmax) return Op("Softmax", {s}, last);
    if (m_.reader == Masking::kLogSoftmax) return Op("Exp", {Op("LogSoftmax", {s}, last)});
    AttributeMap axes;
    axes.Set("axes", std::vector<int64_t>{-1});
    Value* e = Op("Exp", {Op("Sub", {s, Op("ReduceMax", {s}, axes)})});
    return Op("Div", {e, Op("ReduceSum", {e, Ints({-1})})});
  }

  Masking m_;
  Builder b_;
  int count_ = 0;
};

TensorMap MaskFeeds(const Masking& masking, const Graph& graph, uint32_t seed) {
  Noise noise(seed);
  TensorMap feeds;
  for (const Value* input : graph.inputs()) {
    const Shape shape = input->type.StaticShape();
    if (input->name == "x") {
      Tensor x(DType::kFloat32, shape);
      for (int64_t i = 0; i < x.count(); ++i) x.data<float>()[i] = 1.5F * noise.Uniform();
      feeds["x"] = std::move(x);
      continue;
    }
    const DType dtype = input->type.dtype;
    Tensor mask(dtype, shape);
    for (int64_t i = 0; i < mask.count(); ++i) {
      const bool hidden = MaskedNetwork::Hidden(masking.causal, i / kTokens, i % kTokens);
      if (dtype == DType::kFloat32) {
        mask.data<float>()[i] = !hidden                        ? 0
                                : masking.way == Masking::kSub ? -masking.value
                                                               : masking.value;
      } else if (dtype == DType::kBool) {
        mask.data<bool>()[i] = hidden;
      } else if (shape[1] == 1) {  // the last place that is seen
        mask.data<int64_t>()[i] = masking.causal ? i : kTokens - 3;
      } else {
        mask.data<int64_t>()[i] = !hidden;
      }
    }
    feeds[input->name] = std::move(mask);
  }
  return feeds;
}

/// The scores keep their scale, and what is hidden has no part in the answer.
TEST(Masks, EveryMaskLeavesTheScoresTheirScale) {
  const float kValues[] = {-100,
                           -10000,
                           -65504,
                           -1e9F,
                           std::numeric_limits<float>::lowest(),
                           -std::numeric_limits<float>::infinity()};
  const size_t stride = std::getenv("REQUANT_LONG") ? 11 : 29;
  size_t index = 0;
  size_t tried = 0;
  for (int code = 0; code < int{Masking::kSources} * Masking::kWays * Masking::kPlaces *
                                Masking::kBetweens * Masking::kReaders * 12;
       ++code) {
    int rest = code;
    const auto next = [&rest](int count) {
      const int value = rest % count;
      rest /= count;
      return value;
    };
    Masking m{};
    m.causal = next(2) == 1;
    m.value = kValues[next(6)];
    m.reader = static_cast<Masking::Reader>(next(Masking::kReaders));
    m.between = static_cast<Masking::Between>(next(Masking::kBetweens));
    m.place = static_cast<Masking::Place>(next(Masking::kPlaces));
    m.way = static_cast<Masking::Way>(next(Masking::kWays));
    m.source = static_cast<Masking::Source>(next(Masking::kSources));
    if (!m.Valid() || index++ % stride != 0) continue;
    ++tried;
    const Graph graph = PrepareFloatGraph(MaskedNetwork(m).Write());
    const auto feeds = [&m](const Graph& of, uint32_t seed) { return MaskFeeds(m, of, seed); };
    const QuantizedModel model = QuantizeOn(graph, {}, feeds, 48);
    EXPECT_GT(SnrOn(graph, LowerToInteger(model), feeds), 30) << m.Name();
    EXPECT_GT(SnrOn(graph, ToQdq(model), feeds), 30) << m.Name();
  }
  EXPECT_GT(tried, 100U);
}

/// Masked places do not count for the ranges of integers behind them, where they are the least
/// code.
TEST(Masks, IntegersBehindAMaskKeepTheirScale) {
  for (const char* value : {"-inf", "-3.40282347e+38", "-10000.0"}) {
    const Graph graph = PrepareFloatGraph(ParseGraph(StrCat(R"(graph "" opset 13
input %x: float32[1, 2, 4, 4]
const %hidden: bool[1, 1, 4, 4] = {1, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0}
const %least: float32[] = {)",
                                                            value, R"(}
const %half: float32[] = {0.5}
const %w: float32[3, 2, 1, 1] = {0.5, -1.0, 1.5, 0.25, -0.75, 1.0}
%a = Where(%hidden, %least, %x) "where"
%b = Mul(%a, %half)
%c = MaxPool(%b) {kernel_shape = [2, 2], strides = [2, 2]} "pool"
%y = Conv(%c, %w) "conv"
output %y
)")));
    const QuantizedModel model = QuantizeOn(graph, {}, UnevenFeeds, 48);
    EXPECT_FALSE(model.record.operators.at("where").quantized);
    EXPECT_TRUE(model.record.operators.at("conv").quantized);
    EXPECT_GT(SnrOn(graph, LowerToInteger(model), UnevenFeeds), 35) << value;
    EXPECT_GT(SnrOn(graph, ToQdq(model), UnevenFeeds), 35) << value;
  }
}

std::string MasksOf(const std::string& text) {
  const Graph graph = PrepareFloatGraph(ParseGraph(text));
  const std::set<const Value*> soi = ShapeOrIndexValues(graph);
  std::string names;
  for (const auto& node : graph.nodes()) {
    if (FindMasks(graph, soi, FindStatistics(graph, soi)).nodes.contains(node.get())) {
      names += node->name + " ";
    }
  }
  return names;
}

TEST(Masks, Forms) {
  const std::string head = R"(graph "" opset 14
input %x: float32[2, 4, 4]
input %z: float32[2, 4, 4]
input %m: float32[2, 1, 4]
const %mask: float32[4, 4] = {0, -10000, -10000, -10000, 0, 0, -10000, -10000, 0, 0, 0, -10000, 0, 0, 0, 0}
const %far: float32[4] = {-10000, -20000, -30000, -10000}
const %near: float32[4] = {-1, -2, 1, 2}
const %shift: float32[] = {-10000}
const %gap: float32[4] = {-5000, 1, 2, 3}
const %one: float32[] = {1}
)";
  struct Form {
    const char* name;
    const char* text;
    const char* found;
  };
  const Form forms[] = {
      {"a mask of the input, behind which only a softmax is", R"(%a = Add(%x, %m) "a"
%y = Softmax(%a) "y"
)",
       "a "},
      {"GPT-2's product and difference", R"(%b = Trilu(%mask, _) "b"
%a = Mul(%x, %b) "a"
%c = Sub(%a, %mask) "c"
%y = Softmax(%c) "y"
)",
       "c "},
      {"a mask that others read the sum of", R"(%a = Add(%mask, %x) "a"
%s = Softmax(%a) "s"
%t = Relu(%a) "t"
%y = Add(%s, %t) "y"
)",
       "a "},
      {"a residual that others read, too", R"(%a = Add(%x, %z) "a"
%s = Softmax(%a) "s"
%y = Add(%s, %a) "y"
)",
       ""},
      {"a bias", R"(%a = Add(%x, %near) "a"
%y = Relu(%a) "y"
)",
       ""},
      {"a shift", R"(%a = Add(%x, %shift) "a"
%y = Relu(%a) "y"
)",
       ""},
      {"shifts by channels", R"(%a = Add(%x, %far) "a"
%y = Relu(%a) "y"
)",
       ""},
      {"numbers that are neither near nor far", R"(%a = Add(%x, %gap) "a"
%y = Relu(%a) "y"
)",
       ""},
      {"a scale in front of a softmax", R"(%a = Mul(%x, %one) "a"
%y = Softmax(%a) "y"
)",
       ""},
      {"what a mean and a softmax read", R"(%a = Add(%x, %z) "a"
%b = Relu(%a) "b"
%y = Softmax(%b) "y"
)",
       ""},
  };
  for (const Form& form : forms) {
    std::string text = head + form.text + "output %y\n";
    EXPECT_EQ(MasksOf(text), form.found) << form.name;
  }
}

}  // namespace
}  // namespace requant
