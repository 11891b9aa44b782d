#include "plan/lower/sequence/attention_bytes.h"

#include <algorithm>
#include <cstring>

#include "base/checked_math.h"
#include "kernels/attention_codes/table.h"
#include "kernels/conv/facts.h"
#include "kernels/quantize/table.h"
#include "plan/lower/convolution/qconv.h"
#include "plan/lower/convolution/window.h"
#include "plan/lower/product/dynamic.h"
#include "plan/lower/sequence/column_ranges.h"

namespace requant {
namespace {

/// With fewer keys the float kernels are as fast (measured with AVX-VNNI: 0.7 times as fast with 64
/// keys, 1.0 to 1.1 with 128, 1.3 to 1.7 with 512); so are they for few queries, for which packing
/// keys takes long.
constexpr int64_t kLeastQueries = 16;
constexpr int64_t kLeastKeys = 128;
/// int32 holds so many products of a share's byte and a value.
constexpr int64_t kMostKeys = INT32_MAX / (255 * 127) / 4 * 4;
constexpr int32_t kZeroOfQueries = 128;

/// Rounds up to the elements that the kernels take at a time.
int64_t Filled(int64_t count) { return (count + 3) / 4 * 4; }

class ByteAttentionStep : public AttentionStep {
 public:
  StepKind kind() const override { return StepKind::kByteAttention; }
  void Fields(PlanArchive& archive) override {
    CommonFields(archive);
    archive.Fields(products);
    archive.Kernel(ConvQ8Kernels(), kernel, run);
  }

  ByteProducts products;
  void (*run)(const ConvQ8Params*) = nullptr;

 protected:
  void Pack(const RunContext& context, std::span<const Lane> heads) const override {
    const auto total = static_cast<int>(heads.size());
    AttentionCodesParams tokens[kMaxThreads];
    const bool centers = form.softcap == 0 && !form.sinks();
    for (int i = 0; i < total; ++i) {
      const Lane& lane = heads[static_cast<size_t>(i)];
      AttentionCodesParams& call = tokens[i];
      call.in = lane.keys;
      call.out = Own<uint8_t>(lane, products.places.codes);
      call.factors = Own<float>(lane, products.places.key_factors);
      call.rows = static_cast<size_t>(form.keys);
      call.columns = static_cast<size_t>(form.width);
      call.in_row_stride = static_cast<size_t>(lane.key_stride);
      call.out_row_stride = static_cast<size_t>(Filled(form.width));
      call.is_signed = 1;
      if (!centers) continue;
      auto* mean = Own<float>(lane, products.places.offset);
      MeanOfRows({lane.keys, form.keys, lane.key_stride, form.width}, mean);
      call.offset = mean;
    }
    RunLanes(context, AttentionCodesRow(AttentionCodesOp::kTokens), tokens, total);
    const ConvQ8Kernel& row = ConvQ8KernelOf(kernel);
    for (const Lane& lane : heads) {
      auto* codes = Own<uint8_t>(lane, products.places.codes);
      auto* factors = Own<float>(lane, products.places.key_factors);
      for (int64_t key = 0; key < form.keys; ++key) factors[key] *= form.scale;
      row.pack_weights(WeightsOf(products.keys, codes), lane.memory + places.keys);
      PackValues(row, lane, codes);
    }
  }

