// Lowers SplitBytes and CombineSums16, between which the kernels of 8 bits compute sums of products
// (ops/quantized/wide_rewrite.cpp).
#include <utility>

#include "plan/archive.h"
#include "plan/lower/rows.h"
#include "plan/lower/steps.h"
#include "plan/lower/wide/codes.h"
#include "plan/lower/wide/combine.h"

namespace requant {
namespace {

class SplitBytesStep : public StepOf<StepKind::kSplitBytes> {
 public:
  void Fields(PlanArchive& archive) override { archive.Fields(count); }
  void Run(const RunContext& context) const override {
    const auto* from = context.Read<uint8_t>(inputs[0]);
    auto* high = context.Write<uint8_t>(outputs[0]);
    auto* low = context.Write<uint8_t>(outputs[1]);
    size_t i = 0;
    for (; i + 16 <= count; i += 16) {
      const v128_t a = wasm_v128_load(from + 2 * i), b = wasm_v128_load(from + 2 * i + 16);
      wasm_v128_store(low + i, wasm_i8x16_shuffle(a, b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22,
                                                  24, 26, 28, 30));
      wasm_v128_store(high + i, wasm_i8x16_shuffle(a, b, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23,
                                                   25, 27, 29, 31));
    }
    for (; i < count; ++i) {
      low[i] = from[2 * i];
      high[i] = from[2 * i + 1];
    }
  }
  size_t count = 0;
};

class CombineSumsStep : public StepOf<StepKind::kCombineSums> {
 public:
  void Fields(PlanArchive& archive) override {
    archive.Fields(rows, splits);
    combiner.Fields(archive);
  }
  void Run(const RunContext& context) const override {
    const int32_t* high = splits ? context.Read<int32_t>(inputs[0]) : nullptr;
    const auto* low = context.Read<int32_t>(inputs.back());
    combiner.Run({high, low, combiner.channels}, rows, 0, combiner.channels,
                 context.Write<uint8_t>(outputs[0]),
                 outputs.size() > 1 ? context.Write<uint8_t>(outputs[1]) : nullptr);
  }

  size_t rows = 0;
  bool splits = false;  // whether there are sums of high bytes
  wide::Combiner combiner;
};

}  // namespace

bool LowerSplitBytes(PlanBuilder& builder, const Node& node) {
  const Value* x = node.inputs[0];
  if (node.output(0) == nullptr || node.output(1) == nullptr || !IsWide(x->type.dtype)) {
    return false;
  }
  const Layout layout = builder.LayoutOf(x);
  const int input = builder.In(x, layout);
  const int high = builder.Out(node.outputs[0], layout);
  const int low = builder.Out(node.outputs[1], layout);
  auto& step = builder.Add<SplitBytesStep>(node, "split_bytes", {input}, {high, low});
  step.count = static_cast<size_t>(NumElements(x->type.StaticShape()));
  return true;
}

bool LowerCombineSums(PlanBuilder& builder, const Node& node) {
  auto combiner = wide::ReadCombiner(node);
  if (!combiner) return false;
  const Value* low = node.inputs[0];
  const Value* high = node.input(2);
  const Shape shape = low->type.StaticShape();
  const Layout layout = wide::CombinesLast(node) ? Layout::kPlain : Layout::kChannelsLast;
  std::vector<int> inputs;
  if (high) inputs.push_back(builder.In(high, layout));
  inputs.push_back(builder.In(low, layout));
  const wide::CombinedOutput output = wide::TakeOutput(builder, node, node, layout, *combiner);
  auto& step = builder.Add<CombineSumsStep>(node, "combine_sums", inputs, output.slots);
  step.op = output.op;
  step.rows = static_cast<size_t>(NumElements(shape)) / combiner->channels;
  step.splits = high != nullptr;
  step.combiner = std::move(*combiner);
  return true;
}

RQ_STEP(SplitBytes, SplitBytesStep)
RQ_STEP(CombineSums, CombineSumsStep)

}  // namespace requant
