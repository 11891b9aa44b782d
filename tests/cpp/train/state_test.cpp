// A training that is saved, restored and looked at in between has the bits of one that is not.
#include <gtest/gtest.h>

#include "base/error.h"
#include "quant/model.h"
#include "train/trainer.h"

namespace requant {
namespace {

constexpr int kBatches = 6;

QuantizedModel Start(const Graph& graph) {
  QuantizeOptions options;
  options.global.activations.bits = 4;
  options.global.weights.bits = 3;
  options.recover = {};
  return QuantizeGraph(graph, options);
}

void LearnBatch(Trainer& trainer, const Graph& graph, int batch) {
  for (int i = 0; i < 3; ++i) {
    trainer.Add(RandomFeeds(graph, static_cast<uint32_t>(100 + 3 * batch + i)), i);
  }
  while (!trainer.Advance(0.02).finished) {
  }
}

/// All that a trained model consists of.
std::string Bits(const QuantizedModel& model) {
  std::string out = RecordToJson(model.record);
  for (const auto& value : model.float_graph.values()) {
    if (!value->is_constant() || value->constant.dtype() != DType::kFloat32) continue;
    out += value->name;
    const auto* bytes = static_cast<const char*>(value->constant.raw());
    out.append(bytes, value->constant.bytes());
  }
  for (const TensorQuantizationConfig& config : model.record.configs) {
    out.append(static_cast<const char*>(config.baked.raw()), config.baked.bytes());
  }
  return out;
}

std::vector<TrainOptions> Variants() {
  std::vector<TrainOptions> variants(6);
  variants[1].optimizer = TrainOptimizer::kSgd;
  variants[2].scales = TrainScales::kObserve;
  variants[3].batch_norm = false;
  variants[4].measured_batches = 3;  // the state is taken while the start is measured
  variants[5].scales = TrainScales::kKeep;
  variants[5].measured_batches = 2;
  return variants;
}

/// Trains with Freeze() before the fourth batch. In front of batch `stop` another trainer takes
/// over.
std::string Trained(const QuantizedModel& model, const Graph& graph, const TrainOptions& options,
                    int stop, bool snapshots) {
  auto trainer = std::make_unique<Trainer>(model, options);
  for (int batch = 0; batch < kBatches; ++batch) {
    if (batch == stop) {
      const std::vector<uint8_t> state = trainer->State();
      trainer = std::make_unique<Trainer>(model, options);
      trainer->Restore(state);
      EXPECT_EQ(trainer->State(), state);
    }
    if (snapshots && batch > 0) {
      EXPECT_FALSE(Bits(trainer->Snapshot()).empty());
    }
    if (batch == 3) trainer->Freeze();
    LearnBatch(*trainer, graph, batch);
  }
  if (snapshots) {
    EXPECT_EQ(Bits(trainer->Snapshot()), Bits(trainer->Snapshot()));
  }
  return Bits(trainer->Finish());
}

TEST(TrainerState, GoesOnAsIfNothingHadHappened) {
  const Graph graph = SmallNetwork();
  const QuantizedModel model = Start(graph);
  for (const TrainOptions& options : Variants()) {
    const std::string whole = Trained(model, graph, options, -1, false);
    EXPECT_EQ(Trained(model, graph, options, -1, true), whole) << "with snapshots";
    for (int stop = 0; stop < kBatches; ++stop) {
      EXPECT_EQ(Trained(model, graph, options, stop, false), whole)
          << "saved before batch " << stop;
    }
  }
}

TEST(TrainerState, SnapshotIsWhatFinishWouldGive) {
  const Graph graph = SmallNetwork();
  const QuantizedModel model = Start(graph);
  Trainer trainer(model, {});
  for (int batch = 0; batch < 3; ++batch) LearnBatch(trainer, graph, batch);
  const std::string now = Bits(trainer.Snapshot());
  EXPECT_EQ(Bits(trainer.Finish()), now);
}

TEST(TrainerState, RefusesOtherBytes) {
  const Graph graph = SmallNetwork();
  const QuantizedModel model = Start(graph);
  Trainer trainer(model, {});
  LearnBatch(trainer, graph, 0);
  const std::vector<uint8_t> state = trainer.State();
  const auto refused = [&](std::span<const uint8_t> bytes, const TrainOptions& options,
                           const QuantizedModel& of) {
    Trainer other(of, options);
    try {
      other.Restore(bytes);
    } catch (const Error& error) {
      return error.code() == ErrorCode::kInvalidArgument;
    }
    return false;
  };
  EXPECT_FALSE(refused(state, {}, model));
  for (size_t size = 0; size < state.size(); size += 1 + state.size() / 97) {
    EXPECT_TRUE(refused(std::span(state).first(size), {}, model)) << size;
  }
  std::vector<uint8_t> longer = state;
  longer.push_back(0);
  EXPECT_TRUE(refused(longer, {}, model));
  std::vector<uint8_t> foreign = state;
  foreign[0] ^= 1;
  EXPECT_TRUE(refused(foreign, {}, model));
  TrainOptions sgd;
  sgd.optimizer = TrainOptimizer::kSgd;
  EXPECT_TRUE(refused(state, sgd, model));
  trainer.Add(RandomFeeds(graph, 1), 0);
  trainer.Advance(0.1);
  EXPECT_THROW(trainer.State(), Error) << "within a batch";
}

}  // namespace
}  // namespace requant
