// A session's memory against runs that are fed the same past: the same bits, in every form that
// decoders have, for random turns of any length, cut back, copied, and with beams.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "api/requant.h"
#include "base/error.h"
#include "base/str_cat.h"
#include "decoder_forms.h"
#include "session/state.h"
#include "support/random_graphs/dice.h"

namespace requant {
namespace {

TensorMap WithPast(const SessionState& state, TensorMap feeds, int64_t batch) {
  for (size_t i = 0; i < state.pairs().size(); ++i) {
    Tensor past = state.Get(i);
    if (past.empty()) past = Tensor(DType::kFloat32, {batch, 2, 0, 4});
    feeds[state.pairs()[i].past] = std::move(past);
  }
  return feeds;
}

Tensor Random(Dice& dice, const Shape& shape) {
  Tensor made(DType::kFloat32, shape);
  for (int64_t i = 0; i < made.count(); ++i) made.data<float>()[i] = dice.Unit();
  return made;
}

/// Runs the memory, and a session that is fed its past. Both must agree, and the memory must hold
/// what the session returned.
void Step(SessionState& state, Session& fed, const TensorMap& feeds, int64_t batch) {
  const std::vector<Tensor> wanted = fed.Run(WithPast(state, feeds, batch));
  const std::vector<Tensor> got = state.Run(feeds);
  ASSERT_EQ(got.size(), wanted.size());
  const auto& outputs = fed.graph().outputs();
  for (size_t i = 0; i < got.size(); ++i) {
    bool remembered = false;
    for (size_t k = 0; k < state.pairs().size(); ++k) {
      if (state.pairs()[k].present != outputs[i]->name) continue;
      remembered = true;
      EXPECT_TRUE(got[i].empty());
      EXPECT_TRUE(state.Get(k).SameBits(wanted[i])) << outputs[i]->name;
      EXPECT_EQ(state.Get(k).shape(), wanted[i].shape());
    }
    if (remembered) continue;
    EXPECT_EQ(got[i].shape(), wanted[i].shape());
    EXPECT_TRUE(got[i].SameBits(wanted[i])) << outputs[i]->name;
  }
}

TEST(SessionState, HasTheBitsOfRunsThatAreFedThePast) {
  for (const Form& form : Forms()) {
    for (uint64_t seed = 0; seed < 6; ++seed) {
      SCOPED_TRACE(StrCat(form.name, ", seed ", seed));
      Dice dice(seed);
      const PreparedModel model = PrepareForRun(ParseGraph(form.text));
      Session parent(model.Clone(), {});
      Session fed(model.Clone(), {});
      SessionState state(parent, form.pairs, dice.Chance(50) ? 0 : dice.In(1, 40));
      int64_t batch = dice.In(1, 2);
      for (int turn = 0; turn < 24; ++turn) {
        const int64_t tokens = dice.Chance(70) ? 1 : dice.In(1, 5);
        Step(state, fed, {{"x", Random(dice, {batch, tokens, 8})}}, batch);
        if (HasFailure()) return;
        EXPECT_EQ(state.in_place(0), form.in_place);
        EXPECT_EQ(state.in_place(1), form.in_place);
        if (dice.Chance(15)) {
          const int64_t kept = dice.In(0, state.tokens(0));
          state.Truncate(0, kept);
          state.Truncate(1, kept);
        }
        if (dice.Chance(15)) {
          // The copy goes its own way, and leaves the memory alone.
          SessionState twin = state.Clone();
          const Tensor before = state.Get(0);
          Step(twin, fed, {{"x", Random(dice, {batch, 1, 8})}}, batch);
          EXPECT_TRUE(state.Get(0).SameBits(before));
          if (dice.Chance(50)) state = std::move(twin);
        }
        if (dice.Chance(15)) {
          std::vector<int64_t> images;
          for (int64_t i = dice.In(1, 3); i > 0; --i) images.push_back(dice.In(0, batch - 1));
          state.Select(images);
          batch = static_cast<int64_t>(images.size());
        }
      }
    }
  }
}

TEST(SessionState, CopiesNoTokensButWhenRoomDoubles) {
  const PreparedModel model = PrepareForRun(ParseGraph(Forms()[0].text));
  Session parent(model.Clone(), {});
  SessionState state(parent, kKeysAndValues, 0);
  Dice dice(1);
  int grown = 0;
  size_t bytes = 0;
  for (int turn = 0; turn < 100; ++turn) {
    state.Run({{"x", Random(dice, {1, 1, 8})}});
    grown += state.bytes() != bytes;
    bytes = state.bytes();
  }
  EXPECT_EQ(state.tokens(0), 100);
  EXPECT_LE(grown, 8);
  SessionState roomy(parent, kKeysAndValues, 100);
  roomy.Run({{"x", Random(dice, {1, 1, 8})}});
  bytes = roomy.bytes();
  EXPECT_EQ(bytes, size_t{2 * 2 * 100 * 4 * sizeof(float)});
  for (int turn = 0; turn < 99; ++turn) roomy.Run({{"x", Random(dice, {1, 1, 8})}});
  EXPECT_EQ(roomy.bytes(), bytes);
}

TEST(SessionState, FollowsShapesByOnePlan) {
  for (const std::string& text :
       {Forms()[0].text, Decoder("opset 17", kRepeated), Decoder("opset 23", kRepeated)}) {
    const PreparedModel model = PrepareForRun(ParseGraph(text));
    Session parent(model.Clone(), {});
    SessionState state(parent, kKeysAndValues, 0);
    Dice dice(1);
    const Plan* plan = nullptr;
    int plans = 0;
    for (int turn = 0; turn < 30; ++turn) {
      state.Run({{"x", Random(dice, {1, turn == 0 ? 7 : 1, 8})}});
      plans += state.session().plan() != plan;
      plan = state.session().plan();
    }
    EXPECT_LE(plans, 4) << text;
  }
}

/// The plan of a decoder whose heads share keys reads them once, and where they grow.
TEST(SessionState, CopiesNoRepeatedKeys) {
  for (const std::string opset : {"opset 17", "opset 23"}) {
    const PreparedModel model = PrepareForRun(ParseGraph(Decoder(opset, kRepeated)));
    Session parent(model.Clone(), {});
    SessionState state(parent, kKeysAndValues, 0);
    Dice dice(1);
    for (int turn = 0; turn < 6; ++turn) {
      state.Run({{"x", Random(dice, {1, turn == 0 ? 7 : 1, 8})}});
      int attentions = 0;
      for (const auto& step : state.session().plan()->steps) {
        attentions += step->op == "HeadsAttention";
        for (const char* none : {"Expand", "Softmax", "DenseCopy", "Unsqueeze"}) {
          EXPECT_NE(step->op, none) << turn;
        }
      }
      EXPECT_EQ(attentions, 1);
    }
  }
}

TEST(SessionState, KeepsWhatTheFirstRunComputesForGood) {
  // The encoder's keys are the input until there are some.
  const PreparedModel model = PrepareForRun(ParseGraph(R"(graph "" opset 17
input %x: float32[1, 1, 4]
input %e: float32[1, S, 4]
input %pk: float32[1, P, 4]
const %w: float32[4, 1] = {1, 2, 3, 4}
%joined = Concat(%pk, %e) {axis = 1}
%both = Relu(%joined)
%y = MatMul(%x, %w)
%sum = ReduceSum(%pk)
output %y
output %both
output %sum
)"));
  Session parent(model.Clone(), {});
  SessionState state(parent, {{"pk", "both", 1, true}}, 0);
  Dice dice(3);
  const Tensor encoder = Random(dice, {1, 3, 4});
  state.Run({{"x", Random(dice, {1, 1, 4})}, {"e", encoder}});
  EXPECT_EQ(state.tokens(0), 3);
  const Tensor kept = state.Get(0);
  const auto results = state.Run({{"x", Random(dice, {1, 1, 4})}, {"e", encoder}});
  EXPECT_EQ(state.tokens(0), 3);
  EXPECT_TRUE(state.Get(0).SameBits(kept));
  EXPECT_NE(results[2].data<float>()[0], 0);
}

Tensor Switch(bool on) {
  Tensor made(DType::kBool, {1});
  *made.data<uint8_t>() = on ? 1 : 0;
  return made;
}

TEST(SessionState, AMergedDecoderRunsByPlans) {
  const Graph graph = ParseGraph(kMerged);
  const PreparedModel model = PrepareForRun(graph);
  Session parent(model.Clone(), {});
  SessionState state(parent, {{"pk", "nk", 2}}, 0);
  Dice dice(11);
  Tensor past(DType::kFloat32, {1, 2, 0, 4});
  for (int turn = 0; turn < 12; ++turn) {
    const TensorMap feeds = {{"x", Random(dice, {1, turn == 0 ? 5 : 1, 8})},
                             {"use_cache_branch", Switch(turn > 0)}};
    TensorMap whole = feeds;
    whole["pk"] = past;
    const std::vector<Tensor> wanted = Interpret(graph, whole);
    // Alternating branches keep their plans.
    const std::vector<Tensor> fed = parent.Run(whole);
    EXPECT_NE(parent.plan(), nullptr);
    const std::vector<Tensor> got = state.Run(feeds);
    EXPECT_NE(state.session().plan(), nullptr);
    EXPECT_EQ(state.in_place(0), turn > 0);
    EXPECT_TRUE(got[0].SameBits(fed[0]));
    past = state.Get(0);
    EXPECT_TRUE(past.SameBits(fed[1]));
    ASSERT_EQ(fed[1].shape(), wanted[1].shape());
    for (int64_t i = 0; i < wanted[0].count(); ++i) {
      ASSERT_NEAR(got[0].AsDouble(i), wanted[0].AsDouble(i), 1e-5);
    }
  }
  EXPECT_EQ(state.tokens(0), 16);
  // The saved form serves both values of the switch.
  const auto saved = std::make_shared<std::vector<uint8_t>>(parent.Save());
  Session loaded(SharedBytes{saved, *saved}, {});
  EXPECT_FALSE(saved->empty());
  EXPECT_THROW(parent.Run({{"x", Random(dice, {1, 1, 8})}, {"pk", past}}), Error);
  EXPECT_THROW(parent.Run({{"x", Random(dice, {1, 1, 8})},
                           {"pk", past},
                           {"use_cache_branch", Tensor(DType::kBool, {2})}}),
               Error);
}

TEST(SessionState, SavesAndLoads) {
  const PreparedModel model = PrepareForRun(ParseGraph(Forms()[0].text));
  Session parent(model.Clone(), {});
  SessionState state(parent, kKeysAndValues, 0);
  Dice dice(5);
  state.Run({{"x", Random(dice, {1, 4, 8})}});
  SessionState other(parent, kKeysAndValues, 0);
  EXPECT_TRUE(other.Get(0).empty());
  other.Set(0, state.Get(0));
  other.Set(1, state.Get(1));
  const Tensor x = Random(dice, {1, 1, 8});
  EXPECT_TRUE(other.Run({{"x", x}})[0].SameBits(state.Run({{"x", x}})[0]));
  EXPECT_THROW(other.Set(0, Tensor(DType::kFloat32, {1, 3, 4, 4})), Error);
  EXPECT_THROW(other.Set(0, Tensor(DType::kInt64, {1, 2, 4, 4})), Error);
}

void ExpectInvalid(const std::function<void()>& call, const std::string& part) {
  try {
    call();
    ADD_FAILURE() << "no error, but expected: " << part;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument) << error.message();
    EXPECT_NE(error.message().find(part), std::string::npos) << error.message();
  }
}

TEST(SessionState, RefusesWhatIsNoMemory) {
  const PreparedModel model = PrepareForRun(ParseGraph(Forms()[0].text));
  Session parent(model.Clone(), {});
  const auto make = [&](const RememberedPair& pair) { SessionState(parent, {pair}, 0); };
  ExpectInvalid([&] { make({"none", "nk"}); }, "no input 'none'");
  ExpectInvalid([&] { make({"pk", "none"}); }, "no output 'none'");
  ExpectInvalid([&] { make({"pk", "nk", 7}); }, "no axis 7");
  ExpectInvalid([&] { make({"x", "y", 3}); }, "no axis 3");
}

TEST(SessionState, ErrorsLeaveItAsItWas) {
  const PreparedModel model = PrepareForRun(ParseGraph(Forms()[0].text));
  Session parent(model.Clone(), {});
  SessionState state(parent, kKeysAndValues, 0);
  Dice dice(7);
  state.Run({{"x", Random(dice, {1, 4, 8})}});
  const Tensor kept = state.Get(0);
  EXPECT_THROW(state.Run({{"x", Random(dice, {1, 1, 9})}}), Error);
  EXPECT_THROW(state.Run({}), Error);
  ExpectInvalid(
      [&] {
        state.Run({{"x", Random(dice, {1, 1, 8})}, {"pk", kept}});
      },
      "cannot be fed");
  ExpectInvalid([&] { state.Truncate(0, 5); }, "cannot keep 5 of 4");
  ExpectInvalid([&] { state.Select(std::vector<int64_t>{1}); }, "no sequence 1 among 1");
  EXPECT_TRUE(state.Get(0).SameBits(kept));
  state.Run({{"x", Random(dice, {1, 1, 8})}});
  EXPECT_EQ(state.tokens(0), 5);
  const PreparedModel fixed =
      PrepareForRun(ParseGraph("graph \"\" opset 17\ninput %x: float32[2]\n"
                               "%y = Relu(%x)\noutput %y\n"));
  Session closed(fixed.Clone(), {});
  closed.Prepare();
  EXPECT_THROW(SessionState(closed, {{"x", "y", 0}}, 0), Error);
}

}  // namespace
}  // namespace requant
