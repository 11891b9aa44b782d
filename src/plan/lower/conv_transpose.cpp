// Float ConvTranspose: a matrix product gives what every input pixel adds to the outputs, then each
// output pixel gathers its sum.
#include "kernels/col2im/table.h"
#include "plan/lower/epilogue.h"
#include "plan/lower/parts.h"
#include "plan/lower/rows.h"
#include "plan/lower/steps.h"

namespace requant {
namespace {

class Col2ImStep : public Step {
 public:
  StepKind kind() const override { return StepKind::kCol2Im; }
  void Fields(PlanArchive& archive) override {
    archive.Fields(params);
    archive.Kernel(Col2ImF32Kernels(), kernel, run);
  }
  void Run(const RunContext& context) const override {
    Col2ImF32Params call = params;
    call.products = context.Read<float>(inputs[0]);
    call.bias = inputs.size() > 1 ? context.Read<float>(inputs[1]) : nullptr;
    call.output = context.Write<float>(outputs[0]);
    RunParts(context, parts, run, call);
  }
  bool WriteWithStride(size_t elements) override {
    return SetOutputStride(params.geometry, elements);
  }
  Col2ImF32Params params;
  void (*run)(const Col2ImF32Params*) = nullptr;
};

/// The weights [in_c, out_c / groups, kernel_h, kernel_w] as those of the product: for each of
/// groups x kernel_h x kernel_w x (out_c / groups) outputs the in_c / groups inputs.
std::vector<float> ProductWeights(const ConvGeometry& g, const float* weights) {
  const int64_t depth = g.in_c / g.groups;
  const int64_t width = g.out_c / g.groups;
  const int64_t taps = int64_t{g.kernel_h} * g.kernel_w;
  std::vector<float> out;
  out.reserve(static_cast<size_t>(depth * taps * g.out_c));
  for (int64_t group = 0; group < g.groups; ++group) {
    for (int64_t tap = 0; tap < taps; ++tap) {
      for (int64_t o = 0; o < width; ++o) {
        for (int64_t i = 0; i < depth; ++i) {
          out.push_back(weights[((group * depth + i) * width + o) * taps + tap]);
        }
      }
    }
  }
  return out;
}

}  // namespace

bool LowerConvTranspose(PlanBuilder& builder, const Node& node) {
  const Value* x = node.inputs[0];
  const Tensor* weights = node.constant(1);
  if (weights == nullptr || weights->dtype() != DType::kFloat32) return false;
  const Shape in = x->type.StaticShape();
  const auto geometry =
      TransposedGeometryOf(node, in, node.outputs[0]->type.StaticShape(), weights->shape());
  if (!geometry) return false;
  const ConvGeometry& g = *geometry;
  const double wide = static_cast<double>(g.kernel_h) * g.kernel_w * g.out_c;
  if (wide > 1 << 28) return false;
  ConvGeometry product;
  product.batch = g.batch;
  product.in_h = product.out_h = g.in_h;
  product.in_w = product.out_w = g.in_w;
  product.in_c = product.input_stride = g.in_c;
  product.out_c = product.output_stride = static_cast<int32_t>(wide);
  product.groups = g.groups;
  if (!FitsInt32(product) || !FitsInt32(g)) return false;

  const std::vector<float> rearranged = ProductWeights(g, weights->data<float>());
  const ConvF32Weights source{OihwLayout(product.out_c, g.in_c / g.groups, 1, 1, g.groups),
                              rearranged.data(), nullptr};
  const int products = builder.Workspace(sizeof(float) * static_cast<size_t>(ConvRows(product)) *
                                         static_cast<size_t>(product.out_c));
  Epilogue none;
  none.op = node.op_type;
  AddConvF32Step(builder, node, product, source, {builder.In(x, Layout::kChannelsLast)}, products,
                 none);
  const Epilogue epilogue = TakeEpilogue(builder, node, false);
  std::vector<int> inputs{products};
  if (node.input(2)) inputs.push_back(builder.In(node.inputs[2]));
  const Col2ImF32Kernel& kernel = builder.Choose("col2im_f32", Col2ImF32Kernels());
  const int output = builder.Out(epilogue.output, Layout::kChannelsLast);
  auto& step = builder.Add<Col2ImStep>(node, kernel.name, inputs, {output});
  step.op = epilogue.op;
  step.run = kernel.run;
  step.params.geometry = g;
  step.params.row_end = ConvRows(g);
  step.params.lo = static_cast<float>(epilogue.clamp.lo);
  step.params.hi = static_cast<float>(epilogue.clamp.hi);
  const int64_t sums = int64_t{ConvRows(g)} * g.out_c * g.kernel_h * g.kernel_w;
  DivideRows(builder, step, kernel.run, ConvRows(g), 1, sums, kSlowMacsPerPart);
  return true;
}

std::unique_ptr<Step> NewCol2ImStep(StepKind kind) {
  if (kind == StepKind::kCol2Im) return std::make_unique<Col2ImStep>();
  return nullptr;
}

}  // namespace requant
