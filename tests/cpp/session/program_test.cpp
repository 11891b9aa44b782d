// Control flow and data-dependent shapes: sessions against the interpreter, with shapes that change
// from run to run.
#include <gtest/gtest.h>

#include "base/error.h"
#include "programs.h"
#include "session/program.h"
#include "session/session.h"

namespace requant {
namespace {

constexpr const char* kBranches = R"(graph "" opset 13
input %c: bool[]
input %x: float32[N, 2, H, 5]
const %w: float32[1, 2, 1, 1] = {0.5, -2.0}
const %v: float32[1, 1, 1, 1] = {3.0}
const %yes: bool[] = {1}
%chosen = Equal(%c, %yes)
%before: float32[N, 1, H, 5] = Conv(%x, %w) "before"
%y = If(%chosen, %before, %w, %before) {then_branch = { graph "" opset 13
capture %a: float32[N, 1, H, 5]
capture %k: float32[1, 2, 1, 1]
%two = Concat(%a, %a) {axis = 1}
%z = Conv(%two, %k) "inner"
output %z
}, else_branch = { graph "" opset 13
capture %a: float32[N, 1, H, 5]
%z = Concat(%a, %a) {axis = 2}
output %z
}} "branch"
%s = Conv(%y, %v) "after"
%out = Relu(%s)
output %out
)";

TEST(Program, BranchesOnData) {
  const auto graph = ParseGraph(kBranches);
  Session session(graph, {});
  for (const int64_t height : {3, 4, 3, 7}) {
    for (const bool taken : {true, false}) {
      ExpectSame(session, graph, {{"c", Tensor::Scalar(taken)}, {"x", Ramp({2, 2, height, 5})}});
      EXPECT_EQ(session.plan(), nullptr);
    }
  }
  EXPECT_GT(session.memory().packed_weights, 0U);
  EXPECT_THROW(session.Bind({{"c", Tensor::Scalar(true)}, {"x", Ramp({2, 2, 3, 5})}}), Error);
}

TEST(Program, AKnownConditionIsPlanned) {
  std::string text = kBranches;
  text.replace(text.find("input %c: bool[]\n"), 17, "const %c: bool[] = {1}\n");
  const auto graph = ParseGraph(text.c_str());
  Session session(graph, {});
  ExpectSame(session, graph, {{"x", Ramp({1, 2, 3, 5})}});
  ASSERT_NE(session.plan(), nullptr);
}

TEST(Program, ShapesThatDependOnData) {
  const auto graph = ParseGraph(R"(graph "" opset 13
input %x: float32[N, 4]
const %zero: float32[] = {0.0}
const %axis: int64[1] = {1}
const %w: float32[1, 5] = {1.0, 2.0, 3.0, 4.0, 5.0}
const %perm: float32[5, 2] = {1.0, 2.0, 3.0, 4.0, 5.0, 1.0, 2.0, 3.0, 4.0, 5.0}
%big = Greater(%x, %zero)
%where = NonZero(%big)
%list = Transpose(%where) {perm = [1, 0]}
%values = GatherND(%x, %list)
%column = Unsqueeze(%values, %axis)
%p = MatMul(%column, %w)
%q = MatMul(%p, %perm)
%nonzero = NonZero(%q)
output %q
output %nonzero
)");
  Session session(graph, {});
  for (const float start : {-1.0F, -3.0F, 0.5F}) {
    ExpectSame(session, graph, {{"x", Ramp({5, 4}, start)}});
  }
}

TEST(Program, ResultsOutliveTheFeeds) {
  const auto graph = ParseGraph(R"(graph "" opset 13
input %x: float32[2, 3]
input %s: int64[2]
%y = Reshape(%x, %s)
output %y
)");
  Session session(graph, {});
  float memory[6] = {1, 2, 3, 4, 5, 6};
  const std::vector<Tensor> results =
      session.Run({{"x", Tensor::Unowned(DType::kFloat32, {2, 3}, memory)},
                   {"s", Tensor::Vector<int64_t>({3, 2})}});
  memory[0] = 99;
  EXPECT_EQ(results[0].data<float>()[0], 1);
  EXPECT_EQ(results[0].shape(), (Shape{3, 2}));
}

/// A head, a body and a tail with weights of their own, of known and of unknown shape.
constexpr const char* kParts = R"(graph "" opset 13
input %c: bool[]
input %x: float32[2, 4]
const %w: float32[4, 4] = {0.5, -2.0, 0.25, 1.0, 1.5, 0.5, -0.5, 0.0, 2.0, 1.0, 0.5, 0.25, 0.0, 0.5, 1.0, -1.0}
const %zero: float32[] = {0.0}
const %axis: int64[1] = {1}
const %row: float32[1, 3] = {1.0, 2.0, 3.0}
%head = MatMul(%x, %w) "head"
%known = If(%c, %head, %head) {then_branch = { graph "" opset 13
capture %a: float32[2, 4]
const %m: float32[4, 4] = {1.5, -2.0, 0.25, 1.0, 1.5, 0.5, -0.5, 0.0, 2.0, 1.0, 0.5, 0.25, 0.0, 0.5, 1.0, -1.0}
%z = MatMul(%a, %m) "inside"
output %z
}, else_branch = { graph "" opset 13
capture %a: float32[2, 4]
%z = Neg(%a)
output %z
}} "branch"
%planned = MatMul(%known, %w) "tail of known shape"
%big = Greater(%planned, %zero)
%where = NonZero(%big)
%list = Transpose(%where) {perm = [1, 0]}
%values = GatherND(%planned, %list)
%column = Unsqueeze(%values, %axis)
%open = MatMul(%column, %row) "tail of unknown shape"
output %open
output %head
output %row
)";