  void RunPanel(const RunContext& context, const AttentionInputs& source, int64_t b, int64_t query,
                std::span<const Lane> used) const override {
    const int64_t count = CountAt(query);
    const auto total = static_cast<int>(used.size());
    AttentionCodesParams codes[kMaxThreads];
    ConvQ8Params calls[kMaxThreads];
    for (int i = 0; i < total; ++i) {
      const Lane& lane = used[static_cast<size_t>(i)];
      AttentionCodesParams& call = codes[i];
      call.in = source.data(0) + form.q.At(b, lane.head, query);
      call.in_row_stride = static_cast<size_t>(form.q.token);
      if (form.cos_slot >= 0) {
        auto* rotated = Own<float>(lane, products.places.rotated);
        source.Queries(b, lane.head, query, count, rotated);
        call.in = rotated;
        call.in_row_stride = static_cast<size_t>(form.width);
      }
      call.out = Own<uint8_t>(lane, products.places.queries);
      call.factors = Own<float>(lane, products.places.query_factors);
      call.rows = static_cast<size_t>(count);
      call.columns = static_cast<size_t>(form.width);
      call.out_row_stride = static_cast<size_t>(Filled(form.width));
    }
    RunLanes(context, AttentionCodesRow(AttentionCodesOp::kTokens), codes, total);
    for (int i = 0; i < total; ++i) {
      const Lane& lane = used[static_cast<size_t>(i)];
      calls[i] = Call(lane, products.scores, count);
      calls[i].input = codes[i].out;
      calls[i].weights = lane.memory + places.keys;
      calls[i].output = lane.memory + places.scores;
      FloatSums& sums = calls[i].sums;
      sums.scale = Own<float>(lane, products.places.key_factors);
      sums.row_scale = codes[i].factors;
      if (form.softcap != 0) continue;
      sums.residual = lane.MaskAt(query);
      sums.residual_stride = static_cast<int32_t>(lane.mask_stride);
    }
    RunLanes(context, run, calls, total);
    for (int i = 0; i < total; ++i) {
      const Lane& lane = used[static_cast<size_t>(i)];
      auto* scores = lane.At<float>(places.scores);
      FinishScores(form, source, lane.head, {scores, count, form.keys, ScoreColumns(form)},
                   lane.MaskAt(query), lane.mask_stride);
      AttentionCodesParams& call = codes[i];
      call = {};
      call.in = scores;
      call.out = Own<uint8_t>(lane, products.places.high);
      call.low = Own<uint8_t>(lane, products.places.low);
      call.factors = Own<float>(lane, products.places.share_factors);
      call.rows = static_cast<size_t>(count);
      call.columns = call.in_row_stride = static_cast<size_t>(ScoreColumns(form));
      call.out_row_stride = static_cast<size_t>(Filled(ScoreColumns(form)));
    }
    RunLanes(context, AttentionCodesRow(AttentionCodesOp::kShares), codes, total);
    for (const bool high : {false, true}) {
      for (int i = 0; i < total; ++i) {
        const Lane& lane = used[static_cast<size_t>(i)];
        calls[i] = Call(lane, products.mix, count);
        auto* y = context.Write<float>(outputs[0]) + form.y.At(b, lane.head, query);
        calls[i].input = high ? codes[i].out : codes[i].low;
        calls[i].weights = lane.memory + places.values;
        calls[i].output = y;
        FloatSums& sums = calls[i].sums;
        sums.scale =
            Own<float>(lane, high ? products.places.high_factors : products.places.value_factors);
        sums.row_scale = codes[i].factors;
        if (!high) continue;
        sums.residual = y;
        sums.residual_stride = static_cast<int32_t>(form.y.token);
      }
      RunLanes(context, run, calls, total);
    }
  }

 private:
  template <typename T>
  T* Own(const Lane& lane, size_t place) const {
    return lane.At<T>(places.own + place);
  }

  static ConvQ8Weights WeightsOf(const ConvWeightsLayout& layout, const void* codes) {
    ConvQ8Weights weights;
    weights.layout = layout;
    weights.data = codes;
    weights.dynamic = true;
    return weights;
  }

  /// The product for the rows of a panel, without operands.
  ConvQ8Params Call(const Lane& lane, const ConvQ8Params& product, int64_t count) const {
    ConvQ8Params call = product;
    call.row_end = static_cast<int32_t>(count);
    call.workspace = Own<uint8_t>(lane, products.places.workspace);
    return call;
  }

