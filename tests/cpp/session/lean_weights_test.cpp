// Sessions of open shapes drop the bytes of weights that kernels have packed, and make them again
// where a shape needs them.
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <string_view>

#include "base/str_cat.h"
#include "ir/text.h"
#include "kernels/list.h"
#include "session/session.h"
#include "support/random_text.h"
#include "tensor/half.h"
#include "tensor/lean_bytes.h"

namespace requant {
namespace {

using testing::Numbers;

std::string Constant(const std::string& name, const Shape& shape, int seed) {
  std::mt19937 random(static_cast<uint32_t>(seed));
  return StrCat("const %", name, ": float32", ShapeToString(shape), " = ",
                Numbers(random, static_cast<int>(NumElements(shape)), -3, 3), "\n");
}

/// A product of rows of 64 numbers with a constant.
std::string Product() {
  return StrCat("graph \"\" opset 13\ninput %x: float32[N, 64]\n", Constant("w", {64, 48}, 1),
                "%y = MatMul(%x, %w)\noutput %y\n");
}

TensorMap Rows(int64_t rows, const Shape& rest = {64}) {
  Shape shape = {rows};
  shape.insert(shape.end(), rest.begin(), rest.end());
  Tensor x(DType::kFloat32, shape);
  for (int64_t i = 0; i < x.count(); ++i) x.data<float>()[i] = static_cast<float>(i * 7 % 11 - 5);
  return {{"x", x}};
}

const Tensor& WeightsOf(const Session& session, const char* name = "w") {
  return session.graph().FindValue(name)->constant;
}

LeanBytes* LeanOf(const Tensor& constant) {
  return constant.half() ? constant.half()->lean() : constant.lean();
}

/// Holds what a session of open shapes computes against sessions of one shape, and the bytes that
/// it can make again against those of the model.
void ExpectLean(const Graph& graph, const Shape& rest, const std::vector<const char*>& names,
                SessionOptions options = {}) {
  Session session(graph, options);
  for (const int64_t rows : {3, 1, 7, 3, 2, 9, 12, 5}) {
    const TensorMap feeds = Rows(rows, rest);
    Session one(graph, options);
    EXPECT_TRUE(session.Run(feeds)[0].SameBits(one.Run(feeds)[0])) << rows;
  }
  for (const char* name : names) {
    LeanBytes* lean = LeanOf(WeightsOf(session, name));
    ASSERT_NE(lean, nullptr) << name;
    EXPECT_TRUE(lean->dropped()) << name;
    const Tensor& given = graph.FindValue(name)->constant;
    EXPECT_TRUE(lean->Borrow().SameBits(given.half() ? *given.half() : given)) << name;
    EXPECT_TRUE(lean->dropped()) << name;
  }
}

TEST(LeanWeights, AreDroppedOncePacked) { ExpectLean(ParseGraph(Product()), {64}, {"w"}); }

TEST(LeanWeights, StayBesideTheReferenceRow) {
  const Graph graph = ParseGraph(Product());
  SessionOptions options;
  options.plan.force_kernels = {{"conv_f32", "conv_f32_scalar"}};
  Session session(graph, options);
  for (const int64_t rows : {3, 1, 7}) {
    EXPECT_TRUE(session.Run(Rows(rows))[0].SameBits(Session(graph, options).Run(Rows(rows))[0]));
  }
  EXPECT_FALSE(WeightsOf(session).lean()->dropped());
}

TEST(LeanWeights, OfGemmsAndConvolutions) {
  ExpectLean(ParseGraph(StrCat("graph \"\" opset 13\ninput %x: float32[N, 64]\n",
                               Constant("w", {37, 64}, 1), Constant("b", {37}, 2),
                               "%y = Gemm(%x, %w, %b) {transB = 1}\noutput %y\n")),
             {64}, {"w"});
  ExpectLean(ParseGraph(StrCat("graph \"\" opset 13\ninput %x: float32[N, 12, 9, 8]\n",
                               Constant("w", {21, 12, 3, 3}, 1), Constant("b", {21}, 2),
                               Constant("v", {16, 21, 1, 4}, 3),
                               "%y = Conv(%x, %w, %b) {pads = [1, 1, 1, 1]}\n%z = Conv(%y, %v) "
                               "{strides = [2, 1]}\noutput %z\n")),
             {12, 9, 8}, {"w", "v"});
}

TEST(LeanWeights, OfGroups) {
  const Graph floats = ParseGraph(StrCat("graph \"\" opset 13\ninput %x: float32[N, 12, 9, 8]\n",
                                         Constant("w", {36, 4, 5, 4}, 1),
                                         "%y = Conv(%x, %w) {group = 3}\noutput %y\n"));
  ExpectLean(floats, {12, 9, 8}, {"w"});
  Graph halves = floats.Clone();
  Value* value = halves.FindValue("w");
  Tensor half(DType::kFloat16, value->constant.shape());
  for (int64_t i = 0; i < half.count(); ++i) {
    static_cast<uint16_t*>(half.raw())[i] =
        FloatToHalf(std::as_const(value->constant).data<float>()[i]);
  }
  value->constant = Tensor::Widened(half);
  SessionOptions options;
  options.plan.halves = HalfPacking::kStay;
  ExpectLean(halves, {12, 9, 8}, {"w"}, options);
}

TEST(LeanWeights, OfSixteenBits) {
  SessionOptions options;
  options.plan.halves = HalfPacking::kStay;
  for (const DType dtype : {DType::kFloat16, DType::kBfloat16}) {
    for (const int shift : {0, 10, 15}) {
      Graph graph = ParseGraph(Product());
      Value* value = graph.FindValue("w");
      Tensor half(dtype, value->constant.shape());
      const float* floats = std::as_const(value->constant).data<float>();
      for (int64_t i = 0; i < half.count(); ++i) {
        // Small numbers are subnormal in float16; some are no multiples of others.
        const float number = floats[i] / static_cast<float>((1 << shift) + i % 3);
        static_cast<uint16_t*>(half.raw())[i] =
            dtype == DType::kFloat16 ? FloatToHalf(number) : FloatToBfloat(number);
      }
      value->constant = Tensor::Widened(half);
      ExpectLean(graph, {64}, {"w"}, options);
    }
  }
}

TEST(LeanWeights, OfBlocks) {
  constexpr int kColumns = 301, kBlock = 32, kBlocks = 4;
  for (const int bits : {4, 8}) {
    for (const bool zeros : {false, true}) {
      std::mt19937 random(static_cast<uint32_t>(bits));
      const auto bytes = [&](const char* name, const Shape& shape) {
        return StrCat("const %", name, ": uint8", ShapeToString(shape), " = ",
                      Numbers(random, static_cast<int>(NumElements(shape)), 0, 255), "\n");
      };
      const std::string text = StrCat(
          "graph \"\" opset 13, com.microsoft 1\ninput %x: float32[N, 128]\n",
          bytes("codes", {kColumns, kBlocks, kBlock * bits / 8}),
          Constant("scales", {kColumns * kBlocks}, 2),
          bytes("zeros", {kColumns * (kBlocks * bits / 8)}),
          "%y = com.microsoft::MatMulNBits(%x, %codes, %scales", zeros ? ", %zeros" : "",
          ") {K = 128, N = ", kColumns, ", bits = ", bits, ", block_size = 32}\noutput %y\n");
      const Graph graph = ParseGraph(text);
      ExpectLean(graph, {128}, {"codes", "scales"});
    }
  }
}

/// The codes of rows of 64 numbers, and a product of theirs with constant codes.
std::string Codes(const char* product, const std::string& constants) {
  return StrCat("graph \"\" opset 13, com.microsoft 1\ninput %x: float32[N, 64]\n", constants,
                "const %s: float32[] = {0.05}\nconst %z: uint8[] = {17}\n"
                "const %t: float32[] = {0.8}\nconst %u: uint8[] = {120}\n"
                "%q = QuantizeLinear(%x, %s, %z)\n",
                product, "\noutput %y\n");
}

std::string Bytes(const char* name, const char* type, const Shape& shape, int least, int most) {
  std::mt19937 random(static_cast<uint32_t>(most));
  return StrCat("const %", name, ": ", type, ShapeToString(shape), " = ",
                Numbers(random, static_cast<int>(NumElements(shape)), least, most), "\n");
}

TEST(LeanWeights, OfProductsOfCodes) {
  const std::string scales = "const %a: float32[] = {0.01}\nconst %b: int8[] = {0}\n";
  const std::string zeros = "const %b: uint8[] = {131}\nconst %a: float32[] = {0.01}\n";
  const char* integer = "%y = MatMulInteger(%q, %w, %z, %b)";
  const char* linear = "%y = QLinearMatMul(%q, %s, %z, %w, %a, %b, %t, %u)";
  const char* gemm = "%y = com.microsoft::QGemm(%q, %s, %z, %w, %a, %b, _, %t, %u) {transB = 1}";
  for (const char* product : {integer, linear}) {
    ExpectLean(ParseGraph(Codes(product, scales + Bytes("w", "int8", {64, 75}, -128, 127))), {64},
               {"w"});
    ExpectLean(ParseGraph(Codes(product, scales + Bytes("w", "int8", {64, 80}, -63, 63))), {64},
               {"w"});
    ExpectLean(ParseGraph(Codes(product, zeros + Bytes("w", "uint8", {64, 75}, 0, 255))), {64},
               {"w"});
  }
  ExpectLean(ParseGraph(Codes(gemm, zeros + Bytes("w", "uint8", {75, 64}, 0, 255))), {64}, {"w"});
}

TEST(LeanWeights, OfConvolutionsOfCodes) {
  for (const auto& [type, groups] :
       {std::pair{"int8", 1}, std::pair{"uint8", 1}, std::pair{"int8", 3}, std::pair{"uint8", 2}}) {
    const bool is_signed = type[0] == 'i';
    const std::string text = StrCat(
        "graph \"\" opset 13\ninput %x: uint8[N, 12, 9, 8]\n",
        Bytes("w", type, {groups == 1 ? 21 : 96, 12 / groups, 5, 4}, is_signed ? -128 : 0,
              is_signed ? 127 : 255),
        "const %s: float32[] = {0.05}\nconst %z: uint8[] = {17}\nconst %a: float32[] = "
        "{0.01}\nconst %b: ",
        type, "[] = {", is_signed ? 0 : 99,
        "}\nconst %t: float32[] = {0.8}\nconst %u: uint8[] = {120}\n",
        "%y = QLinearConv(%x, %s, %z, %w, %a, %b, %t, %u) {strides = [2, 1], group = ", groups,
        "}\n%v = ConvInteger(%x, %w, %z, %b) {pads = [1, 1, 1, 1], group = ", groups,
        "}\noutput %y\noutput %v\n");
    const Graph graph = ParseGraph(text);
    Session session(graph, {});
    for (const int64_t images : {3, 1, 7, 2}) {
      Tensor x(DType::kUint8, {images, 12, 9, 8});
      for (int64_t i = 0; i < x.count(); ++i) x.data<uint8_t>()[i] = static_cast<uint8_t>(i * 37);
      const auto got = session.Run({{"x", x}}), wanted = Session(graph, {}).Run({{"x", x}});
      EXPECT_TRUE(got[0].SameBits(wanted[0]) && got[1].SameBits(wanted[1])) << images;
    }
    LeanBytes* lean = LeanOf(WeightsOf(session));
    ASSERT_TRUE(lean && lean->dropped());
    EXPECT_TRUE(lean->Borrow().SameBits(graph.FindValue("w")->constant));
  }
}

/// The output's scale is a number of rows.
TEST(LeanWeights, OfProductsWhoseGridFollowsTheShape) {
  const Graph graph = ParseGraph(StrCat(
      "graph \"\" opset 15\ninput %x: float32[N, 64]\n", Bytes("w", "int8", {64, 75}, -128, 127),
      "const %s: float32[] = {0.05}\nconst %z: uint8[] = {17}\nconst %a: float32[] = {0.01}\n"
      "const %b: int8[] = {0}\nconst %u: uint8[] = {120}\nconst %h: float32[] = {0.1}\n"
      "const %none: int64[0] = {}\n%q = QuantizeLinear(%x, %s, %z)\n"
      "%n = Shape(%x) {end = 1}\n%f = Cast(%n) {to = 1}\n%g = Reshape(%f, %none)\n"
      "%t = Mul(%g, %h)\n%y = QLinearMatMul(%q, %s, %z, %w, %a, %b, %t, %u)\noutput %y\n"));
  Session session(graph, {});
  std::vector<Tensor> results;
  for (const int64_t rows : {3, 2, 7, 3, 5, 9}) {
    results.push_back(session.Run(Rows(rows))[0]);
    EXPECT_TRUE(results.back().SameBits(Session(graph, {}).Run(Rows(rows))[0])) << rows;
  }
  EXPECT_NE(std::as_const(results[0]).data<uint8_t>()[0],
            std::as_const(results[2]).data<uint8_t>()[0]);
}

/// Without the row's inverse the bytes stay, and other rows than the packed one read them.
TEST(LeanWeights, OfCodesForOtherRows) {
  for (const int most : {127, 63}) {
    const Graph graph = ParseGraph(
        Codes("%y = MatMulInteger(%q, %w, %z)", Bytes("w", "int8", {64, 80}, -most - 1, most)));
    for (const KernelInfo& row : ListKernels()) {
      if (std::string_view(row.family) != "conv_q8") continue;
      SessionOptions options;
      options.plan.force_kernels = {{row.family, row.name}};
      Session session(graph, options);
      for (const int64_t rows : {3, 1, 7}) {
        EXPECT_TRUE(session.Run(Rows(rows))[0].SameBits(Session(graph, {}).Run(Rows(rows))[0]))
            << row.name;
      }
    }
  }
}

TEST(LeanWeights, AreMadeAgainForAShapeThatReadsThem) {
  const Graph graph = ParseGraph(Product());
  Session session(graph, {});
  session.Run(Rows(4));
  ASSERT_TRUE(WeightsOf(session).lean()->dropped());
  // The reference computes no rows, and reads the weights as the model has them.
  EXPECT_EQ(session.Run(Rows(0))[0].shape(), (Shape{0, 48}));
  EXPECT_FALSE(WeightsOf(session).lean()->dropped());
  EXPECT_TRUE(WeightsOf(session).SameBits(graph.FindValue("w")->constant));
  for (const int64_t rows : {1, 2, 3, 5, 6, 0, 4}) {
    EXPECT_TRUE(session.Run(Rows(rows))[0].SameBits(Session(graph, {}).Run(Rows(rows))[0])) << rows;
  }
}

TEST(LeanWeights, StayWhereAnotherOperatorReadsThem) {
  const Graph graph =
      ParseGraph(StrCat("graph \"\" opset 13\ninput %x: float32[N, 64]\ninput %i: int64[M]\n",
                        Constant("w", {64, 48}, 1),
                        "%y = MatMul(%x, %w)\n%z = Gather(%w, %i)\noutput %y\noutput %z\n"));
  Session session(graph, {});
  TensorMap feeds = Rows(3);
  feeds["i"] = Tensor::Vector(std::vector<int64_t>{5, 0, 63});
  const std::vector<Tensor> results = session.Run(feeds);
  EXPECT_EQ(WeightsOf(session).lean(), nullptr);
  EXPECT_EQ(std::as_const(results[1]).data<float>()[0],
            graph.FindValue("w")->constant.data<float>()[5 * 48]);
}

TEST(LeanWeights, OfLayersThatShareThem) {
  ExpectLean(
      ParseGraph(StrCat("graph \"\" opset 13\ninput %x: float32[N, 64]\n",
                        Constant("w", {64, 64}, 1), Constant("a", {64}, 2), Constant("b", {64}, 3),
                        "%y = Gemm(%x, %w, %a)\n%z = Gemm(%y, %w, %b)\noutput %z\n")),
      {64}, {"w"});
}

TEST(LeanWeights, AreSavedAndSharedWithStates) {
  const Graph graph = ParseGraph(Product());
  Session session(graph, {});
  const Tensor wanted = session.Run(Rows(4))[0];
  const auto bytes = std::make_shared<std::vector<uint8_t>>(session.Save());
  EXPECT_TRUE(Session(SharedBytes{bytes, *bytes}, {}).Run(Rows(4))[0].SameBits(wanted));
  const std::unique_ptr<Session> other = session.WithState({});
  EXPECT_TRUE(other->Run(Rows(4))[0].SameBits(wanted));
  EXPECT_TRUE(WeightsOf(*other).lean()->dropped());
}

TEST(LeanWeights, ThatNobodyCanMakeAreAnError) {
  const Tensor tensor = Tensor::Lean(Tensor::Vector(std::vector<float>{1, 2}));
  tensor.lean()->Drop(nullptr, 0);
  EXPECT_THROW(tensor.data<float>(), Error);
  EXPECT_THROW(tensor.raw(), Error);
}

TEST(LeanWeights, ThatWereReadStay) {
  const Tensor tensor = Tensor::Lean(Tensor::Vector(std::vector<float>{1, 2}));
  const Tensor copy = tensor;
  const void* address = copy.raw();
  tensor.lean()->Drop(nullptr, 0);
  EXPECT_FALSE(tensor.lean()->dropped());
  EXPECT_EQ(tensor.raw(), address);
  EXPECT_TRUE(tensor.Holds(address));
  EXPECT_TRUE(tensor.SharesBytes(copy));
}

}  // namespace
}  // namespace requant
