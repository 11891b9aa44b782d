// Lowers the products of both bytes of 16-bit codes and what combines them as one step, for one
// thread: ConvInteger or MatMulInteger of the high and of the low bytes, and CombineSums16
// (ops/quantized/wide_rewrite.cpp).
//
// The step computes some rows of both products at a time, whose sums stay in a cache until they are
// combined. Threads would have to wait for each other at every such turn, so that plans for several
// of them have three steps.
#include <algorithm>

#include "base/checked_math.h"
#include "plan/lower/convolution/qconv.h"
#include "plan/lower/convolution/window_step.h"
#include "plan/lower/product/integer_product.h"
#include "plan/lower/rows.h"
#include "plan/lower/steps.h"
#include "plan/lower/wide/combine.h"

namespace requant {
namespace {

/// Bytes of the sums of one turn: half of a small second-level cache.
constexpr int64_t kSumsBytes = 1 << 17;

/// Inputs: the high bytes, if there are any, and the low ones.
class WideProductStep : public StepOf<StepKind::kWideProduct> {
 public:
  void Fields(PlanArchive& archive) override {
    archive.Fields(params, high_zero, high_signed, rows, sums_offset);
    archive.Blob(params.weights);
    archive.Kernel(ConvQ8Kernels(), kernel, run);
    combiner.Fields(archive);
  }
  void Run(const RunContext& context) const override {
    const bool splits = inputs.size() > 1;
    const auto channels = static_cast<ptrdiff_t>(combiner.channels);
    auto* scratch = context.Write<uint8_t>(workspace);
    auto* sums = reinterpret_cast<int32_t*>(scratch + sums_offset);
    auto* out = context.Write<uint8_t>(outputs[0]);
    auto* low = outputs.size() > 1 ? context.Write<uint8_t>(outputs[1]) : nullptr;
    ConvQ8Params of_low = params;
    of_low.workspace = scratch;
    of_low.input = context.Read(inputs.back());
    ConvQ8Params of_high = of_low;
    of_high.input = context.Read(inputs[0]);
    of_high.input_signed = high_signed;
    of_high.input_zero_point = high_zero;
    const int32_t all = ConvRows(params.geometry);
    const size_t bytes = combiner.ElementBytes();
    for (int32_t row = 0; row < all; row += rows) {
      const int32_t count = std::min(rows, all - row);
      int32_t* high_sums = sums + count * channels;
      Multiply(of_low, row, count, sums);
      if (splits) Multiply(of_high, row, count, high_sums);
      const size_t at = static_cast<size_t>(row) * combiner.channels;
      combiner.Run({splits ? high_sums : nullptr, sums, combiner.channels},
                   static_cast<size_t>(count), 0, combiner.channels, out + at * bytes,
                   low ? low + at : nullptr);
    }
  }
  int panel() const override { return params.geometry.panel_rows; }

  ConvQ8Params params;  // of the low bytes, or of the codes where these are bytes
  int32_t high_zero = 0, high_signed = 0;
  int32_t rows = 0;  // of one turn
  size_t sums_offset = 0;
  wide::Combiner combiner;
  void (*run)(const ConvQ8Params*) = nullptr;

