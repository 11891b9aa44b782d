// The oracle of all passes: the interpreter computes random graphs before and after every single
// pass, a random sequence of passes and the default pipeline.
//
// A pass with bound 0 must keep every bit (zeros may change their sign); for the others, the bound
// is the largest error of any output relative to the largest magnitude among all values that the
// graph computes (at least 1).
//
//   REQUANT_LONG=1         all 20000 graphs, of which CI takes a third a day, instead of a tenth
//   REQUANT_GRAPHS=N       N graphs
//   REQUANT_GRAPH_SEED=S   only the graph of seed S, printed
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <map>

#include "base/str_cat.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "passes/pass.h"
#include "passes/runner.h"
#include "support/random_graphs/random_graph.h"
#include "support/seeds.h"

namespace requant {
namespace {

/// The reason why the outputs differ by more than the bound; empty if they do not.
std::string Difference(const std::vector<Tensor>& before, const std::vector<Tensor>& after,
                       double tolerance) {
  if (before.size() != after.size()) return "another number of outputs";
  for (size_t i = 0; i < before.size(); ++i) {
    const Tensor& a = before[i];
    const Tensor& b = after[i];
    if (a.dtype() != b.dtype()) return StrCat("output ", i, " has another type");
    if (a.shape() != b.shape()) {
      return StrCat("output ", i, " is ", ShapeToString(b.shape()), ", not ",
                    ShapeToString(a.shape()));
    }
    for (int64_t j = 0; j < a.count(); ++j) {
      const double x = a.AsDouble(j);
      const double y = b.AsDouble(j);
      if (x == y || (std::isnan(x) && std::isnan(y)) || std::fabs(x - y) <= tolerance) continue;
      return StrCat("output ", i, "[", j, "] is ", std::to_string(y), ", not ", std::to_string(x),
                    ": off by ", std::to_string(std::fabs(x - y) / tolerance), " times the bound");
    }
  }
  return "";
}

std::string NamesOf(const Graph& graph) {
  std::string out;
  for (const Value* input : graph.inputs()) out += input->name + " ";
  for (const Value* output : graph.outputs()) out += output->name + " ";
  return out;
}

class Judge {
 public:
  Judge(uint64_t seed, bool smooth)
      : random_(GraphMaker(seed, smooth).Make()),
        expected_(Compute(random_.graph, random_.feeds)),
        seed_(seed) {
    VerifyGraph(random_.graph);
  }

  const Graph& graph() const { return random_.graph; }

  /// Runs the passes in order, each until it finds nothing more to do.
  void Run(const std::vector<const Pass*>& passes) {
    Graph after = random_.graph.Clone();
    std::string names;
    double bound = 0;
    bool any = false;
    bool last = false;  // whether the last pass changed anything
    try {
      PassContext context;
      for (const Pass* pass : passes) {
        names += StrCat(names.empty() ? "" : ", ", pass->name);
        bool changed = false;
        for (int i = 0; i < 8 && (i == 0 || changed); ++i) {
          changed = pass->run(after, context);
          any = any || changed;
          last = last || (changed && pass == passes.back());
          VerifyGraph(after);
        }
        if (changed) return Report(names, after, "finds something to do again and again");
        // Errors of approximated functions grow on their way to the outputs, so only shapes and
        // types are compared here; Functions.KeepTheirBound checks the values.
        bound += pass->bound > 1e-4 ? 1e9 : pass->bound;
      }
      if (any) Check(names, after, bound);
    } catch (const Error& error) {
      Report(names, after, StrCat(error.message(), " at ", error.context().node));
    }
    if (last && passes.size() <= 2) ++changed_[passes.back()->name];
  }

