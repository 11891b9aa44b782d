// Networks of attention with masks of many forms.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "base/str_cat.h"
#include "quant/graph/normalization_spellings.h"
#include "quant/model.h"

namespace requant {

inline constexpr int64_t kTokens = 6;
inline constexpr int64_t kWidth = 8;
inline constexpr int64_t kHeads = 2;

/// One form of masking an attention.
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
  enum Place { kBefore, kBehind, kInQuery, kPlaces } place;  // position of the scale
  enum Between { kNothing, kClamp, kReshape, kSecond, kBias, kBetweens } between;
  enum Reader { kSoftmax, kLogSoftmax, kParts, kReaders } reader;
  bool heads;  // two heads, as exporters write them
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
                  int{between}, ", reader ", int{reader}, heads ? ", heads" : "",
                  causal ? ", causal, " : ", padding, ", value);
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
    if (m_.heads) q = Heads(q, {0, 2, 1, 3});
    if (m_.heads) v = Heads(v, {0, 2, 1, 3});
    Value* turned = m_.heads ? Heads(k, {0, 2, 3, 1}) : Transpose(k, {0, 2, 1});
    if (m_.place == Masking::kInQuery) q = Op("Mul", {q, Number(0.5F)});
    Value* s = Op("MatMul", {q, turned});
    if (m_.place == Masking::kBefore) s = Op("Mul", {s, Number(0.5F)});
    s = Mask(s);
    if (m_.place == Masking::kBehind) s = Op("Div", {s, Number(2)});
    if (m_.between == Masking::kClamp) {
      s = Op("Max", {s, Number(std::numeric_limits<float>::lowest())});
    }
    const int64_t groups = m_.heads ? kHeads : 1;
    if (m_.between == Masking::kReshape) s = Reshape(s, {1, 2 * groups, kTokens, kTokens});
    if (m_.between == Masking::kSecond) {
      s = Op("Add", {s, b_.Const("again", Causal(std::max(m_.value, -1e9F)))});
    }
    if (m_.between == Masking::kBias) {
      s = Op("Add", {s, b_.Const("near", noise.Make({kTokens, kTokens}, 0.3F))});
    }
    Value* p = Softmax(s);
    if (m_.between == Masking::kReshape) {
      p = m_.heads ? Reshape(p, {2, kHeads, kTokens, kTokens}) : Reshape(p, {2, kTokens, kTokens});
    }
    Value* mixed = Op("MatMul", {p, v});
    if (m_.heads) mixed = Reshape(Transpose(mixed, {0, 2, 1, 3}), {2, kTokens, kWidth});
    b_.graph.AddOutput(layer(mixed, "y", 0.7F));
    return std::move(b_.graph);
  }

  /// Whether a position is hidden: later positions for causal masks, else the last two of every
  /// row.
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
  Value* Transpose(Value* value, const std::vector<int64_t>& perm) {
    AttributeMap attributes;
    attributes.Set("perm", perm);
    return Op("Transpose", {value}, std::move(attributes));
  }
  Value* Heads(Value* value, const std::vector<int64_t>& perm) {
    return Transpose(Reshape(value, {2, kTokens, kHeads, kWidth / kHeads}), perm);
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

  /// A condition that is true for hidden positions.
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

  /// A mask with 0 for visible positions and the mask's value for hidden ones.
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
      case Masking::kMax: {  // at least -8, and then the hidden positions
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

inline TensorMap MaskFeeds(const Masking& masking, const Graph& graph, uint32_t seed) {
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
      } else if (shape[1] == 1) {  // the last visible position
        mask.data<int64_t>()[i] = masking.causal ? i : kTokens - 3;
      } else {
        mask.data<int64_t>()[i] = !hidden;
      }
    }
    feeds[input->name] = std::move(mask);
  }
  return feeds;
}

/// Every `stride`-th of the valid forms.
inline std::vector<Masking> Maskings(size_t stride) {
  const float values[] = {-100,
                          -10000,
                          -65504,
                          -1e9F,
                          std::numeric_limits<float>::lowest(),
                          -std::numeric_limits<float>::infinity()};
  std::vector<Masking> out;
  size_t index = 0;
  for (int code = 0; code < int{Masking::kSources} * Masking::kWays * Masking::kPlaces *
                                Masking::kBetweens * Masking::kReaders * 24;
       ++code) {
    int rest = code;
    const auto next = [&rest](int count) {
      const int value = rest % count;
      rest /= count;
      return value;
    };
    Masking m{};
    m.causal = next(2) == 1;
    m.heads = next(2) == 1;
    m.value = values[next(6)];
    m.reader = static_cast<Masking::Reader>(next(Masking::kReaders));
    m.between = static_cast<Masking::Between>(next(Masking::kBetweens));
    m.place = static_cast<Masking::Place>(next(Masking::kPlaces));
    m.way = static_cast<Masking::Way>(next(Masking::kWays));
    m.source = static_cast<Masking::Source>(next(Masking::kSources));
    if (m.Valid() && index++ % stride == 0) out.push_back(m);
  }
  return out;
}

}  // namespace requant
