// A calibration divided among shards equals an undivided one, to the last bit.
#include <gtest/gtest.h>

#include "base/error.h"
#include "ir/text.h"
#include "quant/model.h"

namespace requant {
namespace {

TensorMap AllValues(const Graph& graph, const TensorMap& feeds) {
  TensorMap seen = feeds;
  InterpretOptions options;
  options.observe = [&](const Value& value, const Tensor& tensor) { seen[value.name] = tensor; };
  Interpret(graph, feeds, options);
  return seen;
}

void Show(Quantizer& quantizer, int pass, const TensorMap& feeds) {
  if (pass == 0) quantizer.Keep(feeds);
  if (quantizer.wants_sample(pass)) {
    // Asking for the names may equalize the network.
    const std::vector<std::string> names = quantizer.observed_values(pass);
    const TensorMap seen = AllValues(quantizer.graph(), feeds);
    for (const std::string& name : names) quantizer.Observe(pass, name, seen.at(name));
  }
  quantizer.EndSample(pass);
}

void ExpectSharded(const Graph& graph, const QuantizeOptions& options,
                   const std::vector<int>& bounds) {
  Quantizer whole(FloatModel(graph), options);
  std::vector<TensorMap> samples;
  for (int i = 0; i < bounds.back(); ++i) {
    samples.push_back(RandomFeeds(graph, 100 + static_cast<uint32_t>(i)));
  }
  for (int pass = 0; pass < whole.passes(); ++pass) {
    for (const TensorMap& sample : samples) Show(whole, pass, sample);
  }
  Quantizer total(FloatModel(graph), options);
  for (int pass = 0; pass < whole.passes(); ++pass) {
    std::vector<uint8_t> before;
    if (pass > 0) before = total.SaveState(pass - 1);
    for (size_t shard = 0; shard + 1 < bounds.size(); ++shard) {
      Quantizer own(FloatModel(graph), options);
      if (pass == 0 && bounds[shard] > 0) {
        own.SetProbing(true);
        Show(own, 0, samples[0]);
        own.SetProbing(false);
      }
      own.SetFirstSample(bounds[shard]);
      if (pass > 0) own.LoadState(pass - 1, before);
      for (int i = bounds[shard]; i < bounds[shard + 1]; ++i) {
        Show(own, pass, samples[static_cast<size_t>(i)]);
      }
      const std::vector<uint8_t> state = own.SaveState(pass);
      if (shard == 0) {
        total.LoadState(pass, state);
      } else {
        total.MergeState(pass, state);
      }
    }
  }
  const QuantizedModel wanted = whole.Finish();
  const QuantizedModel got = total.Finish();
  EXPECT_EQ(RecordToJson(wanted.record), RecordToJson(got.record));
  PrintOptions all;
  all.max_constant_elements = 1u << 20;
  EXPECT_EQ(PrintGraph(LowerToInteger(wanted).graph(), all),
            PrintGraph(LowerToInteger(got).graph(), all));
}

TEST(Shards, FourAreOne) {
  const Graph graph = SmallNetwork();
  QuantizeOptions options;
  ExpectSharded(graph, options, {0, 3, 4, 10, 16});
  options.global.activations.observer = "auto";
  options.global.weights.observer = "auto";
  options.global.weights.bits = 4;
  ExpectSharded(graph, options, {0, 5, 6, 7, 12});
  options.global.activations.observer = "kl";
  options.recover = {"equalize_activations", "round_weights", "bias_correction"};
  ExpectSharded(graph, options, {0, 3, 4, 9, 14});
  options.recover = {"adaround"};
  options.recover_steps = 5;
  ExpectSharded(graph, options, {0, 2, 4, 6, 8});
}

TEST(Shards, StrangersAreRefused) {
  const Graph graph = SmallNetwork();
  Quantizer quantizer(FloatModel(graph), {});
  const std::vector<uint8_t> state = quantizer.SaveState(0);
  QuantizeOptions other;
  other.global.activations.observer = "mse";
  EXPECT_THROW(Quantizer(FloatModel(graph), other).LoadState(0, state), Error);
  EXPECT_THROW(Quantizer(FloatModel(graph), {}).MergeState(0, std::span(state).subspan(0, 9)),
               Error);
  const std::vector<uint8_t> noise(64, 7);
  EXPECT_THROW(Quantizer(FloatModel(graph), {}).LoadState(0, noise), Error);
}

}  // namespace
}  // namespace requant