TEST(Program, IsSavedBeforeItRuns) {
  const auto graph = ParseGraph(kParts);
  for (const bool taken : {true, false}) {
    const TensorMap feeds = {{"c", Tensor::Scalar(taken)}, {"x", Ramp({2, 4})}};
    Session session(graph, {});
    EXPECT_FALSE(session.Prepare());
    const auto bytes = std::make_shared<std::vector<uint8_t>>(session.Save());
    const std::vector<Tensor> wanted = session.Run(feeds);
    Session loaded(SharedBytes{bytes, *bytes}, {});
    const std::vector<Tensor> got = loaded.Run(feeds);
    for (size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(got[i].SameBits(wanted[i])) << i;
    ExpectSame(session, graph, feeds);
    EXPECT_EQ(loaded.memory().arena, session.memory().arena);
    EXPECT_THROW(loaded.Run({{"c", Tensor::Scalar(taken)}, {"x", Ramp({3, 4})}}), Error);
  }
}

TEST(Program, KeepsWhatItWasPlannedWith) {
  SessionOptions options;
  options.plan.fuse = false;
  options.plan.requantize = RequantizeMode::kFloat;
  options.plan.force_kernels = {{"unary_f32", "no such kernel"}};
  const auto graph = ParseGraph(kParts);
  Session wrong(graph, options);
  const TensorMap feeds = {{"c", Tensor::Scalar(true)}, {"x", Ramp({2, 4})}};
  EXPECT_THROW(wrong.Run(feeds), Error);
  options.plan.force_kernels = {{"conv_f32", "conv_f32_scalar"}};
  Session session(graph, options);
  const std::vector<Tensor> wanted = session.Run(feeds);
  ExpectSameWhenSaved(session, feeds, wanted);
  const auto bytes = std::make_shared<std::vector<uint8_t>>(session.Save());
  SessionOptions other;
  other.profile = true;
  other.now = [] { return 0.0; };
  Session loaded(SharedBytes{bytes, *bytes}, other);
  loaded.Run(feeds);
  int scalar = 0;
  for (const StepProfile& line : loaded.Profile()) {
    scalar += line.kernel == "conv_f32_scalar" ? line.runs : 0;
  }
  EXPECT_EQ(scalar, 4);
}

TEST(Program, KeepsEverySettingThatWasTuned) {
  PlanOptions options;
  options.tuned["a"] = {"conv_q8_lines", 3, 120, Tuned::Output::kPacked};
  options.tuned["b"] = {"conv_f32_vector"};
  std::vector<uint8_t> bytes;
  PlanArchive writer(&bytes);
  OptionFields(writer, options);
  PlanOptions read;
  PlanArchive reader(bytes);
  OptionFields(reader, read);
  EXPECT_EQ(reader.left(), 0);
  EXPECT_EQ(read.tuned, options.tuned);
}

TEST(Program, DamageIsFound) {
  const auto graph = ParseGraph(kParts);
  Session session(graph, {});
  session.Run({{"c", Tensor::Scalar(true)}, {"x", Ramp({2, 4})}});
  const std::vector<uint8_t> bytes = session.Save();
  for (size_t at = 0; at < bytes.size(); at += at < 64 ? 1 : 37) {
    const auto damaged = std::make_shared<std::vector<uint8_t>>(bytes);
    (*damaged)[at] ^= static_cast<uint8_t>(1U << (at % 8));
    try {
      Session loaded(SharedBytes{damaged, *damaged}, {});
      ADD_FAILURE() << "byte " << at;
    } catch (const Error& error) {
      EXPECT_TRUE(error.code() == ErrorCode::kInvalidModel ||
                  error.code() == ErrorCode::kUnsupported)
          << at << ": " << error.message();
    }
  }
  for (const size_t size :
       {size_t{0}, size_t{63}, size_t{64}, bytes.size() / 2, bytes.size() - 1}) {
    const auto part = std::make_shared<std::vector<uint8_t>>(
        bytes.begin(), bytes.begin() + static_cast<long>(size));
    EXPECT_THROW(Session(SharedBytes{part, *part}, {}), Error) << size;
  }
}

/// The parts of a saved program, which a test can alter and write with a valid checksum.
struct SavedProgram {
  Graph interface;
  PlanOptions options;
  bool planned = false;
  std::vector<uint32_t> plans;              // numbers of plans of each body
  std::vector<std::vector<uint8_t>> parts;  // the middle, head, tail, the bodies' plans

  explicit SavedProgram(const std::vector<uint8_t>& bytes) {
    const auto shared = std::make_shared<std::vector<uint8_t>>(bytes);
    SavedFile file = OpenSaved(SharedBytes{shared, *shared}, 1);
    InterfaceFields(file.archive, interface);
    OptionFields(file.archive, options);
    file.archive.Fields(planned, plans);
    for (const BlobRange& blob : file.blobs) parts.emplace_back(blob.begin(), blob.end());
  }

  SharedBytes Bytes() {
    const std::vector<BlobRange> blobs(parts.begin(), parts.end());
    SavedWriter writer(blobs);
    InterfaceFields(writer.archive, interface);
    OptionFields(writer.archive, options);
    writer.archive.Fields(planned, plans);
    const auto bytes =
        std::make_shared<std::vector<uint8_t>>(writer.Finish(SavedKind::kProgram, 1, true));
    return {bytes, *bytes};
  }
};

/// Both branches are products with different weights.
constexpr const char* kTwoProducts = R"(graph "" opset 13
input %c: bool[]
input %x: float32[2, 2]
%y = If(%c, %x, %x) {then_branch = { graph "" opset 13
capture %a: float32[2, 2]
const %m: float32[2, 2] = {1.0, 2.0, 3.0, 4.0}
%z = MatMul(%a, %m) "yes"
output %z
}, else_branch = { graph "" opset 13
capture %a: float32[2, 2]
const %m: float32[2, 2] = {-5.0, 0.5, 0.25, 1.0}
%z = MatMul(%a, %m) "no"
output %z
}} "branch"
output %y
)";

