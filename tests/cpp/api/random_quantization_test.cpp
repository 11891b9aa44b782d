// Random graphs with layers that are hard to quantize, in random ways: any grids, observers and
// recovery methods, any operators in float; then trained, exported, read again and trained again.
// Every result runs in a session of its own and gives finite numbers.
//
//   REQUANT_QUANTIZE_SEED=17 test_api --gtest_filter='RandomQuantization.*'
//       one seed, with its graph printed
//   REQUANT_QUANTIZE_SEEDS=5000 ...
//       the first 5000 seeds
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <set>

#include "api/requant.h"
#include "base/str_cat.h"
#include "quant/observers/observer.h"
#include "quant/recover/recovery.h"
#include "support/random_graphs/random_graph.h"
#include "support/seeds.h"

/// A function of the sanitizers, if there are any: it sets a callback that runs before a report
/// ends the program.
extern "C" __attribute__((weak)) void __sanitizer_set_death_callback(void (*callback)());

namespace requant {
namespace {

constexpr double kLeastShare = 1e-3, kLeastDecibels = 12;
constexpr double kDiverged = 1e12;  // a loss of training that grew so large

uint64_t at_work = 0;  // the seed

void SayWhichSeed() {
  std::fprintf(stderr, "REQUANT_QUANTIZE_SEED=%llu\n", static_cast<unsigned long long>(at_work));
}

template <typename Row>
const Row& AnyOf(std::span<const Row> rows, Dice& dice) {
  return rows[static_cast<size_t>(dice.In(0, static_cast<int64_t>(rows.size()) - 1))];
}

TensorSettings AnySettings(bool weights, Dice& dice) {
  TensorSettings out;
  out.bits = dice.Of({8, 8, 8, 8, 7, 6, 5, 4, 4, 3, 2, 1});
  if (dice.Chance(8)) out.bits = dice.Of({9, 12, 16, 16, 24, 32});
  out.symmetric = dice.Chance(weights ? 65 : 35);
  out.per_channel = dice.Chance(weights ? 70 : 12);
  out.power_of_2 = dice.Chance(8);
  if (dice.Chance(8)) out.small_float = dice.Of<SmallFloat>({{4, 3}, {5, 2}});
  if (out.small_float.exponent_bits > 0) out.power_of_2 = false;
  if (dice.Chance(15)) out.rounding = static_cast<RoundingPolicy>(dice.In(0, 5));
  out.formula = dice.Of({ScaleFormula::kOnnx, ScaleFormula::kOnnx, ScaleFormula::kOnnx,
                         ScaleFormula::kPpq, ScaleFormula::kGoogle});
  if (out.symmetric && dice.Chance(8)) out.formula = ScaleFormula::kCambricon;
  out.full_range = dice.Chance(15);
  out.is_signed = dice.Chance(20);
  out.percentile = dice.Of({99.99, 99.0, 90.0});
  out.stop_after = dice.Of<int64_t>({0, 0, 2});
  const ObserverRow* row = nullptr;
  do {
    row = &AnyOf(ObserverTable(), dice);
  } while (weights ? row->of_weights == nullptr
                   : out.per_channel && std::string_view(row->name) == "auto");
  if (dice.Chance(70)) out.observer = row->name;
  if (out.bits == 1 && out.symmetric && out.small_float.exponent_bits == 0) {  // signs
    out.rounding = RoundingPolicy::kHalfEven;
    out.full_range = false;
    out.per_channel = weights && out.per_channel;
    if (out.formula != ScaleFormula::kPpq) out.formula = ScaleFormula::kOnnx;
  }
  return out;
}

OperatorSettings AnyOperator(Dice& dice) {
  OperatorSettings out;
  out.quantize = dice.Chance(80);
  out.float_output = dice.Chance(10);
  if (dice.Chance(60)) out.activations = AnySettings(false, dice);
  if (dice.Chance(60)) out.weights = AnySettings(true, dice);
  return out;
}

/// `plain`: eight bits everywhere.
QuantizeOptions AnyOptions(const Graph& optimized, bool plain, Dice& dice) {
  QuantizeOptions out;
  if (plain) {
    out.global.activations.observer = dice.Of({"minmax", "minmax", "auto"});
  } else {
    out.global = AnyOperator(dice);
    out.global.quantize = true;
  }
  for (const auto& node : optimized.nodes()) {
    if (plain && dice.Chance(10)) out.by_name[node->name].quantize = false;
    if (!plain && dice.Chance(15)) out.by_name[node->name] = AnyOperator(dice);
    if (!plain && dice.Chance(5)) out.by_type[node->op_type] = AnyOperator(dice);
  }
  out.recover.clear();
  for (const RecoveryRow& row : RecoveryTable()) {
    if (dice.Chance(22)) out.recover.push_back(row.name);
  }
  out.recover_samples = dice.In(1, 6);
  out.recover_steps = dice.In(1, 3);
  out.float_outputs = dice.Chance(50);
  out.analyze = dice.Chance(25);
  return out;
}

/// The given feeds, scaled, all set to the same number, or replaced by other numbers.
TensorMap AnySample(const TensorMap& feeds, Dice& dice) {
  const int64_t kind = dice.In(0, 5);
  TensorMap out;
  for (const auto& [name, tensor] : feeds) {
    Tensor made = tensor.Clone();
    if (made.dtype() == DType::kFloat32) {
      for (int64_t i = 0; i < made.count(); ++i) {
        float& x = made.data<float>()[i];
        x = kind == 0 ? 0.5F : kind == 1 ? 0 : kind == 2 ? 0.125F * x : dice.Unit();
      }
    }
    out[name] = std::move(made);
  }
  return out;
}

bool IsFinite(const std::vector<Tensor>& tensors) {
  return std::all_of(tensors.begin(), tensors.end(), [](const Tensor& tensor) {
    if (!IsFloat(tensor.dtype())) return true;
    for (int64_t i = 0; i < tensor.count(); ++i) {
      if (!std::isfinite(tensor.AsDouble(i))) return false;
    }
    return true;
  });
}

/// Whether all numbers of a float tensor are so small that the quantizer's least scale (1e-18)
/// loses them, and one is not 0. An operator that normalizes makes large numbers of them.
bool IsTiny(const Tensor& tensor) {
  double most = 0;
  if (!IsFloat(tensor.dtype())) return false;
  for (int64_t i = 0; i < tensor.count(); ++i) most = std::max(most, std::fabs(tensor.AsDouble(i)));
  return most > 0 && most < 1e-16;
}

/// Whether a value comes from an operator with jumps: half a step before it may become its whole
/// range.
bool ComesFromAJump(const Value* value) {
  static const std::set<std::string> kJumps = {"Ceil", "Floor", "Round", "Sign"};
  const Node* node = value->producer;
  if (!node) return false;
  return kJumps.contains(node->op_type) ||
         std::any_of(node->inputs.begin(), node->inputs.end(),
                     [](const Value* input) { return input && ComesFromAJump(input); });
}

struct Found {
  uint64_t quantized = 0, exported = 0, trained = 0, layers = 0, kept = 0;
};

class RandomQuantization : public ::testing::Test {
 protected:
  /// Checks the graph and the options of one seed. Returns early if they are rejected for a good
  /// reason.
  void Check(uint64_t seed, bool print) {
    Dice dice(seed * 2 + 1);
    const RandomGraph random = GraphMaker(seed + 1'000'000, false, true).Make();
    if (print) std::puts(PrintGraph(random.graph).c_str());
    samples_.clear();
    samples_.push_back(random.feeds);
    for (int64_t i = dice.In(0, 5); i > 0; --i) samples_.push_back(AnySample(random.feeds, dice));
    if (!RunInFloat(random.graph)) return;
    const bool plain = dice.Chance(30);
    std::optional<QuantizedModel> model = Quantized(random.graph, plain, dice);
    if (!model) return;
    ++found_.quantized;
    for (const auto& [name, op] : model->record.operators) found_.kept += op.quantized ? 0 : 1;
    const Graph integer = LowerToInteger(*model).Release();
    if (print) {
      std::puts(PrintGraph(model->float_graph).c_str());
      std::puts(PrintGraph(integer).c_str());
    }
    RunInSession("quantized", integer);
    if (plain && !tiny_) ExpectNear(random.graph, model->float_graph, integer);
    if (dice.Chance(60)) Train("quantized", *model, dice);
    if (dice.Chance(40)) Export(*model, dice);
  }

