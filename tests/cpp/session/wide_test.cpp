// Operators with 16-bit codes: their steps give the references' bits, divided into products of
// bytes or not, saved or not; and the references agree with a loop in double precision written
// here.
#include "ops/quantized/wide.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "base/str_cat.h"
#include "interpret/interpreter.h"
#include "ir/text.h"
#include "session/session.h"
#include "support/random_text.h"

namespace requant {
namespace {

using testing::Dims, testing::Numbers, testing::Pick;

constexpr const char* kTypes[] = {"int16", "uint16", "int8", "uint8"};

std::string AnyType(std::mt19937& random) { return kTypes[Pick(random, 0, 3)]; }
std::string WideType(std::mt19937& random) { return kTypes[Pick(random, 0, 1)]; }

/// A code of the type: often one of its ends or 0.
int Code(std::mt19937& random, const std::string& type) {
  const DType dtype = DTypeFromName(type);
  const int lo = CodeMin(dtype), hi = CodeMax(dtype);
  const int kind = Pick(random, 0, 5);
  if (kind == 0) return lo;
  if (kind == 1) return hi;
  if (kind == 2) return dtype == DType::kInt16 || dtype == DType::kInt8 ? 0 : (hi + 1) / 2;
  return Pick(random, lo, hi);
}

/// Constants `<name>s` and `<name>z`.
std::string Quant(std::mt19937& random, const std::string& name, const std::string& type,
                  double scale) {
  return StrCat("const %", name, "s: float32[] = {", scale * (1 + 0.01 * Pick(random, 0, 90)),
                "}\nconst %", name, "z: ", type, "[] = {", Code(random, type), "}\n");
}

/// A Clip, a Relu or nothing behind %v, as output %y.
std::string Tail(std::mt19937& random, const std::string& type) {
  const int form = Pick(random, 0, 2);
  if (form == 0) return "%y = Identity(%v)\noutput %y\n";
  if (form == 1) return "%y = Relu(%v)\noutput %y\n";
  int lo = Code(random, type), hi = Code(random, type);
  if (lo > hi) std::swap(lo, hi);
  return StrCat("const %lo: ", type, "[] = {", lo, "}\nconst %hi: ", type, "[] = {", hi,
                "}\n%y = Clip(%v, %lo, %hi)\noutput %y\n");
}

std::string Head() { return "graph \"\" opset 21, ai.requant 1\n"; }

/// Weights [outer, inner] with scales and zero points for one or all of `channels`.
std::string Weights(std::mt19937& random, const std::vector<int>& dims, int channels) {
  const std::string type = Pick(random, 0, 1) ? "int8" : "uint8";
  const DType dtype = DTypeFromName(type);
  int count = 1;
  for (const int dim : dims) count *= dim;
  const bool each = Pick(random, 0, 1) == 1, zeros = Pick(random, 0, 2) == 0;
  const bool ends = Pick(random, 0, 3) == 0;
  std::string scale_list, zero_list;
  for (int i = 0; i < (each ? channels : 1); ++i) {
    scale_list += StrCat(i ? ", " : "", "0.0", Pick(random, 10, 99));
    zero_list += StrCat(i ? ", " : "", zeros ? Pick(random, CodeMin(dtype), CodeMax(dtype)) : 0);
  }
  const std::string shape = each ? Dims({channels}) : "[]";
  return StrCat("const %w: ", type, Dims(dims), " = ",
                Numbers(random, count, ends ? CodeMax(dtype) : CodeMin(dtype), CodeMax(dtype)),
                "\nconst %ws: float32", shape, " = {", scale_list, "}\nconst %wz: ", type, shape,
                " = {", zero_list, "}\n");
}

std::string ConvCase(std::mt19937& random) {
  const bool depthwise = Pick(random, 0, 1) == 1;
  const int groups = depthwise ? Pick(random, 2, 21) : Pick(random, 1, 3);
  const int depth = depthwise ? 1 : Pick(random, 1, 9);
  const int outputs = depthwise ? groups : groups * Pick(random, 1, 7);
  const int kernel = Pick(random, 1, 3), stride = Pick(random, 1, 2), pad = Pick(random, 0, 1);
  const std::string x = Pick(random, 0, 4) ? WideType(random) : AnyType(random);
  const bool real = Pick(random, 0, 5) == 0;
  const std::string y = x == "int8" || x == "uint8" ? WideType(random) : AnyType(random);
  const bool bias = Pick(random, 0, 1) == 1;
  std::string text =
      Head() + StrCat("input %x: ", x, Dims({Pick(random, 1, 2), groups * depth, 7, 9}), "\n") +
      Quant(random, "x", x, 0.001) + Weights(random, {outputs, depth, kernel, kernel}, outputs) +
      Quant(random, "y", y, 0.01 * depth * kernel * kernel);
  if (bias) {
    text += StrCat("const %b: int32", Dims({outputs}), " = ",
                   Numbers(random, outputs, -1000000, 1000000), "\n");
  }
  const std::string attributes =
      StrCat(" {group = ", groups, ", strides = ", Dims({stride, stride}),
             ", pads = ", Dims({pad, pad, pad, pad}), "}\n");
  if (real)
    return text + "%y = ai.requant::QLinearConv16(%x, %xs, %xz, %w, %ws, %wz)" + attributes +
           "output %y\n";
  return text +
         StrCat("%v = ai.requant::QLinearConv16(%x, %xs, %xz, %w, %ws, %wz, %ys, %yz",
                bias ? ", %b)" : ")", attributes) +
         Tail(random, y);
}

std::string ProductCase(std::mt19937& random) {
  const bool gemm = Pick(random, 0, 1) == 1, rows = gemm && Pick(random, 0, 1) == 1;
  const int m = Pick(random, 1, 9), k = Pick(random, 1, 40), n = Pick(random, 1, 21);
  const std::string x = WideType(random), y = AnyType(random);
  const std::vector<int> dims =
      !gemm && Pick(random, 0, 1) ? std::vector<int>{2, m, k} : std::vector<int>{m, k};
  std::string text = Head() + StrCat("input %x: ", x, Dims(dims), "\n") +
                     Quant(random, "x", x, 0.001) +
                     Weights(random, rows ? std::vector<int>{n, k} : std::vector<int>{k, n}, n) +
                     Quant(random, "y", y, 0.01 * k);
  if (!gemm) {
    return text + "%v = ai.requant::QLinearMatMul16(%x, %xs, %xz, %w, %ws, %wz, %ys, %yz)\n" +
           Tail(random, y);
  }
  text += StrCat("const %b: int32", Dims({n}), " = ", Numbers(random, n, -90000, 90000), "\n");
  return text +
         StrCat("%v = ai.requant::QGemm16(%x, %xs, %xz, %w, %ws, %wz, %b, %ys, %yz) {transB = ",
                rows ? 1 : 0, "}\n") +
         Tail(random, y);
}

std::string BinaryCase(std::mt19937& random) {
  constexpr const char* kOps[] = {"QLinearAdd16", "QLinearSub16", "QLinearMul16"};
  const std::string a = AnyType(random), b = AnyType(random), y = AnyType(random);
  const std::vector<int> full = {2, Pick(random, 1, 9), Pick(random, 1, 5), Pick(random, 1, 9)};
  const std::vector<int> others[] = {
      full, full, {}, {1, full[1], 1, 1}, {full[3]}, {full[1], 1, full[3]}};
  const std::vector<int> other = others[Pick(random, 0, 5)];
  const bool swap = Pick(random, 0, 1) == 1;
  return Head() +
         StrCat("input %a: ", a, Dims(swap ? other : full), "\ninput %b: ", b,
                Dims(swap ? full : other), "\n") +
         Quant(random, "a", a, 0.01) + Quant(random, "b", b, 0.02) + Quant(random, "y", y, 0.03) +
         StrCat("%v = ai.requant::", kOps[Pick(random, 0, 2)],
                "(%a, %as, %az, %b, %bs, %bz, %ys, %yz)\n") +
         Tail(random, y);
}

std::string RescaleCase(std::mt19937& random) {
  const std::string a = AnyType(random), b = AnyType(random), y = AnyType(random);
  const int channels = Pick(random, 1, 9);
  if (Pick(random, 0, 1)) {
    return Head() + StrCat("input %a: ", a, Dims({2, channels, 3}), "\n") +
           Quant(random, "a", a, 0.01) + Quant(random, "y", y, 0.02) +
           "%v = ai.requant::Requantize16(%a, %as, %az, %ys, %yz)\n" + Tail(random, y);
  }
  return Head() +
         StrCat("input %a: ", a, Dims({2, channels, 3, 5}), "\ninput %b: ", b,
                Dims({2, Pick(random, 1, 9), 3, 5}), "\n") +
         Quant(random, "a", a, 0.01) + Quant(random, "b", b, 0.02) + Quant(random, "y", y, 0.03) +
         "%v = ai.requant::QLinearConcat16(%ys, %yz, %a, %as, %az, %b, %bs, %bz) {axis = 1}\n" +
         Tail(random, y);
}

std::string PoolCase(std::mt19937& random) {
  const std::string x = WideType(random), y = AnyType(random);
  const int kernel = Pick(random, 1, 3), pad = Pick(random, 0, kernel - 1);
  const std::string window =
      StrCat(" {kernel_shape = ", Dims({kernel, kernel}), ", pads = ", Dims({pad, pad, pad, pad}),
             ", strides = ", Dims({Pick(random, 1, 2), Pick(random, 1, 2)}));
  const std::string text = Head() +
                           StrCat("input %x: ", x, Dims({2, Pick(random, 1, 19), 7, 5}), "\n") +
                           Quant(random, "x", x, 0.01) + Quant(random, "y", y, 0.02);
  switch (Pick(random, 0, 3)) {
    case 0:
      return text + "%v = ai.requant::MaxPool16(%x)" + window + "}\n" + Tail(random, x);
    case 1:
      return text + "%v = ai.requant::GlobalMaxPool16(%x)\n" + Tail(random, x);
    case 2:
      return text + "%v = ai.requant::QLinearGlobalAveragePool16(%x, %xs, %xz, %ys, %yz)\n" +
             Tail(random, y);
    default:
      return text + "%v = ai.requant::QLinearAveragePool16(%x, %xs, %xz, %ys, %yz)" + window +
             StrCat(", count_include_pad = ", Pick(random, 0, 1), "}\n") + Tail(random, y);
  }
}

std::string PairCase(std::mt19937& random) {
  const std::string x = WideType(random);
  return Head() + StrCat("input %r: float32", Dims({1, Pick(random, 1, 9), 3, 7}), "\n") +
         Quant(random, "x", x, 0.0001) +
         "%v = QuantizeLinear(%r, %xs, %xz)\n%q = Clip(%v)\n%y = DequantizeLinear(%q, %xs, %xz)\n"
         "output %y\n";
}

std::string MoveCase(std::mt19937& random) {
  const std::string x = WideType(random);
  constexpr const char* kMoves[] = {
      "const %p: int64[8] = {0, 0, 1, 2, 0, 0, 0, 1}\n%v = Pad(%x, %p, %xz)\n",
      "%v = Transpose(%x) {perm = [0, 2, 3, 1]}\n",
      "%v = Transpose(%x) {perm = [1, 0, 3, 2]}\n",
      "const %p: int64[2] = {0, -1}\n%v = Reshape(%x, %p)\n",
      "const %f: int64[1] = {1}\nconst %t: int64[1] = {4}\nconst %i: int64[1] = {2}\n"
      "%v = Slice(%x, %f, %t, %i)\n",
      "%v = Concat(%x, %x) {axis = 1}\n"};
  return Head() + StrCat("input %x: ", x, "[2, 5, 6, 7]\n") + Quant(random, "x", x, 0.1) +
         kMoves[Pick(random, 0, 5)] + Tail(random, x);
}

/// Two layers in a row, of which the second may be depthwise or read its codes beside another node;
/// large images take several turns of a step.
std::string ChainCase(std::mt19937& random) {
  const std::string x = WideType(random), h = WideType(random), y = AnyType(random);
  const bool large = Pick(random, 0, 9) == 0;
  const int height = large ? 67 : Pick(random, 1, 9), width = large ? 41 : Pick(random, 1, 9);
  const int channels = Pick(random, 1, 9), kernel = 2 * Pick(random, 0, 1) + 1;
  const int middle = large ? Pick(random, 17, 40) : Pick(random, 2, 19);
  const bool first_depthwise = channels > 1 && Pick(random, 0, 2) == 0;
  const bool depthwise = Pick(random, 0, 2) == 0;
  const int hidden = first_depthwise ? channels : middle;
  const int outputs = depthwise ? hidden : Pick(random, 1, 19);
  const int rim = kernel / 2;
  const auto conv = [&](const char* from, const std::string& name, const std::string& type,
                        int inputs, int outs, bool each, const std::string& to) {
    const std::vector<int> dims = {outs, each ? 1 : inputs, kernel, kernel};
    int count = 1;
    for (const int dim : dims) count *= dim;
    return StrCat("const %", name, "w: int8", Dims(dims), " = ", Numbers(random, count, -128, 127),
                  "\nconst %", name, "s: float32[] = {0.01}\nconst %", name, "z: int8[] = {",
                  Pick(random, -1, 1), "}\n", Quant(random, to, type, 0.05), "%", to, ": ", type,
                  Dims({1, outs, height, width}), " = ai.requant::QLinearConv16(%", from, ", %",
                  from, "s, %", from, "z, %", name, "w, %", name, "s, %", name, "z, %", to, "s, %",
                  to, "z) {group = ", each ? outs : 1, ", pads = ", Dims({rim, rim, rim, rim}),
                  "}\n");
  };
  std::string text = Head() + StrCat("input %x: ", x, Dims({1, channels, height, width}), "\n") +
                     Quant(random, "x", x, 0.001) +
                     conv("x", "a", h, channels, hidden, first_depthwise, "h") +
                     conv("h", "b", y, hidden, outputs, depthwise && hidden > 1, "v");
  if (Pick(random, 0, 3) == 0) text += "output %h\n";
  return text + Tail(random, y);
}

TensorMap FeedsOf(const Graph& graph, std::mt19937& random) {
  TensorMap feeds;
  const bool ends = Pick(random, 0, 2) == 0;
  for (const Value* input : graph.inputs()) {
    const DType dtype = input->type.dtype;
    Tensor tensor(dtype, input->type.StaticShape());
    for (int64_t i = 0; i < tensor.count(); ++i) {
      const int lo = CodeMin(dtype), hi = CodeMax(dtype);
      if (dtype == DType::kFloat32) {
        const int kind = Pick(random, 0, 40);
        tensor.data<float>()[i] = kind == 0 ? NAN
                                  : kind == 1
                                      ? INFINITY
                                      : 0.0001F * static_cast<float>(Pick(random, -90000, 90000));
      } else {
        StoreCode(tensor.raw(), dtype, i,
                  ends ? Pick(random, 0, 1) ? hi : lo : Pick(random, lo, hi));
      }
    }
    feeds[input->name] = tensor;
  }
  return feeds;
}

TEST(Wide, StepsGiveTheReferencesBits) {
  std::mt19937 random(16);
  std::string (*const kMakers[])(std::mt19937&) = {ConvCase, ProductCase, BinaryCase, RescaleCase,
                                                   PoolCase, PairCase,    MoveCase,   ChainCase};
  int fused = 0, planes = 0;
  for (int i = 0; i < 1600; ++i) {
    const std::string text = kMakers[static_cast<size_t>(i) % std::size(kMakers)](random);
    SCOPED_TRACE(text);
    const Graph graph(ParseGraph(text));
    const TensorMap feeds = FeedsOf(graph, random);
    const std::vector<Tensor> expected = Interpret(graph, feeds);
    const auto assert_same = [&expected](const std::vector<Tensor>& outputs) {
      ASSERT_EQ(outputs.size(), expected.size());
      for (size_t at = 0; at < outputs.size(); ++at) {
        ASSERT_TRUE(outputs[at].SameBits(expected[at])) << "output " << at;
      }
    };
    Graph divided = graph.Clone();
    RewriteWide(divided);
    ASSERT_NO_FATAL_FAILURE(assert_same(Interpret(divided, feeds)));
    Session session(divided, {});
    ASSERT_NO_FATAL_FAILURE(assert_same(session.Run(feeds)));
    for (const auto& step : session.plan()->steps) {
      EXPECT_NE(step->kernel, "reference") << step->op;
      fused += step->op.find("Integer+CombineSums16") != std::string::npos;
      planes += step->op.ends_with("+SplitBytes");
    }
    const auto saved = std::make_shared<std::vector<uint8_t>>(session.Save());
    Session loaded(SharedBytes{saved, *saved}, {});
    ASSERT_NO_FATAL_FAILURE(assert_same(loaded.Run(feeds)));
    SessionOptions threads;  // products and their sums are steps of their own
    threads.plan.threads = 2;
    Session divisible(divided, threads);
    ASSERT_NO_FATAL_FAILURE(assert_same(divisible.Run(feeds)));
  }
  EXPECT_GT(fused, 300);
  EXPECT_GT(planes, 50);
}

/// A sum that does not fit int32 is combined in float64, one whose bytes do not fit runs by the
/// reference.
TEST(Wide, NothingOverflows) {
  for (const int k : {300, 40000, 70000}) {
    const std::string text =
        StrCat(Head(), "input %x: uint16[1, ", k, "]\nconst %s: float32[] = {1.0}\n",
               "const %z: uint16[] = {0}\nconst %w: int8", Dims({k, 1}), " = {");
    std::string list;
    for (int i = 0; i < k; ++i) list += i ? ", 127" : "127";
    const Graph graph(ParseGraph(text + list +
                                 "}\nconst %wz: int8[] = {0}\nconst %ys: float32[] = {131072.0}\n" +
                                 "const %yz: uint16[] = {3}\n%y = ai.requant::QLinearMatMul16(%x, "
                                 "%s, %z, %w, %s, %wz, %ys, %yz)\n" +
                                 "output %y\n"));
    TensorMap feeds;
    Tensor x(DType::kUint16, {1, k});
    for (int i = 0; i < k; ++i) x.data<uint16_t>()[i] = 65535;
    feeds["x"] = x;
    Graph divided = graph.Clone();
    RewriteWide(divided);
    const double sum = 65535.0 * 127.0 * k;
    const double expected = std::min(65535.0, std::nearbyint(sum / 131072.0) + 3);
    EXPECT_EQ(Interpret(graph, feeds)[0].AsDouble(0), expected) << k;
    EXPECT_EQ(Session(divided, {}).Run(feeds)[0].AsDouble(0), expected) << k;
    EXPECT_EQ(divided.nodes().size(), k < 66000 ? 4u : 1u);
  }
}

/// QLinearConv16 beside a convolution in double precision.
TEST(Wide, ConvAgreesWithALoop) {
  const Graph graph(ParseGraph(StrCat(Head(), R"(input %x: int16[1, 2, 3, 4]
const %xs: float32[] = {0.001}
const %xz: int16[] = {-7}
const %w: int8[3, 2, 2, 2] = {1, -2, 3, -128, 127, 6, 7, -8, 9, 10, -11, 12, 13, 14, -15, 16, 17, -18, 19, 20, 21, -22, 23, 24}
const %ws: float32[3] = {0.01, 0.02, 0.03}
const %wz: int8[3] = {0, 0, 0}
const %ys: float32[] = {0.002}
const %yz: uint16[] = {30000}
const %b: int32[3] = {5, -600, 70000}
%y = ai.requant::QLinearConv16(%x, %xs, %xz, %w, %ws, %wz, %ys, %yz, %b)
output %y
)")));
  std::mt19937 random(5);
  const TensorMap feeds = FeedsOf(graph, random);
  const Tensor y = Interpret(graph, feeds)[0];
  const Tensor& x = feeds.at("x");
  const Tensor& w = graph.FindValue("w")->constant;
  const double bias[] = {5, -600, 70000};
  const float scales[] = {0.01F, 0.02F, 0.03F};
  for (int64_t o = 0; o < 3; ++o) {
    for (int64_t i = 0; i < 2; ++i) {
      for (int64_t j = 0; j < 3; ++j) {
        double sum = bias[o];
        for (int64_t c = 0; c < 2; ++c) {
          for (int64_t tap = 0; tap < 4; ++tap) {
            sum += (x.AsDouble((c * 3 + i + tap / 2) * 4 + j + tap % 2) + 7) *
                   w.AsDouble((o * 2 + c) * 4 + tap);
          }
        }
        const double real = sum * static_cast<double>(0.001F) * static_cast<double>(scales[o]);
        const double code = real / static_cast<double>(0.002F) + 30000;
        EXPECT_NEAR(y.AsDouble((o * 2 + i) * 3 + j), std::clamp(code, 0.0, 65535.0), 0.500001);
      }
    }
  }
}

}  // namespace
}  // namespace requant
