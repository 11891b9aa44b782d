// The operators that turn the sums of an integer product into floats are part of its step, which
// gives the references' bits.
#include <gtest/gtest.h>

#include <iterator>
#include <memory>
#include <random>
#include <vector>

#include "base/str_cat.h"
#include "ir/text.h"
#include "session/session.h"
#include "support/random_text.h"
#include "support/thread_runner.h"

namespace requant {
namespace {

using testing::Numbers;
using testing::Pick;

/// The kernels to force. If one does not fit a case, the planner chooses another.
constexpr const char* kKernels[] = {"",
                                    "conv_q8_scalar",
                                    "conv_q8_vector",
                                    "conv_q8_lines",
                                    "conv_q8_dot7",
                                    "conv_q8_narrow_w",
                                    "conv_q8_lookup"};

struct Case {
  std::string text;
  std::string op;  // operators of the step, up to what follows the constants
};

/// [Relu](float(product) [* scale] [+ bias] [+ residual]), the product of an image or of rows.
Case RandomCase(std::mt19937& random) {
  const bool image = Pick(random, 0, 2) != 0;
  const int in = Pick(random, 1, 20), out = Pick(random, 1, 40);
  const int height = Pick(random, 3, 9), width = Pick(random, 3, 12);
  const auto coin = [&random] { return Pick(random, 0, 1) == 1; };
  const bool adds = coin(), first = coin(), zero = coin();
  const std::string shape = image ? StrCat("[1, ", out, ", ", height, ", ", width, "]")
                                  : StrCat("[", height, ", ", out, "]");
  const auto channels = [&](const char* name) {
    const bool one = Pick(random, 0, 3) == 0;
    std::string list = "{";
    for (int c = 0; c < (one ? 1 : out); ++c) {
      list += StrCat(c ? ", " : "", Pick(random, 1, 900), ".375");
    }
    const std::string dims = one     ? std::string()
                             : image ? StrCat("1, ", out, ", 1, 1")
                                     : StrCat(out);
    return StrCat("const %", name, ": float32[", dims, "] = ", list, "}\n");
  };
  Case made;
  made.op = image ? "ConvInteger+Cast" : "MatMulInteger+Cast";
  made.text = "graph \"\" opset 13\n";
  made.text += image ? StrCat("input %x: uint8[1, ", in, ", ", height, ", ", width, "]\n")
                     : StrCat("input %x: uint8[", height, ", ", in, "]\n");
  made.text += StrCat("input %r: float32", shape, "\nconst %z: uint8[] = {", Pick(random, 0, 255),
                      "}\n", channels("scale"), channels("bias"));
  made.text += image ? StrCat("const %w: int8[", out, ", ", in,
                              ", 3, 3] = ", Numbers(random, out * in * 9, -128, 127), "\n")
                     : StrCat("const %w: int8[", in, ", ", out,
                              "] = ", Numbers(random, out * in, -128, 127), "\n");
  made.text +=
      StrCat("%y = ", image ? "ConvInteger" : "MatMulInteger", "(%x, %w", zero ? ", %z)" : ")",
             image ? " {pads = [1, 1, 1, 1]}" : "", "\n%y0 = Cast(%y) {to = 1}\n");
  int last = 0;
  const auto then = [&](const std::string& op, const std::string& other, bool swapped) {
    const std::string own = StrCat("%y", last);
    made.text += StrCat("%y", ++last, " = ", op, "(", swapped ? other + ", " : "", own,
                        !swapped && !other.empty() ? ", " + other : "", ")\n");
    made.op += "+" + op;
  };
  if (coin()) then("Mul", "%scale", coin());
  if (coin()) then("Add", "%bias", coin());
  if (adds) then("Add", "%r", first);
  if (coin()) then("Relu", "", false);
  made.text += StrCat("output %y", last, "\n");
  return made;
}

TEST(IntegerSums, BecomeFloatsInTheProductsOwnStep) {
  std::mt19937 random(81);
  testing::ThreadRunner threads(3);
  for (int i = 0; i < 150; ++i) {
    const Case made = RandomCase(random);
    SCOPED_TRACE(made.text);
    const Graph graph(ParseGraph(made.text));
    TensorMap feeds;
    for (const Value* input : graph.inputs()) {
      Tensor tensor(input->type.dtype, input->type.StaticShape());
      for (int64_t at = 0; at < tensor.count(); ++at) {
        if (input->type.dtype == DType::kFloat32) {
          tensor.data<float>()[at] = static_cast<float>(Pick(random, -99999, 99999)) / 7;
        } else {
          tensor.data<uint8_t>()[at] = static_cast<uint8_t>(random());
        }
      }
      feeds[input->name] = std::move(tensor);
    }
    const Tensor expected = Interpret(graph, feeds)[0];
    SessionOptions options;
    if (i % 2 == 1) options.runner = &threads;
    const char* kernel = kKernels[i % std::size(kKernels)];
    if (*kernel) options.plan.force_kernels = {{"conv_q8", kernel}};
    Session session(graph, options);
    EXPECT_TRUE(session.Run(feeds)[0].SameBits(expected));
    const auto saved = std::make_shared<std::vector<uint8_t>>(session.Save());
    EXPECT_TRUE(Session({saved, *saved}, options).Run(feeds)[0].SameBits(expected));
    int products = 0;
    for (const auto& step : session.plan()->steps) {
      if (step->op == made.op) ++products;
      EXPECT_FALSE(step->op.starts_with("Cast") || step->op.starts_with("Add")) << step->op;
    }
    EXPECT_EQ(products, 1);
    options.plan.fuse = false;
    EXPECT_TRUE(Session(graph, options).Run(feeds)[0].SameBits(expected));
  }
}

}  // namespace
}  // namespace requant
