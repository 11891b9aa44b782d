// QLinearMatMul of two dynamic operands gives the reference's bits: with every row, with threads,
// and saved.
#include <gtest/gtest.h>

#include <random>

#include "base/str_cat.h"
#include "interpret/interpreter.h"
#include "ir/text.h"
#include "kernels/list.h"
#include "session/session.h"
#include "support/random_text.h"
#include "support/thread_runner.h"

namespace requant {
namespace {

using testing::Dims, testing::Pick;

struct Case {
  std::string text;
  TensorMap feeds;
};

/// Broadcast batches, one matrix for all, rows of one batch; random types and zero points, codes
/// often at their ends.
Case Make(std::mt19937& random) {
  const int k = Pick(random, 1, 70), n = Pick(random, 1, 40), rows = Pick(random, 1, 40);
  std::vector<int> a = {rows, k}, b = {k, n};
  const int form = Pick(random, 0, 3);
  if (form > 0) a.insert(a.begin(), {form == 3 ? 1 : 2, 3});
  if (form > 1) b.insert(b.begin(), {2, form == 3 ? 1 : 3});
  const auto type = [&] { return std::string(Pick(random, 0, 1) == 1 ? "int8" : "uint8"); };
  const std::string a_type = type(), b_type = type(), y_type = type();
  const auto zero = [&](const std::string& of) {
    const int least = of == "int8" ? -128 : 0;
    return Pick(random, 0, 2) == 0 ? least + 128 : least + Pick(random, 0, 255);
  };
  const bool columns = Pick(random, 0, 2) == 0 && b.size() == 2;
  std::string scales, zeros;
  for (int i = 0; i < (columns ? n : 1); ++i) {
    scales += StrCat(i == 0 ? "" : ", ", "0.0", Pick(random, 10, 99));
    zeros += StrCat(i == 0 ? "" : ", ", zero(b_type));
  }
  const std::string shape = columns ? Dims({n}) : "[]";
  Case out;
  out.text = StrCat("graph \"\" opset 21\ninput %a: ", a_type, Dims(a), "\ninput %b: ", b_type,
                    Dims(b), "\nconst %s: float32[] = {0.02}\nconst %az: ", a_type, "[] = {",
                    zero(a_type), "}\nconst %bs: float32", shape, " = {", scales,
                    "}\nconst %bz: ", b_type, shape, " = {", zeros, "}\nconst %ys: float32[] = {",
                    k, ".3}\n", "const %yz: ", y_type, "[] = {", zero(y_type), "}\n",
                    "%y = QLinearMatMul(%a, %s, %az, %b, %bs, %bz, %ys, %yz)\noutput %y\n");
  const auto graph = ParseGraph(out.text);
  for (const Value* input : graph.inputs()) {
    Tensor tensor(input->type.dtype, input->type.StaticShape());
    const int ends = Pick(random, 0, 2);
    for (int64_t i = 0; i < tensor.count(); ++i) {
      const int code = ends == 0 ? Pick(random, 0, 1) * 255 : Pick(random, 0, 255);
      static_cast<uint8_t*>(tensor.raw())[i] =
          static_cast<uint8_t>(input->type.dtype == DType::kInt8 ? code - 128 : code);
    }
    out.feeds[input->name] = tensor;
  }
  return out;
}

TEST(DynamicQMatMul, GivesTheReferencesBits) {
  std::mt19937 random(26);
  testing::ThreadRunner threads(3);
  std::vector<std::string> rows = {""};
  for (const KernelInfo& row : ListKernels()) {
    if (std::string(row.family) == "conv_q8" && row.missing == nullptr) rows.push_back(row.name);
  }
  for (int i = 0; i < 120; ++i) {
    const Case test = Make(random);
    SCOPED_TRACE(test.text);
    const Graph graph(ParseGraph(test.text));
    for (const RequantizeMode mode : {RequantizeMode::kUpward, RequantizeMode::kFloat}) {
      const Tensor expected = Interpret(graph, test.feeds, {mode, {}})[0];
      SessionOptions options;
      options.plan.requantize = mode;
      const std::string& row = rows[static_cast<size_t>(i) % rows.size()];
      if (!row.empty()) options.plan.force_kernels = {{"conv_q8", row}};
      if (i % 2 == 1) options.runner = &threads;
      Session session(graph, options);
      ASSERT_TRUE(session.Run(test.feeds)[0].SameBits(expected)) << row;
      ASSERT_EQ(session.plan()->steps.size(), 1u);
      EXPECT_NE(session.plan()->steps[0]->kernel, "reference");
      const auto saved = std::make_shared<std::vector<uint8_t>>(session.Save());
      SessionOptions again;
      again.runner = options.runner;
      EXPECT_TRUE(Session(SharedBytes{saved, *saved}, again).Run(test.feeds)[0].SameBits(expected));
    }
  }
}

/// Several products that write directly into the result of a Concat.
TEST(DynamicQMatMul, WritesIntoAConcat) {
  const Graph graph(ParseGraph(R"(graph "" opset 21
input %a: uint8[3, 5, 8]
input %b: uint8[3, 8, 4]
input %c: uint8[3, 8, 6]
const %s: float32[] = {0.02}
const %z: uint8[] = {100}
const %ys: float32[] = {4.0}
%p = QLinearMatMul(%a, %s, %z, %b, %s, %z, %ys, %z)
%q = QLinearMatMul(%a, %s, %z, %c, %s, %z, %ys, %z)
%y = Concat(%p, %q) {axis = 2}
output %y
)"));
  std::mt19937 random(3);
  TensorMap feeds;
  for (const Value* input : graph.inputs()) {
    Tensor tensor(DType::kUint8, input->type.StaticShape());
    for (int64_t i = 0; i < tensor.count(); ++i) {
      tensor.data<uint8_t>()[i] = static_cast<uint8_t>(random());
    }
    feeds[input->name] = tensor;
  }
  Session session(graph, {});
  EXPECT_TRUE(session.Run(feeds)[0].SameBits(Interpret(graph, feeds)[0]));
  EXPECT_EQ(session.plan()->steps.size(), 2u);
}

}  // namespace
}  // namespace requant