  /// Leaves out samples that the float network cannot take; false if none is left.
  bool RunInFloat(const Graph& graph) {
    tiny_ = false;
    Session session(PrepareForRun(graph), {});
    std::erase_if(samples_, [&](const TensorMap& feeds) {
      bool good = true;
      InterpretOptions options{RequantizeMode::kUpward, {}};
      options.observe = [&](const Value&, const Tensor& tensor) {
        good = good && IsFinite({tensor});
        tiny_ = tiny_ || IsTiny(tensor);
      };
      try {
        Interpret(graph, feeds, options);
        return !good || !IsFinite(session.Run(feeds));
      } catch (const Error&) {
        return true;
      }
    });
    return !samples_.empty();
  }

  std::optional<QuantizedModel> Quantized(const Graph& graph, bool plain, Dice& dice) {
    const QuantizeOptions options = AnyOptions(OptimizedFloat(graph).graph(), plain, dice);
    std::optional<Calibrator> calibrator;
    try {
      calibrator.emplace(graph, options);
      for (int pass = 0; pass < calibrator->passes(); ++pass) {
        for (const TensorMap& feeds : samples_) calibrator->Add(pass, feeds);
      }
    } catch (const Error& error) {
      // Valid reasons: values per channel of a missing axis, NaN in a value.
      Refused(error, {ErrorCode::kInvalidArgument, ErrorCode::kInvalidQuantization,
                      ErrorCode::kShapeMismatch, ErrorCode::kUnsupported});
      return std::nullopt;
    }
    return calibrator->Finish();
  }

