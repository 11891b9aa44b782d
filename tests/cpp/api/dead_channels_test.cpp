// The outputs of channels whose weights are all 0 are their biases, whatever scale a file gives
// these channels: 0, a denormal or a huge one. Neighboring channels are not affected.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <limits>

#include "api/requant.h"
#include "base/str_cat.h"

namespace requant {
namespace {

constexpr float kScales[] = {0, 1e-45F, 1e-38F, 1e-20F, 0.01F, 1e9F, 1e30F, 3e38F};
constexpr double kInScale = 0.05;
constexpr double kOutScale = 0.125;
constexpr int64_t kZero = 100;

Tensor Codes(Shape shape, int seed) {
  Tensor out(DType::kUint8, std::move(shape));
  for (int64_t i = 0; i < out.count(); ++i) {
    out.data<uint8_t>()[i] = static_cast<uint8_t>((i * 37 + seed * 11) % 251);
  }
  return out;
}

/// Weights whose channels lie along `axis`. The weights of channels in `dead` equal their zero
/// point of 3.
Tensor Weights(Shape shape, int64_t axis, const std::vector<bool>& dead) {
  Tensor out(DType::kInt8, std::move(shape));
  int64_t inner = 1;
  for (int64_t i = axis + 1; i < out.rank(); ++i) inner *= out.dim(i);
  for (int64_t i = 0; i < out.count(); ++i) {
    const auto channel = static_cast<size_t>(i / inner % out.dim(axis));
    out.data<int8_t>()[i] = static_cast<int8_t>(dead[channel] ? 3 : (i * 29) % 47 - 20);
  }
  return out;
}

std::string List(const Tensor& tensor) {
  std::string out;
  for (int64_t i = 0; i < tensor.count(); ++i) {
    out += StrCat(i > 0 ? ", " : "", tensor.AsInt64(i));
  }
  return out;
}
std::string Sizes(const Shape& shape) {
  std::string out;
  for (const int64_t dim : shape) out += StrCat(out.empty() ? "" : ", ", dim);
  return out;
}

/// An operator with `channels` outputs; its constants are in the order of its inputs.
struct Operator {
  const char* name;
  Shape x, w;
  int64_t axis;  // channel axis of the weights
  int64_t out_axis;
  const char* line;  // %y = ...
};

constexpr int64_t kChannels = 4;
const std::vector<Operator>& Operators() {
  static const std::vector<Operator> all = {
      {"conv",
       {1, 3, 5, 5},
       {kChannels, 3, 3, 3},
       0,
       1,
       "QLinearConv(%x, %xs, %xz, %w, %ws, %wz, %ys, %yz, %b)"},
      {"depthwise",
       {1, kChannels, 6, 6},
       {kChannels, 1, 3, 3},
       0,
       1,
       "QLinearConv(%x, %xs, %xz, %w, %ws, %wz, %ys, %yz, %b) {group = 4}"},
      {"transposed",
       {1, 3, 4, 4},
       {3, kChannels, 2, 2},
       1,
       1,
       "ai.requant::QLinearConvTranspose(%x, %xs, %xz, %w, %ws, %wz, %ys, %yz, %b) {strides = [2, "
       "2]}"},
      {"matmul",
       {5, 6},
       {6, kChannels},
       1,
       1,
       "QLinearMatMul(%x, %xs, %xz, %w, %ws, %wz, %ys, %yz)"},
      {"gemm",
       {5, 6},
       {6, kChannels},
       1,
       1,
       "com.microsoft::QGemm(%x, %xs, %xz, %w, %ws, %wz, %b, %ys, %yz)"},
  };
  return all;
}

std::string Text(const Operator& op, const std::vector<bool>& dead,
                 const std::vector<float>& scales, const std::vector<int32_t>& bias) {
  std::string ws, wz, b;
  for (size_t i = 0; i < scales.size(); ++i) {
    ws += StrCat(i > 0 ? ", " : "", static_cast<double>(scales[i]));
    wz += i > 0 ? ", 3" : "3";
  }
  for (const int32_t number : bias) b += StrCat(b.empty() ? "" : ", ", number);
  const std::string count = scales.size() == 1 ? "" : StrCat(scales.size());
  return StrCat("graph \"\" opset 17, com.microsoft 1, ai.requant 1\ninput %x: uint8[", Sizes(op.x),
                "]\nconst %xs: float32[] = {", kInScale,
                "}\nconst %xz: uint8[] = {7}\nconst %w: int8[", Sizes(op.w), "] = {",
                List(Weights(op.w, op.axis, dead)), "}\nconst %ws: float32[", count, "] = {", ws,
                "}\nconst %wz: int8[", count, "] = {", wz, "}\nconst %ys: float32[] = {", kOutScale,
                "}\nconst %yz: uint8[] = {", kZero, "}\nconst %b: int32[4] = {", b,
                "}\n%y = ", op.line, "\noutput %y\n");
}

Tensor Compute(const std::string& text, const Tensor& x, RequantizeMode mode, bool optimize) {
  Graph graph = ParseGraph(text);
  if (optimize) RunPasses(graph, {});
  SessionOptions options;
  options.plan.requantize = mode;
  Session session(PreparedModel::AsIs(std::move(graph)), options);
  return session.Run({{"x", x}})[0];
}

int64_t ChannelOf(const Tensor& y, int64_t axis, int64_t i) {
  int64_t inner = 1;
  for (int64_t k = axis + 1; k < y.rank(); ++k) inner *= y.dim(k);
  return i / inner % y.dim(axis);
}

TEST(DeadChannels, AreTheirBiases) {
  const std::vector<bool> dead = {true, false, true, false};
  const std::vector<int32_t> bias = {0, 300, 40, -500};
  for (const Operator& op : Operators()) {
    const Tensor x = Codes(op.x, 1);
    for (const RequantizeMode mode : {RequantizeMode::kUpward, RequantizeMode::kFloat}) {
      const Tensor ordinary =
          Compute(Text(op, dead, {0.02F, 0.02F, 0.02F, 0.02F}, bias), x, mode, true);
      for (const float scale : kScales) {
        const std::string text = Text(op, dead, {scale, 0.02F, scale, 0.02F}, bias);
        for (const bool optimize : {true, false}) {
          const Tensor y = Compute(text, x, mode, optimize);
          const bool biased = op.name != std::string("matmul");
          for (int64_t i = 0; i < y.count(); ++i) {
            const int64_t channel = ChannelOf(y, op.out_axis, i);
            double wanted = ordinary.AsDouble(i);
            if (dead[static_cast<size_t>(channel)]) {
              const double real =
                  biased ? bias[static_cast<size_t>(channel)] * kInScale * double{scale} : 0;
              wanted = std::clamp(std::floor(real / kOutScale + 0.5) + kZero, 0.0, 255.0);
            }
            ASSERT_EQ(y.AsDouble(i), wanted)
                << op.name << " scale " << scale << " at " << i << (optimize ? " optimized" : "");
          }
          EXPECT_TRUE(Interpret(ParseGraph(text), {{"x", x}}, {mode, {}})[0].SameBits(y));
        }
      }
    }
  }
}

/// All weights are 0 and have one scale.
TEST(DeadChannels, AllOfThem) {
  const std::vector<bool> dead(kChannels, true);
  for (const Operator& op : Operators()) {
    const Tensor x = Codes(op.x, 2);
    for (const RequantizeMode mode : {RequantizeMode::kUpward, RequantizeMode::kFloat}) {
      for (const float scale : kScales) {
        const Tensor y = Compute(Text(op, dead, {scale}, {0, 0, 0, 0}), x, mode, true);
        for (int64_t i = 0; i < y.count(); ++i) ASSERT_EQ(y.AsInt64(i), kZero) << op.name << scale;
      }
    }
  }
}

/// The operators between QuantizeLinear and DequantizeLinear, with a bias in float and one in
/// integers of an ordinary scale.
TEST(DeadChannels, InQdqFiles) {
  const char* body[] = {"%c = Conv(%xr, %wr, %br) {pads = [1, 1, 1, 1]}",
                        "%c = Conv(%xr, %wr, %br) {group = 4}",
                        "%c = ConvTranspose(%xr, %wr, %br)"};
  const Shape xs[] = {{1, 4, 5, 5}, {1, 4, 5, 5}, {1, 4, 5, 5}};
  const Shape ws[] = {{4, 4, 3, 3}, {4, 1, 3, 3}, {4, 4, 2, 2}};
  const std::vector<bool> dead = {true, false, true, false};
  const double bias[] = {1.5, -2.25, -3, 0.75};
  for (size_t i = 0; i < 3; ++i) {
    const int64_t axis = i == 2 ? 1 : 0;
    for (const float scale : kScales) {
      for (const bool quantized_bias : {false, true}) {
        const std::string number = StrCat(static_cast<double>(scale));
        const std::string text = StrCat(
            "graph \"\" opset 17\ninput %x: float32[", Sizes(xs[i]),
            "]\nconst %xs: float32[] = {0.0625}\nconst %xz: uint8[] = {7}\nconst %w: int8[",
            Sizes(ws[i]), "] = {", List(Weights(ws[i], axis, dead)), "}\nconst %ws: float32[4] = {",
            number, ", 0.03125, ", number,
            ", 0.03125}\nconst %wz: int8[4] = {3, 3, 3, 3}\nconst %ys: float32[] = {0.25}\n"
            "const %yz: uint8[] = {100}\n",
            quantized_bias ? "const %bq: int32[4] = {768, -1152, -1536, 384}\n"
                             "const %bs: float32[] = {0.001953125}\n%br = DequantizeLinear(%bq, "
                             "%bs)\n"
                           : "const %br: float32[4] = {1.5, -2.25, -3.0, 0.75}\n",
            "%xq = QuantizeLinear(%x, %xs, %xz)\n%xr = DequantizeLinear(%xq, %xs, %xz)\n"
            "%wr = DequantizeLinear(%w, %ws, %wz) {axis = ",
            axis, "}\n", body[i],
            "\n%cq = QuantizeLinear(%c, %ys, %yz)\n%y = DequantizeLinear(%cq, %ys, %yz)\n"
            "output %y\n");
        Tensor x(DType::kFloat32, xs[i]);
        for (int64_t k = 0; k < x.count(); ++k) {
          x.data<float>()[k] = static_cast<float>(k * 37 % 200) / 16;
        }
        const Tensor wanted = Interpret(ParseGraph(text), {{"x", x}})[0];
        Graph optimized = ParseGraph(text);
        RunPasses(optimized, {});
        Session session(PrepareForRun(std::move(optimized)), {});
        const Tensor y = session.Run({{"x", x}})[0];
        ASSERT_EQ(y.shape(), wanted.shape());
        for (int64_t k = 0; k < y.count(); ++k) {
          const auto channel = static_cast<size_t>(ChannelOf(y, 1, k));
          if (dead[channel]) {
            ASSERT_EQ(y.AsDouble(k), bias[channel]) << text;
            ASSERT_EQ(wanted.AsDouble(k), bias[channel]) << text;
          } else {
            ASSERT_NEAR(y.AsDouble(k), wanted.AsDouble(k), 0.2501) << text;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace requant
