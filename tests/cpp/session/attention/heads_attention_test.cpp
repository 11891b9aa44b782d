// Attention by head that is written out, as decoders with rotary embedding have it, against the
// interpreter of the graph as it is: a plan makes it one step (FuseAttention, HeadsAttention).
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "base/str_cat.h"
#include "session/programs.h"
#include "support/random_graphs/dice.h"
#include "support/thread_runner.h"

namespace requant {
namespace {

struct Written {
  int64_t batch = 1, heads = 6, kv_heads = 3, queries = 5, keys = 7, width = 4, value_width = 4;
  std::string mask = {};        // its shape, or ""
  std::string turn = "matrix";  // how keys are turned: matrix, flat
  std::string repeat = "Expand";
  double cap = 0;
  bool sinks = false;
  bool back = true;  // tokens come in front of heads again
  int opset = 17;
};

std::string Name(const Written& form) {
  return StrCat("[", form.batch, ", ", form.heads, " / ", form.kv_heads, ", ", form.queries, " / ",
                form.keys, ", ", form.width, " / ", form.value_width, "] mask ", form.mask, ", ",
                form.turn, ", ", form.repeat, ", cap ", form.cap, ", sinks ", form.sinks, ", back ",
                form.back, ", opset ", form.opset);
}

/// The repeated keys or values: `name`r.
std::string RepeatText(const Written& form, const std::string& name, int64_t width) {
  const int64_t times = form.heads / form.kv_heads;
  if (times == 1 || form.repeat.empty()) return StrCat("%", name, "r = Identity(%", name, ")\n");
  const std::string sizes = form.repeat == "Tile" ? StrCat("1, 1, ", times, ", 1, 1")
                                                  : StrCat(form.batch, ", ", form.kv_heads, ", ",
                                                           times, ", ", form.keys, ", ", width);
  return StrCat("const %", name, "s: int64[5] = {", sizes, "}\nconst %", name, "j: int64[4] = {",
                form.batch, ", ", form.heads, ", ", form.keys, ", ", width, "}\n%", name,
                "u = Unsqueeze(%", name, ", %two)\n%", name, "e = ", form.repeat, "(%", name,
                "u, %", name, "s)\n%", name, "r = Reshape(%", name, "e, %", name, "j)\n");
}

std::string TextOf(const Written& form) {
  std::string text =
      StrCat("graph \"\" opset ", form.opset, "\ninput %q: float32[", form.batch, ", ", form.heads,
             ", ", form.queries, ", ", form.width, "]\ninput %k: float32[", form.batch, ", ",
             form.kv_heads, ", ", form.keys, ", ", form.width, "]\ninput %v: float32[", form.batch,
             ", ", form.kv_heads, ", ", form.keys, ", ", form.value_width,
             "]\nconst %two: int64[1] = {2}\n", "const %scale: float32[] = {0.5}\n");
  text += RepeatText(form, "k", form.width) + RepeatText(form, "v", form.value_width);
  if (form.turn == "flat") {
    text += StrCat("const %three: int64[3] = {-1, ", form.keys, ", ", form.width,
                   "}\nconst %four: int64[4] = {", form.batch, ", ", form.heads, ", ", form.width,
                   ", ", form.keys, "}\n%kf = Reshape(%kr, %three)\n",
                   "%kg = Transpose(%kf) {perm = [0, 2, 1]}\n%kt = Reshape(%kg, %four)\n");
  } else {
    text += "%kt = Transpose(%kr) {perm = [0, 1, 3, 2]}\n";
  }
  text += "%raw = MatMul(%q, %kt)\n%s0 = Mul(%raw, %scale)\n";
  std::string scores = "s0";
  if (form.cap != 0) {
    text += StrCat("const %cap: float32[] = {", form.cap,
                   "}\n%s1 = Div(%s0, %cap)\n%s2 = Tanh(%s1)\n%s3 = Mul(%s2, %cap)\n");
    scores = "s3";
  }
  if (!form.mask.empty()) {
    text += StrCat("input %m: float32[", form.mask, "]\n%s4 = Add(%", scores, ", %m)\n");
    scores = "s4";
  }
  std::string weights = "p";
  if (form.sinks) {
    text += StrCat("const %sinks: float32[1, ", form.heads, ", 1, 1] = {");
    for (int64_t h = 0; h < form.heads; ++h) text += StrCat(h ? ", " : "", h * 7 % 5 - 2, ".25");
    text += StrCat("}\nconst %each: int64[4] = {", form.batch, ", 1, ", form.queries,
                   ", 1}\n%spread = Expand(%sinks, %each)\n%all = Concat(%", scores,
                   ", %spread) {axis = -1}\n");
    text += form.opset < 18 ? "%top = ReduceMax(%all) {axes = [-1], keepdims = 1}\n"
                            : "const %last: int64[1] = {-1}\n%top = ReduceMax(%all, %last)\n";
    text +=
        "%low = Sub(%all, %top)\n%pa = Softmax(%low) {axis = -1}\nconst %from: int64[1] = {0}\n"
        "const %to: int64[1] = {-1}\nconst %at: int64[1] = {3}\n%p = Slice(%pa, %from, %to, %at)\n";
  } else {
    text += StrCat("%p = Softmax(%", scores, ") {axis = -1}\n");
  }
  text += "%y = MatMul(%p, %vr)\n";
  if (form.back) return text + "%z = Transpose(%y) {perm = [0, 2, 1, 3]}\noutput %z\n";
  return text + "output %y\n";
}

TensorMap FeedsOf(const Graph& graph, Dice& dice) {
  TensorMap feeds;
  for (const Value* input : graph.inputs()) {
    Tensor& tensor = feeds[input->name] = Tensor(DType::kFloat32, input->type.StaticShape());
    for (int64_t i = 0; i < tensor.count(); ++i) tensor.data<float>()[i] = 3 * dice.Unit() - 1;
  }
  return feeds;
}

void ExpectNear(const Tensor& got, const Tensor& wanted) {
  ASSERT_EQ(got.shape(), wanted.shape());
  for (int64_t i = 0; i < got.count(); ++i) {
    ASSERT_NEAR(got.AsDouble(i), wanted.AsDouble(i), 1e-5 * (1 + std::fabs(wanted.AsDouble(i))))
        << "element " << i;
  }
}

std::vector<std::string> Operators(Session& session) {
  std::vector<std::string> names;
  for (const auto& step : session.plan()->steps) names.push_back(step->op);
  return names;
}

/// One step runs the form and gives the interpreter's numbers, and the same bits with threads and
/// when it is saved.
void Check(const Written& form, uint64_t seed = 1) {
  SCOPED_TRACE(Name(form));
  Dice dice(seed);
  const Graph graph(ParseGraph(TextOf(form)));
  const TensorMap feeds = FeedsOf(graph, dice);
  const std::vector<Tensor> wanted = Interpret(graph, feeds);
  Session session(graph, {});
  const std::vector<Tensor> got = session.Run(feeds);
  EXPECT_EQ(Operators(session), std::vector<std::string>{"HeadsAttention"});
  EXPECT_NE(session.plan()->steps.front()->kernel, "reference");
  ExpectNear(got[0], wanted[0]);
  ExpectSameWhenSaved(session, feeds, got);
  testing::ThreadRunner runner(3);
  SessionOptions options;
  options.runner = &runner;
  Session divided(graph, options);
  EXPECT_TRUE(divided.Run(feeds)[0].SameBits(got[0]));
}

TEST(HeadsAttention, HeadsShareKeysThatAreRepeated) {
  for (const int64_t kv_heads : {1, 2, 3, 6}) {
    for (const std::string repeat : {"Expand", "Tile"}) {
      Check({.batch = 2, .kv_heads = kv_heads, .repeat = repeat});
    }
  }
  Check({.kv_heads = 2, .queries = 1, .keys = 37});
  Check({.batch = 2, .kv_heads = 2, .queries = 1, .keys = 1});
  Check({.heads = 2, .kv_heads = 1, .queries = 150, .keys = 700});
  Check({.value_width = 3, .turn = "flat", .back = false});
  Check({.value_width = 3, .opset = 23});
}

TEST(HeadsAttention, OneHeadOfKeysIsBroadcast) {
  Check({.batch = 2, .kv_heads = 1, .repeat = ""});
  Check({.kv_heads = 1, .queries = 2, .mask = "2, 7", .repeat = ""});
}

TEST(HeadsAttention, MasksOfAllShapes) {
  for (const std::string mask : {"7", "1, 7", "5, 7", "1, 1, 7", "6, 5, 7", "2, 1, 1, 7",
                                 "1, 1, 5, 7", "2, 6, 5, 7", "1, 6, 1, 7"}) {
    Check({.batch = 2, .mask = mask});
    Check({.batch = 2, .mask = mask, .cap = 1.5});
  }
}

TEST(HeadsAttention, CapsOfScores) {
  for (const double cap : {0.5, 1.0, 50.0}) {
    Check({.cap = cap});
    Check({.kv_heads = 6, .queries = 1, .cap = cap});
    Check({.queries = 3, .keys = 19, .mask = "3, 19", .cap = cap, .opset = 23});
  }
}

TEST(HeadsAttention, SinksTakeAShareOfEveryRow) {
  Check({.sinks = true});
  Check({.batch = 2, .kv_heads = 2, .queries = 1, .keys = 37, .sinks = true});
  Check({.batch = 2, .mask = "2, 1, 5, 7", .cap = 2, .sinks = true, .opset = 18});
  Check({.heads = 2, .kv_heads = 1, .queries = 150, .keys = 700, .sinks = true, .opset = 23});
}

/// In bytes every kernel gives the same bits, near those of floats.
TEST(HeadsAttention, CapsSinksAndMasksInBytes) {
  const Written forms[] = {
      {.queries = 20, .keys = 131, .sinks = true},
      {.batch = 2, .kv_heads = 2, .queries = 33, .keys = 130, .width = 6, .mask = "33, 130"},
      {.heads = 2,
       .kv_heads = 1,
       .queries = 150,
       .keys = 200,
       .mask = "200",
       .cap = 2,
       .sinks = true},
  };
  for (const Written& form : forms) {
    SCOPED_TRACE(Name(form));
    Dice dice(3);
    const Graph graph(ParseGraph(TextOf(form)));
    const TensorMap feeds = FeedsOf(graph, dice);
    const Tensor wanted = Interpret(graph, feeds)[0];
    Tensor first;
    for (const char* row : {"conv_q8_scalar", "conv_q8_vector"}) {
      SessionOptions options;
      options.plan.int8_activations = true;
      options.plan.force_kernels = {{"conv_q8", row}};
      Session session(graph, options);
      const Tensor got = session.Run(feeds)[0];
      EXPECT_EQ(session.plan()->steps.front()->kernel, row);
      if (first.empty()) first = got.Clone();
      EXPECT_TRUE(got.SameBits(first));
    }
    double worst = 0, largest = 0;
    for (int64_t i = 0; i < wanted.count(); ++i) {
      worst = std::max(worst, std::fabs(first.AsDouble(i) - wanted.AsDouble(i)));
      largest = std::max(largest, std::fabs(wanted.AsDouble(i)));
    }
    EXPECT_LT(worst, 0.03 * largest);
  }
}

/// Heads that are repeated in another order keep their own steps, and the numbers are right.
TEST(HeadsAttention, OtherRepetitionsStay) {
  const std::string head = R"(graph "" opset 17
input %q: float32[2, 4, 3, 5]
input %k: float32[2, 2, 4, 5]
input %v: float32[2, 2, 4, 5]
const %joined: int64[4] = {2, 4, 4, 5}
const %axis: int64[1] = {2}
const %before: int64[1] = {1}
const %copies: int64[5] = {2, 2, 2, 4, 5}
const %twice: int64[4] = {1, 2, 1, 1}
)";
  const std::string tail = R"(%kt = Transpose(%kr) {perm = [0, 1, 3, 2]}
%s = MatMul(%q, %kt)
%p = Softmax(%s) {axis = -1}
%y = MatMul(%p, %vr)
output %y
)";
  const std::string keys = "%ku = Unsqueeze(%k, %axis)\n%ke = Expand(%ku, %copies)\n";
  const std::string values = "%vu = Unsqueeze(%v, %axis)\n%ve = Expand(%vu, %copies)\n";
  const std::string joined = "%vr = Reshape(%ve, %joined)\n%kr = Reshape(%ke, %joined)\n";
  const std::string repetitions[] = {
      // All heads once, then all again.
      "%kr = Tile(%k, %twice)\n%vr = Tile(%v, %twice)\n",
      "%ku = Unsqueeze(%k, %before)\n%ke = Expand(%ku, %copies)\n" + values + joined,
      keys + "%kr = Reshape(%ke, %joined)\n%vr = Tile(%v, %twice)\n",
  };
  for (const std::string& repetition : repetitions) {
    SCOPED_TRACE(repetition);
    Dice dice(7);
    const Graph graph(ParseGraph(head + repetition + tail));
    const TensorMap feeds = FeedsOf(graph, dice);
    Session session(graph, {});
    ExpectNear(session.Run(feeds)[0], Interpret(graph, feeds)[0]);
    EXPECT_GT(session.plan()->steps.size(), 1U);
  }
}