  void Refused(const Error& error, std::initializer_list<ErrorCode> fine) {
    std::string message = error.message();
    for (size_t at = message.find('\''); at != std::string::npos; at = message.find('\'', at + 1)) {
      const size_t end = message.find('\'', at + 1);
      if (end != std::string::npos) message.erase(at + 1, end - at - 1);
      ++at;
    }
    ++refusals_[StrCat(ErrorCodeName(error.code()), ": ", message)];
    if (std::find(fine.begin(), fine.end(), error.code()) != fine.end()) return;
    ADD_FAILURE() << ErrorCodeName(error.code()) << ": " << error.message() << " at '"
                  << error.context().node << "'";
  }

  void RunInSession(const char* what, const Graph& graph) {
    Session session(PrepareForRun(graph), {});
    for (const TensorMap& feeds : samples_) {
      const std::vector<Tensor> outputs = session.Run(feeds);
      if (IsFinite(outputs)) continue;
      std::string names;
      for (size_t i = 0; i < outputs.size(); ++i) {
        if (!IsFinite({outputs[i]})) names += ' ' + graph.outputs()[i]->name;
      }
      ADD_FAILURE() << what << " has NaN or infinity in" << names;
      return;
    }
  }

  /// Compares outputs with those of float, each as a sum over the samples, for eight bits. `raised`
  /// is the same graph in the quantizer's opset.
  void ExpectNear(const Graph& graph, const Graph& raised, const Graph& integer) {
    Session session(PrepareForRun(integer), {});
    Session floats(PrepareForRun(raised), {});
    std::vector<double> signal(graph.outputs().size()), noise(signal.size());
    std::vector<double> float_noise(signal.size());
    double magnitude = 0;
    for (const TensorMap& feeds : samples_) {
      const Expected wanted = Compute(graph, feeds);
      magnitude = std::max(magnitude, wanted.magnitude);
      const std::vector<Tensor> got = session.Run(feeds);
      const std::vector<Tensor> unquantized = floats.Run(feeds);
      for (size_t i = 0; i < got.size(); ++i) {
        for (int64_t k = 0; k < got[i].count(); ++k) {
          const double x = wanted.outputs[i].AsDouble(k), d = got[i].AsDouble(k) - x;
          signal[i] += x * x;
          noise[i] += d * d;
          float_noise[i] += std::pow(unquantized[i].AsDouble(k) - x, 2);
        }
      }
    }
    for (size_t i = 0; i < graph.outputs().size(); ++i) {
      // An output that is much smaller than the values it comes from may be lost.
      if (std::sqrt(signal[i]) < kLeastShare * magnitude) continue;
      if (ComesFromAJump(graph.outputs()[i])) continue;
      // Squares of 1e-30 are 0 in float32, but not in the reference's doubles.
      if (!(float_noise[i] < 1e-4 * signal[i])) continue;
      EXPECT_GT(10 * std::log10(signal[i] / (noise[i] + 1e-300)), kLeastDecibels)
          << graph.outputs()[i]->name;
    }
  }