 private:
  /// Computes the sums of some rows. Kernels write row r to output + r * channels.
  void Multiply(ConvQ8Params& call, int32_t row, int32_t count, int32_t* to) const {
    call.row_begin = row;
    call.row_end = row + count;
    const size_t before = static_cast<size_t>(row) * combiner.channels * sizeof(int32_t);
    // The kernel adds these bytes again; in between the address need not be one of the buffer.
    const uintptr_t output = reinterpret_cast<uintptr_t>(to) - before;
    call.output = reinterpret_cast<void*>(output);  // NOLINT(performance-no-int-to-ptr)
    run(&call);
  }
};

/// The nodes of a division into products of bytes.
struct WideProduct {
  const Node* high = nullptr;  // null where the data has 8 bits
  const Node* low = nullptr;
  const Node* combine = nullptr;
};

/// The node that makes `value` and is an integer product that nothing else reads.
const Node* ProductOf(const PlanBuilder& builder, const Value* value, const Node& like) {
  const Node* made = value->producer;
  const bool fits = made && made->op_type == like.op_type && made->domain == like.domain &&
                    builder.graph().SoleConsumer(value) && !builder.IsAbsorbed(made) &&
                    builder.Has(made->inputs[0]) &&
                    (made->input(2) == nullptr || made->constant(2)) && HasOneInputZero(*made);
  return fits ? made : nullptr;
}

std::optional<WideProduct> ProductFor(const PlanBuilder& builder, const Node& node) {
  WideProduct found;
  found.combine = builder.graph().SoleConsumer(node.outputs[0]);
  if (!builder.options().fuse || !found.combine || !IsWideProduct(node)) return std::nullopt;
  const Value* high = found.combine->input(2);
  found.low = ProductOf(builder, found.combine->inputs[0], node);
  if (high) found.high = ProductOf(builder, high, node);
  if (found.low == nullptr || (high && found.high == nullptr)) return std::nullopt;
  if (high &&
      (found.high->inputs[1] != found.low->inputs[1] ||
       found.high->input(3) != found.low->input(3) ||
       found.high->inputs[0]->type.StaticShape() != found.low->inputs[0]->type.StaticShape())) {
    return std::nullopt;
  }
  return found;
}

int32_t ZeroOf(const Node& product) {
  const Tensor* zero = product.constant(2);
  return zero ? static_cast<int32_t>(zero->AsInt64(0)) : 0;
}

bool AddWideProduct(PlanBuilder& builder, const Node& node, const ConvGeometry& geometry,
                    const ConvWeightsLayout& weights_layout, Layout layout) {
  const auto product = ProductFor(builder, node);
  if (!product || builder.options().threads > 1) return false;
  const auto zeros = WeightZeros(*product->low, geometry.out_c);
  auto combiner = wide::ReadCombiner(*product->combine);
  if (!zeros || !combiner || combiner->channels != static_cast<size_t>(geometry.out_c) ||
      (layout == Layout::kPlain) != wide::CombinesLast(*product->combine)) {
    return false;
  }
  // One form of the weights serves both products: any codes are allowed.
  const Tensor* weights = product->low->constant(1);
  const ByteWeights packing =
      ByteWeightsOf(builder, weights_layout, *weights, zeros->empty() ? nullptr : zeros->data());
  const CodeRange codes{packing.input_lo, packing.input_hi};
  std::string tuning = QTuningOf("conv_q8", geometry, codes, packing);
  const ConvQ8Kernel& kernel = ChooseConvQ8(builder, packing, geometry, tuning);
  const uint8_t* packed = PackBytes(builder, kernel, packing);
  std::vector<int> inputs;
  if (product->high) inputs.push_back(builder.In(product->high->inputs[0], layout));
  inputs.push_back(builder.In(product->low->inputs[0], layout));
  for (const Node* other : {product->high, product->low, product->combine}) {
    if (other && other != &node) builder.Absorb(other, node);
  }
  const wide::CombinedOutput output =
      wide::TakeOutput(builder, *product->combine, node, layout, *combiner);
  auto& step = builder.Add<WideProductStep>(node, kernel.name, inputs, output.slots);
  step.op = node.op_type + "+" + output.op;
  step.run = kernel.run;
  step.params.geometry = geometry;
  step.params.weights = packed;
  step.params.output_type = ConvQ8Output::kInt32;
  step.params.input_signed = product->low->inputs[0]->type.dtype == DType::kInt8;
  step.params.input_zero_point = ZeroOf(*product->low);
  if (product->high) {
    step.high_signed = product->high->inputs[0]->type.dtype == DType::kInt8;
    step.high_zero = ZeroOf(*product->high);
  }
  // A turn has whole panels, which share each load of weights, or at least eight lines, since
  // kernels that read lines in place convert those above anew.
  const int64_t products = product->high ? 2 : 1;
  const int64_t row_bytes = products * geometry.out_c * static_cast<int64_t>(sizeof(int32_t));
  const int64_t tile = kernel.walk == ConvWalk::kPanels
                           ? int64_t{conv::PanelRows(geometry, conv::Depth(geometry))}
                           : std::max<int64_t>(TileOf(kernel.walk, geometry), geometry.out_w);
  const int64_t all = ConvRows(geometry), least = kernel.walk == ConvWalk::kPanels ? 1 : 8;
  step.rows =
      static_cast<int32_t>(std::min(all, std::max(least, kSumsBytes / row_bytes / tile) * tile));
  const size_t kernel_bytes = CheckedAlign(kernel.workspace_size(geometry), 16);
  step.sums_offset = kernel_bytes;
  step.workspace = builder.Workspace(CheckedAdd(
      kernel_bytes, CheckedMul(static_cast<size_t>(step.rows), static_cast<size_t>(row_bytes))));
  step.tuning = std::move(tuning);
  step.macs = products * all * geometry.out_c * TapsOf(weights_layout);
  step.combiner = std::move(*combiner);
  return true;
}

}  // namespace

bool LowerWideConvInteger(PlanBuilder& builder, const Node& node) {
  const auto geometry = IntegerConvGeometry(node);
  return geometry &&
         AddWideProduct(builder, node, *geometry,
                        OihwLayout(geometry->out_c, geometry->in_c / geometry->groups,
                                   geometry->kernel_h, geometry->kernel_w, geometry->groups),
                        Layout::kChannelsLast);
}

bool LowerWideMatMulInteger(PlanBuilder& builder, const Node& node) {
  ConvWeightsLayout layout;
  const auto geometry = IntegerMatrixGeometry(node, layout);
  return geometry && AddWideProduct(builder, node, *geometry, layout, Layout::kPlain);
}

RQ_STEP(WideProduct, WideProductStep)

}  // namespace requant