  /// Runs the default pipeline twice: it must terminate, and give the same result.
  void RunPipeline() {
    Graph after = random_.graph.Clone();
    try {
      PipelineOptions options;
      options.verify = true;
      const PipelineReport report = RunPasses(after, options);
      if (report.rounds >= options.max_rounds) return Report("pipeline", after, "no fixed point");
      double bound = 0;
      for (const Pass& pass : PassTable()) bound += pass.optional() ? 0 : pass.bound;
      Check("pipeline", after, bound);
      Graph again = random_.graph.Clone();
      RunPasses(again, options);
      if (PrintGraph(again) != PrintGraph(after))
        Report("pipeline", again, "differs from run to run");
    } catch (const Error& error) {
      Report("pipeline", after, StrCat(error.message(), " at ", error.context().node));
    }
  }

  static std::map<std::string, int>& Changed() { return changed_; }

 private:
  void Check(const std::string& names, const Graph& after, double bound) {
    if (NamesOf(random_.graph) != NamesOf(after))
      return Report(names, after, "renames the interface");
    const std::string difference =
        Difference(expected_.outputs, Interpret(after, random_.feeds), bound * expected_.magnitude);
    if (!difference.empty()) Report(names, after, difference);
  }

  void Report(const std::string& names, const Graph& after, const std::string& what) {
    ADD_FAILURE() << "seed " << seed_ << ", " << names << ": " << what << "\n--- before\n"
                  << PrintGraph(random_.graph) << "--- after\n"
                  << PrintGraph(after);
  }

  RandomGraph random_;
  Expected expected_;
  uint64_t seed_;
  static std::map<std::string, int> changed_;
};

std::map<std::string, int> Judge::changed_;

void RunSeed(uint64_t seed) {
  // Every third graph has operators whose results jump: only passes that keep every bit run on
  // these.
  const bool smooth = seed % 3 != 0;
  Judge judge(seed, smooth);
  Dice dice(seed + 1);
  std::vector<const Pass*> fitting;
  for (const Pass& pass : PassTable()) {
    if (!smooth && pass.bound > 0) continue;
    // A pass that takes annotations back runs behind its neighbor in the table, which makes them.
    const bool takes_back = pass.role == PassRole::kAnnotationByName;
    judge.Run(takes_back ? std::vector<const Pass*>{fitting.back(), &pass}
                         : std::vector<const Pass*>{&pass});
    fitting.push_back(&pass);
  }
  std::vector<const Pass*> sequence;
  for (int i = 0; i < 6; ++i) {
    sequence.push_back(
        fitting[static_cast<size_t>(dice.In(0, static_cast<int64_t>(fitting.size()) - 1))]);
  }
  judge.Run(sequence);
  if (smooth) judge.RunPipeline();
}

TEST(RandomGraphs, KeepTheirResults) {
  if (const char* seed = std::getenv("REQUANT_GRAPH_SEED")) {
    const uint64_t number = std::strtoull(seed, nullptr, 10);
    std::puts(PrintGraph(GraphMaker(number, number % 3 != 0).Make().graph).c_str());
    RunSeed(number);
    return;
  }
  testing::Seeds seeds = testing::SeedsOf(2000, 20000);
  if (const char* wanted = std::getenv("REQUANT_GRAPHS")) {
    seeds = {0, std::strtoull(wanted, nullptr, 10)};
  }
  const uint64_t count = seeds.count();
  Judge::Changed().clear();
  size_t nodes = 0;
  for (uint64_t seed = seeds.first; seed < seeds.end; ++seed) {
    nodes += GraphMaker(seed, seed % 3 != 0).Make().graph.nodes().size();
    RunSeed(seed);
    if (::testing::Test::HasFailure()) break;  // the first failure is enough
  }
  EXPECT_GE(nodes, 5 * count) << "the graphs have become too small to find anything";
  // Every pass must have changed some graph: otherwise it was not tested.
  for (const Pass& pass : PassTable()) {
    const auto changed = static_cast<uint64_t>(Judge::Changed()[pass.name]);
    std::printf("%-28s changed %6d of %d graphs\n", pass.name, static_cast<int>(changed),
                static_cast<int>(count));
    if (count >= 2000) {
      EXPECT_GE(changed, count / 2000) << pass.name;
    }
  }
}

}  // namespace
}  // namespace requant