  void Train(const char* what, const QuantizedModel& model, Dice& dice) {
    TrainOptions options;
    options.optimizer = dice.Of({TrainOptimizer::kAdam, TrainOptimizer::kSgd});
    options.scales = dice.Of({TrainScales::kLearn, TrainScales::kObserve, TrainScales::kKeep});
    options.loss = dice.Of({TrainLoss::kScores, TrainLoss::kValues});
    options.batch_norm = dice.Chance(70);
    options.measured_batches = dice.In(0, 2);
    options.weight_decay = dice.Chance(30) ? 0.01 : 0;
    std::optional<Trainer> trainer;
    try {
      trainer.emplace(model, options);
    } catch (const Error& error) {
      return Refused(error, {ErrorCode::kUnsupported});
    }
    bool diverged = false;  // the learning rate is the same for all networks, too large for some
    try {
      const int64_t batches = dice.In(1, 4);
      for (int64_t batch = 0; batch < batches; ++batch) {
        for (const TensorMap& feeds : samples_) trainer->Add(feeds, -1);
        if (batch + 1 == batches) trainer->Freeze();
        TrainProgress progress;
        while (!progress.finished) progress = trainer->Advance(0.01);
        diverged = progress.loss > kDiverged;
      }
    } catch (const Error& error) {
      return Refused(error, {});
    }
    QuantizedModel trained = trainer->Finish();
    KeepRunnable(trained, TypesOf(samples_.back()));
    ++found_.trained;
    const Graph integer = LowerToInteger(trained).Release();
    if (!diverged) RunInSession(what, integer);
  }

  void Export(const QuantizedModel& model, Dice& dice) {
    std::optional<Graph> file;
    try {
      file = dice.Chance(60) ? ToQdq(model) : ToQOperator(model);
    } catch (const Error& error) {
      return Refused(error, {ErrorCode::kUnsupported});
    }
    ++found_.exported;
    RunInSession("exported", *file);
    if (dice.Chance(40)) return;
    try {
      const QuantizedModel again = ReadQuantized(*file);
      RunInSession("read again", LowerToInteger(again).graph());
      if (dice.Chance(60)) Train("read again", again, dice);
    } catch (const Error& error) {
      Refused(error, {ErrorCode::kUnsupported});
    }
  }

  std::vector<TensorMap> samples_;
  bool tiny_ = false;  // whether a sample has values below the smallest scale
  Found found_;
  std::map<std::string, int> refusals_;
};

TEST_F(RandomQuantization, RunsInASessionOfItsOwn) {
  const auto number = [](const char* name) -> std::optional<uint64_t> {
    const char* text = std::getenv(name);
    return text ? std::optional(std::strtoull(text, nullptr, 10)) : std::nullopt;
  };
  if (__sanitizer_set_death_callback) __sanitizer_set_death_callback(&SayWhichSeed);
  const auto one = number("REQUANT_QUANTIZE_SEED");
  testing::Seeds seeds = testing::SeedsOf(600, 6000);
  if (const auto wanted = number("REQUANT_QUANTIZE_SEEDS")) seeds = {0, *wanted};
  const uint64_t count = seeds.count();
  if (one) seeds = {*one, *one + 1};
  for (uint64_t seed = seeds.first; seed < seeds.end; ++seed) {
    SCOPED_TRACE(StrCat("REQUANT_QUANTIZE_SEED=", seed));
    at_work = seed;
    try {
      Check(seed, one.has_value());
    } catch (const Error& error) {
      ADD_FAILURE() << ErrorCodeName(error.code()) << ": " << error.message() << " at '"
                    << error.context().node << "'";
    } catch (const std::exception& error) {
      ADD_FAILURE() << error.what();
    }
    if (HasFailure()) break;  // the first failure is enough
  }
  for (const auto& [what, times] : refusals_) std::printf("%6d %s\n", times, what.c_str());
  std::printf("quantized %d, trained %d, exported %d\n", static_cast<int>(found_.quantized),
              static_cast<int>(found_.trained), static_cast<int>(found_.exported));
  if (one) return;
  EXPECT_GT(found_.quantized, count / 2);
  EXPECT_GT(found_.trained, count / 5);
  EXPECT_GT(found_.exported, count / 10);
}

}  // namespace
}  // namespace requant