/// Sinks that differ between queries stay.
TEST(HeadsAttention, OtherSinksStay) {
  const Graph graph(ParseGraph(R"(graph "" opset 17
input %q: float32[1, 2, 2, 5]
input %k: float32[1, 2, 4, 5]
input %v: float32[1, 2, 4, 5]
const %sinks: float32[1, 2, 2, 1] = {1.0, 2.0, 3.0, 3.0}
const %from: int64[1] = {0}
const %to: int64[1] = {-1}
const %at: int64[1] = {3}
%kt = Transpose(%k) {perm = [0, 1, 3, 2]}
%s = MatMul(%q, %kt)
%all = Concat(%s, %sinks) {axis = 3}
%pa = Softmax(%all) {axis = -1}
%p = Slice(%pa, %from, %to, %at)
%y = MatMul(%p, %v)
output %y
)"));
  Dice dice(7);
  const TensorMap feeds = FeedsOf(graph, dice);
  Session session(graph, {});
  ExpectNear(session.Run(feeds)[0], Interpret(graph, feeds)[0]);
  EXPECT_GT(session.plan()->steps.size(), 1U);
}

TEST(HeadsAttention, RandomForms) {
  for (uint64_t seed = 0; seed < 150; ++seed) {
    Dice dice(seed);
    Written form;
    form.batch = dice.In(1, 3);
    form.kv_heads = dice.In(1, 4);
    form.heads = form.kv_heads * dice.In(1, 3);
    form.queries = dice.Chance(30) ? 1 : dice.In(1, 21);
    form.keys = dice.Chance(10) ? dice.In(1, 300) : dice.In(1, 23);
    form.width = dice.In(1, 19);
    form.value_width = dice.In(1, 19);
    const std::string row = StrCat(", ", form.keys);
    const std::string queries = std::to_string(dice.Chance(50) ? form.queries : 1);
    const std::string heads = std::to_string(dice.Chance(50) ? form.heads : 1);
    const std::string images = std::to_string(dice.Chance(50) ? form.batch : 1);
    switch (dice.In(0, 4)) {
      case 0:
        form.mask = std::to_string(form.keys);
        break;
      case 1:
        form.mask = queries + row;
        break;
      case 2:
        form.mask = StrCat(heads, ", ", queries, row);
        break;
      case 3:
        form.mask = StrCat(images, ", ", heads, ", ", queries, row);
        break;
      default:
        break;
    }
    if (dice.Chance(30)) form.turn = "flat";
    if (dice.Chance(30)) form.repeat = "Tile";
    if (dice.Chance(30)) form.cap = dice.Chance(50) ? 2.5 : 30;
    form.back = dice.Chance(70);
    form.sinks = dice.Chance(30);
    form.opset = dice.Of({13, 17, 21, 23});
    Check(form, seed);
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace requant
