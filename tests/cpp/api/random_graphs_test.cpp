// Random graphs give the interpreter's results: as floats, quantized, saved and loaded, and with
// less memory.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "api/requant.h"
#include "support/random_graphs/random_graph.h"
#include "support/seeds.h"

namespace requant {
namespace {

/// The largest difference relative to the largest intermediate number; infinity if shapes, types or
/// NaNs differ.
double Difference(const std::vector<Tensor>& got, const Expected& expected) {
  constexpr double kNoValue = std::numeric_limits<double>::infinity();
  const std::vector<Tensor>& wanted = expected.outputs;
  if (got.size() != wanted.size()) return kNoValue;
  double worst = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    const Tensor &a = got[i], &b = wanted[i];
    if (a.shape() != b.shape() || a.dtype() != b.dtype()) return kNoValue;
    for (int64_t k = 0; k < b.count(); ++k) {
      const double x = a.AsDouble(k), y = b.AsDouble(k);
      if (x == y || (std::isnan(x) && std::isnan(y))) continue;
      if (!std::isfinite(x - y)) return kNoValue;
      worst = std::max(worst, std::abs(x - y) / expected.magnitude);
    }
  }
  return worst;
}

/// Far less than a step of eight bits, if an output is as large as the values it comes from.
constexpr double kRounding = 2e-5;

void ExpectSameWhenSaved(Session& session, const TensorMap& feeds,
                         const std::vector<Tensor>& outputs) {
  const auto saved = std::make_shared<std::vector<uint8_t>>(session.Save());
  const std::vector<Tensor> again = Session(SharedBytes{saved, *saved}, {}).Run(feeds);
  for (size_t i = 0; i < outputs.size(); ++i) EXPECT_TRUE(again[i].SameBits(outputs[i])) << i;
}

/// `smooth`: as in GraphMaker. In other graphs a float that rounds differently may change results
/// arbitrarily.
bool RunsAsFloats(const RandomGraph& random, bool smooth) {
  const Expected wanted = Compute(random.graph, random.feeds);
  try {
    Session session(PrepareForRun(random.graph), {});
    const std::vector<Tensor> outputs = session.Run(random.feeds);
    if (smooth) {
      EXPECT_LT(Difference(outputs, wanted), kRounding);
    }
    ExpectSameWhenSaved(session, random.feeds, outputs);
    return true;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnsupported) << error.message();
    return false;
  }
}

QuantizeOptions OptionsOf(uint64_t seed) {
  constexpr int kBits[] = {8, 4, 2, 7};
  QuantizeOptions options;
  options.global.weights.bits = kBits[seed % 4];
  options.global.activations.bits = kBits[seed / 4 % 3];
  options.global.activations.symmetric = seed % 5 == 0;
  return options;
}

bool RunsQuantized(const RandomGraph& random, uint64_t seed) {
  std::optional<PreparedModel> integer;
  try {
    Calibrator calibrator(random.graph, OptionsOf(seed));
    for (int pass = 0; pass < calibrator.passes(); ++pass) calibrator.Add(pass, random.feeds);
    integer = PrepareForRun(LowerToInteger(calibrator.Finish()));
  } catch (const Error& error) {
    EXPECT_NE(error.code(), ErrorCode::kInternal) << error.message();
    return false;
  }
  for (const RequantizeMode mode : {RequantizeMode::kUpward, RequantizeMode::kFloat}) {
    const Expected wanted = Compute(integer->graph(), random.feeds, mode);
    SessionOptions options;
    options.plan.requantize = mode;
    EXPECT_LT(Difference(Session(integer->Clone(), options).Run(random.feeds), wanted), kRounding);
    options.plan.compact = true;
    EXPECT_LT(Difference(Session(integer->Clone(), options).Run(random.feeds), wanted), kRounding);
  }
  return true;
}

TEST(RandomGraphs, RunAsTheInterpreterHasThem) {
  const testing::Seeds seeds = testing::SeedsOf(800, 4000);
  const uint64_t count = seeds.count();
  uint64_t floats = 0, quantized = 0;
  for (uint64_t seed = seeds.first; seed < seeds.end; ++seed) {
    const bool smooth = seed % 2 == 0;
    const RandomGraph random = GraphMaker(seed, smooth).Make();
    floats += RunsAsFloats(random, smooth) ? 1 : 0;
    quantized += RunsQuantized(random, seed) ? 1 : 0;
    if (HasFailure()) FAIL() << "seed " << seed << "\n" << PrintGraph(random.graph);
  }
  EXPECT_GT(floats, count * 99 / 100);
  EXPECT_GT(quantized, count * 4 / 5);
}

}  // namespace
}  // namespace requant
