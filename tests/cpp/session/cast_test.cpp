// Cast to float32 in sessions against the interpreter.
#include <gtest/gtest.h>

#include <random>

#include "base/str_cat.h"
#include "ir/text.h"
#include "session/session.h"

namespace requant {
namespace {

TEST(Cast, BytesAndIntegersToFloats) {
  std::mt19937 random(17);
  for (const DType dtype : {DType::kUint8, DType::kInt8, DType::kBool, DType::kInt32}) {
    for (const int64_t count : {1, 3, 4, 5, 63, 64, 300}) {
      const Graph graph = ParseGraph(StrCat("graph \"g\" opset 13\ninput %x: ", DTypeName(dtype),
                                            "[", count, "]\n%y = Cast(%x) {to = 1}\noutput %y\n"));
      Tensor x(dtype, {count});
      auto* bytes = static_cast<uint8_t*>(x.raw());
      for (size_t i = 0; i < x.bytes(); ++i) {
        bytes[i] = static_cast<uint8_t>(random()) & (dtype == DType::kBool ? 1U : 255U);
      }
      Session session(graph, {});
      const Tensor y = session.Run({{"x", x}})[0];
      EXPECT_EQ(session.plan()->steps[0]->kernel, std::string("simd128"));
      EXPECT_TRUE(y.SameBits(Interpret(graph, {{"x", x}})[0])) << DTypeName(dtype) << count;
    }
  }
}

}  // namespace
}  // namespace requant
