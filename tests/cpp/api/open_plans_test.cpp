// One plan follows the shapes of its inputs (plan/open/open_plan.h): random graphs whose inputs
// grow give what sessions give that never saw another shape.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "api/requant.h"
#include "base/str_cat.h"
#include "support/random_graphs/dice.h"
#include "support/random_graphs/random_graph.h"

namespace requant {
namespace {

/// The graph with symbols for all sizes of its inputs, and without other types.
Graph Opened(const Graph& graph) {
  Graph open = graph.Clone();
  for (Value* input : open.inputs()) {
    if (input->is_constant()) continue;
    size_t axis = 0;
    for (Dim& dim : *input->type.shape) dim = Dim(StrCat(input->name, "_", axis++));
  }
  for (const auto& value : open.values()) {
    if (value->producer) value->type.shape.reset();
  }
  for (const auto& node : open.nodes()) node->typed = false;
  return open;
}

/// A feed of that shape: the given numbers, repeated.
Tensor Repeated(const Tensor& tensor, Shape shape) {
  Tensor out(tensor.dtype(), std::move(shape));
  const size_t step = static_cast<size_t>(DTypeBits(tensor.dtype()) / 8);
  for (int64_t i = 0; i < out.count() && tensor.count() > 0; ++i) {
    const auto* from = static_cast<const uint8_t*>(tensor.raw());
    const size_t at = static_cast<size_t>(i % tensor.count()) * step;
    std::copy(from + at, from + at + step,
              static_cast<uint8_t*>(out.raw()) + static_cast<size_t>(i) * step);
  }
  return out;
}

/// The outputs, or nothing where the model refuses the shapes.
std::optional<std::vector<Tensor>> Outcome(Session& session, const TensorMap& feeds) {
  try {
    return session.Run(feeds);
  } catch (const Error& error) {
    EXPECT_NE(error.code(), ErrorCode::kInternal) << error.message();
    return std::nullopt;
  }
}

/// Whether floats differ by rounding only.
bool Near(const Tensor& a, const Tensor& b) {
  double largest = 1;
  for (int64_t k = 0; k < b.count(); ++k) {
    if (std::isfinite(b.AsDouble(k))) largest = std::max(largest, std::abs(b.AsDouble(k)));
  }
  for (int64_t k = 0; k < b.count(); ++k) {
    const double x = a.AsDouble(k), y = b.AsDouble(k);
    if (std::isfinite(x - y) ? std::abs(x - y) > 1e-4 * largest : std::isfinite(y)) return false;
  }
  return true;
}

struct Counts {
  int runs = 0;
  int followed = 0;  // runs of new shapes by the plan that ran before
};

/// Runs shapes that differ in a few sizes, mostly growing ones, also shapes from before, also
/// bound.
void Follow(const PreparedModel& model, const TensorMap& given, bool smooth, uint64_t seed,
            Counts& counts) {
  Dice dice(seed);
  Session session(model.Clone(), {});
  TensorMap feeds = given;
  std::vector<std::pair<std::string, size_t>> axes;
  for (const auto& [name, tensor] : given) {
    for (size_t axis = 0; axis < tensor.shape().size(); ++axis) axes.emplace_back(name, axis);
  }
  if (axes.empty()) return;
  auto [name, axis] = axes[static_cast<size_t>(dice.In(0, static_cast<int64_t>(axes.size()) - 1))];
  std::optional<BoundRun> bound;
  std::optional<std::vector<Tensor>> bound_outputs;
  for (int round = 0; round < 14; ++round) {
    if (dice.Chance(10)) {
      std::tie(name, axis) =
          axes[static_cast<size_t>(dice.In(0, static_cast<int64_t>(axes.size()) - 1))];
    }
    Shape shape = feeds.at(name).shape();
    shape[axis] = dice.Chance(10) ? dice.In(1, 4) : shape[axis] + dice.In(1, 3);
    const TensorMap before = feeds;
    feeds[name] = Repeated(given.at(name), shape);
    const Plan* last = session.plan();
    const auto got = Outcome(session, feeds);
    Session fresh(model.Clone(), {});
    const auto wanted = Outcome(fresh, feeds);
    ASSERT_EQ(got.has_value(), wanted.has_value()) << ShapeToString(shape);
    if (!wanted) {
      feeds = before;
      continue;
    }
    ++counts.runs;
    counts.followed += last != nullptr && session.plan() == last;
    ASSERT_EQ(got->size(), wanted->size());
    for (size_t i = 0; i < got->size(); ++i) {
      ASSERT_EQ((*got)[i].shape(), (*wanted)[i].shape()) << "output " << i;
      // A Program for all shapes may sum in another order than one for these shapes.
      const bool same = (*got)[i].SameBits((*wanted)[i]) ||
                        (session.plan() == nullptr && (!smooth || Near((*got)[i], (*wanted)[i])));
      EXPECT_TRUE(same) << "output " << i << ", " << name << " " << ShapeToString(shape);
    }
    if (bound && session.plan()) {
      session.Run(*bound);
      for (size_t i = 0; i < bound_outputs->size(); ++i) {
        EXPECT_TRUE(bound->outputs[i].SameBits((*bound_outputs)[i])) << "bound output " << i;
      }
    }
    if (!bound && session.plan() && dice.Chance(20)) {
      bound = session.Bind(feeds);
      bound_outputs = got;
    }
  }
}

Counts FollowRandomGraphs(bool smooth, bool odd, uint64_t first, uint64_t count) {
  Counts counts;
  for (uint64_t seed = first; seed < first + count; ++seed) {
    SCOPED_TRACE(StrCat("seed ", seed));
    const RandomGraph random = GraphMaker(seed, smooth, odd).Make();
    std::optional<PreparedModel> model;
    try {
      model = PrepareForRun(Opened(random.graph));
    } catch (const Error& error) {
      EXPECT_NE(error.code(), ErrorCode::kInternal) << error.message();
      continue;
    }
    Follow(*model, random.feeds, smooth, seed, counts);
    if (::testing::Test::HasFailure()) break;
  }
  return counts;
}

TEST(OpenPlans, FollowRandomGraphs) {
  const Counts counts = FollowRandomGraphs(/*smooth=*/false, /*odd=*/false, 0, 400);
  EXPECT_GT(counts.runs, 2000);
  EXPECT_GT(counts.followed, counts.runs / 8);
}

TEST(OpenPlans, FollowRandomSmoothGraphs) {
  const Counts counts = FollowRandomGraphs(/*smooth=*/true, /*odd=*/false, 0, 200);
  EXPECT_GT(counts.followed, counts.runs / 8);
}

TEST(OpenPlans, FollowRandomGraphsOfOddLayers) {
  const Counts counts = FollowRandomGraphs(/*smooth=*/false, /*odd=*/true, 1000, 200);
  EXPECT_GT(counts.followed, counts.runs / 10);
}

}  // namespace
}  // namespace requant