  /// Codes a head's values by channels and packs them; rows that fill the last step are 0.
  void PackValues(const ConvQ8Kernel& row, const Lane& lane, uint8_t* codes) const {
    auto* scales = Own<float>(lane, products.places.value_factors);
    auto* high = Own<float>(lane, products.places.high_factors);
    const int64_t width = form.value_width;
    ScalesOfColumns({lane.values, form.keys, lane.value_stride, width}, scales);
    for (int64_t i = 0; i < width; ++i) high[i] = 256 * scales[i];
    QuantizeParams call{};
    call.in = lane.values;
    call.out = codes;
    call.rows = static_cast<size_t>(form.keys);
    call.cols = call.out_row_stride = static_cast<size_t>(width);
    call.in_row_stride = static_cast<size_t>(lane.value_stride);
    call.scales = scales;
    call.lo = -127;
    call.hi = 127;
    QuantizeKernels().back().run(&call);
    std::memset(codes + form.keys * width, 0,
                static_cast<size_t>((Filled(form.keys) - form.keys) * width));
    row.pack_weights(WeightsOf(products.values, codes), lane.memory + places.values);
  }
};

/// Reserves so many bytes behind `end` and returns their offset.
size_t Take(size_t& end, int64_t rows, int64_t bytes) {
  const size_t at = end;
  const size_t size = CheckedMul(static_cast<size_t>(rows), static_cast<size_t>(bytes));
  end = CheckedAdd(end, Padded(size));
  return at;
}

}  // namespace

std::optional<PlannedBytes> PlanByteAttention(const PlanBuilder& builder, const AttentionForm& form,
                                              int64_t panel) {
  if (form.queries < kLeastQueries || form.keys < kLeastKeys || form.keys > kMostKeys) {
    return std::nullopt;
  }
  PlannedBytes out;
  ByteProducts& products = out.products;
  const int64_t columns = ScoreColumns(form);
  ConvGeometry scores = MatMulGeometry(panel, Filled(form.width), form.keys);
  ConvGeometry mix = MatMulGeometry(panel, Filled(form.keys), form.value_width);
  if (columns > INT32_MAX / 8 || form.y.token > INT32_MAX / 8 || !FitsInt32(scores) ||
      !FitsInt32(mix)) {
    return std::nullopt;
  }
  scores.output_stride = static_cast<int32_t>(columns);
  mix.input_stride = static_cast<int32_t>(Filled(columns));
  mix.output_stride = static_cast<int32_t>(form.y.token);
  if (!FitsInt32(scores) || !FitsInt32(mix)) return std::nullopt;
  products.scores.geometry = scores;
  products.scores.input_zero_point = kZeroOfQueries;
  products.mix.geometry = mix;
  products.scores.output_type = products.mix.output_type = ConvQ8Output::kFloat32;

  ConvQ8Facts facts;
  facts.range = {-127, 127};
  ConvQ8Weights keys, values;
  for (ConvQ8Weights* weights : {&keys, &values}) {
    weights->dynamic = true;
    weights->facts = &facts;
    weights->input_lo = 0;
    weights->input_hi = 255;
  }
  keys.layout.out_c = static_cast<int32_t>(form.keys);
  keys.layout.in_c_per_group = static_cast<int32_t>(Filled(form.width));
  keys.layout.stride_o = Filled(form.width);
  keys.layout.stride_i = 1;
  values.layout.out_c = static_cast<int32_t>(form.value_width);
  values.layout.in_c_per_group = static_cast<int32_t>(Filled(form.keys));
  values.layout.stride_o = 1;
  values.layout.stride_i = form.value_width;
  out.kernel = &ChooseConvQ8(builder, keys, scores, "");
  const bool fast = out.kernel->run == rq_conv_q8_dot8 || builder.IsForced("conv_q8");
  if (!fast || !out.kernel->supports(values, mix)) return std::nullopt;
  products.keys = keys.layout;
  products.values = values.layout;
  products.packed_keys = out.kernel->packed_size(keys);
  products.packed_values = out.kernel->packed_size(values);

  constexpr auto kFloat = static_cast<int64_t>(sizeof(float));
  BytePlaces& places = products.places;
  size_t& end = out.own;
  if (form.cos_slot >= 0) places.rotated = Take(end, panel, form.width * kFloat);
  places.queries = Take(end, panel, Filled(form.width));
  places.high = Take(end, panel, Filled(columns));
  places.low = Take(end, panel, Filled(columns));
  places.query_factors = Take(end, panel, kFloat);
  places.share_factors = Take(end, panel, kFloat);
  places.key_factors = Take(end, form.keys, kFloat);
  places.offset = Take(end, form.width, kFloat);
  places.value_factors = Take(end, form.value_width, kFloat);
  places.high_factors = Take(end, form.value_width, kFloat);
  places.codes = Take(end, Filled(form.keys), std::max(Filled(form.width), form.value_width));
  places.workspace = Take(end, 1,
                          static_cast<int64_t>(std::max(out.kernel->workspace_size(scores),
                                                        out.kernel->workspace_size(mix))));
  return out;
}

AttentionStep& AddByteAttention(PlanBuilder& builder, const Node& node, const PlannedBytes& planned,
                                const std::vector<int>& inputs, const std::vector<int>& outputs) {
  auto& step = builder.Add<ByteAttentionStep>(node, planned.kernel->name, inputs, outputs);
  step.run = planned.kernel->run;
  step.products = planned.products;
  return step;
}

RQ_STEP(ByteAttention, ByteAttentionStep)

}  // namespace requant
