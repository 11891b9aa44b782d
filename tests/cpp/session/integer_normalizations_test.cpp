// IntegerSoftmax and IntegerLayerNormalization: their steps give the references' bits, saved or
// not, and what integers do not hold is refused by name.
#include <gtest/gtest.h>

#include <random>
#include <string>

#include "base/error.h"
#include "base/str_cat.h"
#include "interpret/interpreter.h"
#include "ir/text.h"
#include "ops/quantized/wide.h"
#include "session/session.h"
#include "support/random_text.h"

namespace requant {
namespace {

using testing::Dims, testing::Pick;

constexpr const char* kTypes[] = {"int16", "uint16", "int8", "uint8"};

std::string Quant(std::mt19937& random, const std::string& name, const std::string& type,
                  double scale) {
  const DType dtype = DTypeFromName(type);
  const int zero = Pick(random, 0, 1) ? Pick(random, CodeMin(dtype), CodeMax(dtype)) : 0;
  return StrCat("const %", name, "s: float32[] = {", scale * (1 + 0.01 * Pick(random, 0, 90)),
                "}\nconst %", name, "z: ", type, "[] = {", zero, "}\n");
}

std::string Floats(std::mt19937& random, const std::string& name, int count) {
  std::string list;
  for (int i = 0; i < count; ++i) {
    list += StrCat(i ? ", " : "", 0.001 * Pick(random, -2000, 2000));
  }
  return StrCat("const %", name, ": float32", Dims({count}), " = {", list, "}\n");
}

std::string NormalizationCase(std::mt19937& random) {
  const std::string x = kTypes[Pick(random, 0, 3)], y = kTypes[Pick(random, 0, 3)];
  const int length = Pick(random, 0, 5) ? Pick(random, 1, 40) : Pick(random, 41, 300);
  const double x_scale = x.ends_with("16") ? 0.0005 : 0.05;
  const std::string text = StrCat("graph \"\" opset 21, ai.requant 1\ninput %x: ", x,
                                  Dims({Pick(random, 1, 3), Pick(random, 1, 5), length}), "\n") +
                           Quant(random, "x", x, x_scale);
  const char* operands = "(%x, %xs, %xz, %ys, %yz";
  if (Pick(random, 0, 1)) {
    return text + Quant(random, "y", y, y.ends_with("16") ? 1.0 / 65536 : 1.0 / 256) +
           "%y = ai.requant::IntegerSoftmax" + operands + ")\noutput %y\n";
  }
  const bool beta = Pick(random, 0, 1) == 1;
  return text + Quant(random, "y", y, y.ends_with("16") ? 0.0002 : 0.04) +
         Floats(random, "g", length) + (beta ? Floats(random, "b", length) : "") +
         "%y = ai.requant::IntegerLayerNormalization" + operands + ", %g" + (beta ? ", %b" : "") +
         StrCat(") {center = ", Pick(random, 0, 1), ", epsilon = 0.001}\noutput %y\n");
}

Tensor Codes(std::mt19937& random, const ValueType& type) {
  Tensor tensor(type.dtype, type.StaticShape());
  const int lo = CodeMin(type.dtype), hi = CodeMax(type.dtype);
  const int kind = Pick(random, 0, 3), middle = Pick(random, lo, hi - 3);
  for (int64_t i = 0; i < tensor.count(); ++i) {
    StoreCode(tensor.raw(), type.dtype, i,
              kind == 0   ? (Pick(random, 0, 1) ? lo : hi)
              : kind == 1 ? middle
              : kind == 2 ? middle + Pick(random, 0, 3)
                          : Pick(random, lo, hi));
  }
  return tensor;
}

TEST(IntegerNormalizations, StepsGiveTheReferencesBits) {
  std::mt19937 random(22);
  for (int i = 0; i < 500; ++i) {
    const std::string text = NormalizationCase(random);
    SCOPED_TRACE(text);
    const Graph graph(ParseGraph(text));
    const TensorMap feeds = {{"x", Codes(random, graph.inputs()[0]->type)}};
    const Tensor expected = Interpret(graph, feeds)[0];
    Session session(graph.Clone(), {});
    ASSERT_TRUE(session.Run(feeds)[0].SameBits(expected));
    EXPECT_EQ(session.plan()->steps[0]->kernel.find("integer_"), 0u);
    const auto saved = std::make_shared<std::vector<uint8_t>>(session.Save());
    Session loaded(SharedBytes{saved, *saved}, {});
    ASSERT_TRUE(loaded.Run(feeds)[0].SameBits(expected));
  }
}

/// A softmax over another dimension runs by the reference, over the values of that dimension.
TEST(IntegerNormalizations, SoftmaxOverAnyDimension) {
  const auto text = [](const char* shape, const char* body) {
    return StrCat("graph \"\" opset 21, ai.requant 1\ninput %x: uint8", shape,
                  "\nconst %s: float32[] = {0.02}\nconst %z: uint8[] = {0}\n"
                  "const %t: float32[] = {0.00390625}\n",
                  body, "output %y\n");
  };
  const Graph along(ParseGraph(
      text("[2, 3, 4]", "%y = ai.requant::IntegerSoftmax(%x, %s, %z, %t, %z) {axis = 1}\n")));
  const Graph turned(ParseGraph(text("[2, 3, 4]",
                                     "%p = Transpose(%x) {perm = [0, 2, 1]}\n"
                                     "%q = ai.requant::IntegerSoftmax(%p, %s, %z, %t, %z)\n"
                                     "%y = Transpose(%q) {perm = [0, 2, 1]}\n")));
  std::mt19937 random(1);
  const TensorMap feeds = {{"x", Codes(random, along.inputs()[0]->type)}};
  const Tensor expected = Interpret(turned, feeds)[0];
  EXPECT_TRUE(Interpret(along, feeds)[0].SameBits(expected));
  EXPECT_TRUE(Session(along.Clone(), {}).Run(feeds)[0].SameBits(expected));
}

TEST(IntegerNormalizations, RefusesScalesThatIntegersDoNotHold) {
  const Graph graph(ParseGraph(R"(graph "" opset 21, ai.requant 1
input %x: uint8[1, 2]
const %s: float32[] = {0.02}
const %z: uint8[] = {0}
const %t: float32[] = {0.00000001}
const %g: float32[2] = {1, 1}
%y = ai.requant::IntegerLayerNormalization(%x, %s, %z, %t, %z, %g)
output %y
)"));
  try {
    (void)Interpret(graph, {{"x", Tensor(DType::kUint8, {1, 2})}});
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidQuantization);
    EXPECT_NE(std::string(error.what()).find("rows of 2 elements"), std::string::npos);
  }
}

}  // namespace
}  // namespace requant