TEST(Program, BodiesArePlannedInTheFile) {
  const auto graph = ParseGraph(kTwoProducts);
  Session session(graph, {});
  session.Prepare();
  SavedProgram saved(session.Save());  // nothing has run, but the shapes are known
  EXPECT_EQ(saved.plans, (std::vector<uint32_t>{1, 1}));
  ASSERT_EQ(saved.parts.size(), 5U);
  const TensorMap feeds = {{"c", Tensor::Scalar(true)}, {"x", Ramp({2, 2})}};
  const TensorMap others = {{"c", Tensor::Scalar(false)}, {"x", Ramp({2, 2})}};
  const Tensor yes = session.Run(feeds)[0], no = session.Run(others)[0];
  // Swapping the branches' parts shows that they are what runs.
  for (const bool swapped : {false, true}) {
    if (swapped) std::swap(saved.parts[3], saved.parts[4]);
    Session loaded(saved.Bytes(), {});
    EXPECT_TRUE(loaded.Run(feeds)[0].SameBits(swapped ? no : yes));
    EXPECT_TRUE(loaded.Run(others)[0].SameBits(swapped ? yes : no));
  }
}

TEST(Program, BodiesOfOtherShapesArePlannedWhenTheyRun) {
  // The list grows by two rows in every round: what was seen is saved, and at most four plans.
  const auto graph = ParseGraph(R"(graph "" opset 13
input %n: int64[]
input %x: float32[2, 3]
const %go: bool[] = {1}
const %m: float32[3, 3] = {0.5, 0.0, 0.25, -0.5, 1.0, 0.0, 0.0, 0.25, 1.0}
%grown = Loop(%n, %go, %x, %x, %m) {body = { graph "" opset 13
input %i: int64[]
input %c: bool[]
input %list: float32[...]
capture %first: float32[2, 3]
capture %w: float32[3, 3]
%next = MatMul(%list, %w)
%more = Concat(%next, %first) {axis = 0}
%c2 = Identity(%c)
output %c2
output %more
}} "loop"
output %grown
)");
  Session session(graph, {});
  session.Prepare();
  EXPECT_EQ(SavedProgram(session.Save()).plans, std::vector<uint32_t>{0});
  const auto feeds = [](int64_t rounds) {
    return TensorMap{{"n", Tensor::Scalar(rounds)}, {"x", Ramp({2, 3})}};
  };
  std::vector<Tensor> wanted;
  for (int64_t rounds = 0; rounds < 8; ++rounds) {
    wanted.push_back(Session(graph, {}).Run(feeds(rounds))[0]);
  }
  for (const int64_t seen : {2, 7}) {
    session.Run(feeds(seen));
    SavedProgram saved(session.Save());
    EXPECT_EQ(saved.plans, std::vector<uint32_t>{seen == 2 ? 2U : 4U});
    for (const size_t rounds : {size_t{2}, size_t{7}, size_t{0}, size_t{3}}) {
      Session loaded(saved.Bytes(), {});
      for (const size_t now : {rounds, size_t{5}, rounds}) {
        const Tensor got = loaded.Run(feeds(static_cast<int64_t>(now)))[0];
        EXPECT_TRUE(got.SameBits(wanted[now])) << seen << " seen, " << now;
      }
    }
  }
}

TEST(Program, WrongPlansOfBodiesAreRefused) {
  const auto graph = ParseGraph(kTwoProducts);
  Session session(graph, {});
  session.Prepare();
  const std::vector<uint8_t> bytes = session.Save();
  const auto refused = [&bytes](auto&& alter) {
    SavedProgram saved(bytes);
    alter(saved);
    const SharedBytes file = saved.Bytes();
    try {
      Session loaded(file, {});
      return false;
    } catch (const Error& error) {
      return error.code() == ErrorCode::kInvalidModel || error.code() == ErrorCode::kUnsupported;
    }
  };
  EXPECT_FALSE(refused([](SavedProgram&) {}));
  for (const std::vector<uint32_t>& plans :
       {std::vector<uint32_t>{}, {1}, {2}, {2, 1}, {1, 0}, {0, 0}, {1, 1, 0}, {0xffffffff, 2}}) {
    EXPECT_TRUE(refused([&plans](SavedProgram& saved) { saved.plans = plans; }));
  }
  // A missing plan, a damaged one, and that of another program.
  for (size_t at = 0; at < SavedProgram(bytes).parts[3].size(); at += at < 64 ? 1 : 29) {
    EXPECT_TRUE(refused([at](SavedProgram& saved) { saved.parts[3][at] ^= 4; })) << at;
    EXPECT_TRUE(refused([at](SavedProgram& saved) { saved.parts[3].resize(at); })) << at;
  }
  const auto other = ParseGraph(R"(graph "" opset 13
input %a: float32[2, 2]
input %b: float32[2, 2]
%z = MatMul(%a, %b)
output %z
)");
  Session plain(other, {});
  plain.Prepare();
  EXPECT_TRUE(refused([&plain](SavedProgram& saved) { saved.parts[4] = plain.Save(); }));
}

TEST(Program, ProfilesEveryPart) {
  const auto graph = ParseGraph(kBranches);
  SessionOptions options;
  options.profile = true;
  options.now = [] { return 0.0; };
  Session session(graph, options);
  session.Run({{"c", Tensor::Scalar(true)}, {"x", Ramp({2, 2, 3, 5})}});
  std::vector<std::string> names;
  for (const StepProfile& line : session.Profile()) {
    if (line.runs > 0) names.push_back(line.name);
  }
  for (const char* name : {"before", "branch", "inner", "after"}) {
    EXPECT_NE(std::find(names.begin(), names.end(), name), names.end()) << name;
  }
}

TEST(Program, BadBodiesAreRefused) {
  const auto graph = ParseGraph(R"(graph "" opset 13
input %c: bool[]
input %x: float32[2]
%y = If(%c, %x) {then_branch = { graph "" opset 13
capture %a: float32[2]
output %a
}, else_branch = { graph "" opset 13
capture %a: float32[2]
output %a
}} "branch"
output %y
)");
  Session session(graph, {});
  EXPECT_THROW(session.Run({{"c", Tensor::Scalar(true)}, {"x", Ramp({2})}}), Error);
}

}  // namespace
}  // namespace requant
