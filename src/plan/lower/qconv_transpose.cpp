// QLinearConvTranspose as ordinary convolutions. Of stride s, the outputs o with the same
// (o + pad) mod s, a phase, all meet the same taps of the kernel: those k with
// k * dilation = o + pad (mod s). So each phase is a convolution of stride 1 with these taps in
// reverse order, the same products in int32 as the definition has, and the 8-bit kernels compute it
// (W. Shi et al. 2016, "Is the deconvolution layer the same as a convolutional layer?",
// arXiv 1609.07009). Phases with equally many taps are channels of one convolution; one step then
// puts the phases' pixels between each other.
#include <algorithm>
#include <numeric>
#include <utility>

#include "kernels/layout/table.h"
#include "plan/lower/qconv.h"
#include "plan/lower/rows.h"
#include "plan/lower/steps.h"
#include "plan/lower/window.h"

namespace requant {
namespace {

/// Along one dimension, phases that are one convolution: its output i is each phase's i + begin.
struct PhaseGroup {
  int32_t phases = 0;
  int32_t taps = 0;    // of the convolution; without any it has one that is 0
  int32_t offset = 0;  // inputs that the last of these lies before the output
  int32_t begin = 0, size = 0, pad = 0;
};

/// Outputs of one phase: those at (first + i) * stride + residue - pad, for i < count.
struct Phase {
  int32_t residue, first, count;
  size_t group;
};

int32_t FloorDiv(int32_t a, int32_t b) { return a / b - (a % b < 0 ? 1 : 0); }

/// One spatial dimension of the ConvTranspose.
struct Axis {
  int32_t output, kernel, stride, dilation, pad;
  std::vector<PhaseGroup> groups;
  std::vector<Phase> phases;                                                // of all groups
  int32_t step() const { return stride / std::gcd(stride, dilation); }      // between taps
  int32_t spread() const { return dilation / std::gcd(stride, dilation); }  // between their inputs
  /// The kernel's taps in the order of the convolution's; -1 for the one of none.
  std::vector<int32_t> TapsOf(const Phase& phase) const {
    const PhaseGroup& group = groups[phase.group];
    if (group.taps == 0) return {-1};
    int32_t tap = 0;
    while (int64_t{tap} * dilation % stride != phase.residue) ++tap;
    std::vector<int32_t> taps;
    for (int32_t i = group.taps; i-- > 0;) taps.push_back(tap + i * step());
    return taps;
  }
};

/// With `apart` every phase is a group of its own.
void GroupPhases(Axis& axis, bool apart) {
  for (int32_t residue = 0; residue < axis.stride; ++residue) {
    Phase phase{residue, -FloorDiv(residue - axis.pad, axis.stride), 0, 0};
    phase.count = FloorDiv(axis.output - 1 + axis.pad - residue, axis.stride) + 1 - phase.first;
    if (phase.count <= 0) continue;
    PhaseGroup own;
    for (int32_t tap = 0; tap < axis.kernel; ++tap) {
      const int64_t at = int64_t{tap} * axis.dilation;
      if (at % axis.stride != residue) continue;
      if (own.taps++ == 0) own.offset = static_cast<int32_t>((at - residue) / axis.stride);
    }
    const auto same = [&](const PhaseGroup& group) {
      return !apart && group.taps == own.taps && group.offset == own.offset;
    };
    const auto found = std::find_if(axis.groups.begin(), axis.groups.end(), same);
    phase.group = static_cast<size_t>(found - axis.groups.begin());
    if (found == axis.groups.end()) axis.groups.push_back(own);
    ++axis.groups[phase.group].phases;
    axis.phases.push_back(phase);
  }
  for (size_t index = 0; index < axis.groups.size(); ++index) {
    PhaseGroup& group = axis.groups[index];
    const int32_t reach = group.offset + std::max(group.taps - 1, 0) * axis.spread();
    group.begin = reach;  // pads are never negative
    int32_t end = 0;
    for (const Phase& phase : axis.phases) {
      if (phase.group != index) continue;
      group.begin = std::min(group.begin, phase.first);
      end = std::max(end, phase.first + phase.count);
    }
    group.size = end - group.begin;
    group.pad = reach - group.begin;
  }
}

/// Pixels of convolutions to their places in the output.
class InterleaveStep : public Step {
 public:
  struct Part {
    uint32_t input;  // of the step
    size_t in_offset, out_offset;
    StridedCopyParams copy;
  };
  StepKind kind() const override { return StepKind::kInterleave; }
  void Fields(PlanArchive& archive) override { archive.Fields(moves); }
  void Run(const RunContext& context) const override {
    auto* out = context.Write<uint8_t>(outputs[0]);
    for (const Part& part : moves) {
      StridedCopyParams call = part.copy;
      call.in = context.Read<uint8_t>(inputs[part.input]) + part.in_offset;
      call.out = out + part.out_offset;
      StridedCopy(&call);
    }
  }
  std::vector<Part> moves;
};

/// One ConvTranspose and what its convolutions share.
class Transposition {
 public:
  Transposition(PlanBuilder& builder, const Node& node, const ConvGeometry& geometry,
                const QProduct& whole)
      : builder_(builder), node_(node), g_(geometry), whole_(whole) {
    rows_ = {g_.out_h, g_.kernel_h, g_.stride_h, g_.dilation_h, g_.pad_top, {}, {}};
    columns_ = {g_.out_w, g_.kernel_w, g_.stride_w, g_.dilation_w, g_.pad_left, {}, {}};
    const bool depthwise = g_.groups == g_.in_c && g_.groups == g_.out_c;
    GroupPhases(rows_, depthwise);
    GroupPhases(columns_, depthwise);
  }

  /// Whether all sizes fit the kernels.
  bool Fits() const {
    for (size_t row = 0; row < rows_.groups.size(); ++row) {
      for (size_t column = 0; column < columns_.groups.size(); ++column) {
        const double phases =
            static_cast<double>(rows_.groups[row].phases) * columns_.groups[column].phases;
        if (phases * g_.out_c >= 1 << 28 || !FitsInt32(GeometryOf(row, column))) return false;
      }
    }
    return true;
  }

  void Plan() {
    const Epilogue epilogue = TakeEpilogue(builder_, node_, false);
    const int input = builder_.In(node_.inputs[0], Layout::kChannelsLast);
    if (rows_.stride == 1 && columns_.stride == 1 && rows_.groups[0].size == g_.out_h &&
        columns_.groups[0].size == g_.out_w) {
      AddConvolution(0, 0, input, builder_.Out(epilogue.output, Layout::kChannelsLast), epilogue);
      return;
    }
    std::vector<int> made;
    std::vector<InterleaveStep::Part> moves;
    for (size_t row = 0; row < rows_.groups.size(); ++row) {
      for (size_t column = 0; column < columns_.groups.size(); ++column) {
        const ConvGeometry geometry = GeometryOf(row, column);
        const int slot = builder_.Workspace(static_cast<size_t>(ConvRows(geometry)) *
                                            static_cast<size_t>(geometry.out_c));
        AddConvolution(row, column, input, slot, epilogue);
        AddMoves(row, column, geometry, static_cast<uint32_t>(made.size()), moves);
        made.push_back(slot);
      }
    }
    const int output = builder_.Out(epilogue.output, Layout::kChannelsLast);
    auto& step = builder_.Add<InterleaveStep>(node_, "strided_copy", made, {output});
    step.moves = std::move(moves);
  }

 private:
  int32_t width() const { return g_.out_c / g_.groups; }

  /// Its channels are, of each group of the weights, each phase's.
  ConvGeometry GeometryOf(size_t row_group, size_t column_group) const {
    const PhaseGroup& rows = rows_.groups[row_group];
    const PhaseGroup& columns = columns_.groups[column_group];
    ConvGeometry geometry = g_;
    geometry.out_h = rows.size;
    geometry.out_w = columns.size;
    geometry.out_c = geometry.output_stride = g_.out_c * rows.phases * columns.phases;
    geometry.kernel_h = std::max(rows.taps, 1);
    geometry.kernel_w = std::max(columns.taps, 1);
    geometry.stride_h = geometry.stride_w = 1;
    geometry.dilation_h = rows_.spread();
    geometry.dilation_w = columns_.spread();
    geometry.pad_top = rows.pad;
    geometry.pad_left = columns.pad;
    return geometry;
  }

  void AddConvolution(size_t row_group, size_t column_group, int input, int output,
                      const Epilogue& epilogue) {
    const ConvGeometry geometry = GeometryOf(row_group, column_group);
    const int32_t depth = g_.in_c / g_.groups;
    std::vector<uint8_t> weights;
    std::vector<int32_t> bias;
    QProduct product = whole_;
    product.weight_scales.clear();
    product.weight_zero_points.clear();
    weights.reserve(static_cast<size_t>(geometry.out_c) * static_cast<size_t>(depth) *
                    static_cast<size_t>(geometry.kernel_h) *
                    static_cast<size_t>(geometry.kernel_w));
    for (int32_t group = 0; group < g_.groups; ++group) {
      for (const Phase& row : rows_.phases) {
        if (row.group != row_group) continue;
        const std::vector<int32_t> y = rows_.TapsOf(row);
        for (const Phase& column : columns_.phases) {
          if (column.group != column_group) continue;
          const std::vector<int32_t> x = columns_.TapsOf(column);
          for (int32_t o = 0; o < width(); ++o) {
            const int32_t index = group * width() + o;
            const auto channel = static_cast<size_t>(index);
            const auto& zeros = whole_.weight_zero_points;
            product.weight_scales.push_back(whole_.weight_scales[channel]);
            product.weight_zero_points.push_back(zeros.empty() ? 0 : zeros[channel]);
            if (whole_.weights.bias) bias.push_back(whole_.weights.bias[channel]);
            for (int32_t i = 0; i < depth; ++i) {
              const int64_t plane = (int64_t{group} * depth + i) * width() + o;
              AddTaps(plane, y, x, product.weight_zero_points.back(), weights);
            }
          }
        }
      }
    }
    product.weight_zero_points = NonZero(product.weight_zero_points);
    product.weights = {
        OihwLayout(geometry.out_c, depth, geometry.kernel_h, geometry.kernel_w, g_.groups),
        weights.data(), whole_.weights.is_signed, product.zero_points(),
        bias.empty() ? nullptr : bias.data()};
    if (IsDepthwise(geometry)) {
      AddDepthwiseQ8Step(builder_, node_, geometry, product, input, output, epilogue);
    } else {
      AddConvQ8Step(builder_, node_, geometry, std::move(product), {input}, output, epilogue);
    }
  }

  /// What a kernel's plane has of a phase; `zero` where there is no tap.
  void AddTaps(int64_t plane, const std::vector<int32_t>& rows, const std::vector<int32_t>& columns,
               int32_t zero, std::vector<uint8_t>& weights) const {
    const auto* kernel =
        static_cast<const uint8_t*>(whole_.weights.data) + plane * g_.kernel_h * g_.kernel_w;
    for (const int32_t y : rows) {
      for (const int32_t x : columns) {
        weights.push_back(y < 0 || x < 0 ? static_cast<uint8_t>(zero)
                                         : kernel[y * g_.kernel_w + x]);
      }
    }
  }

  /// An element of these copies is what a pixel has of one group and phase.
  void AddMoves(size_t row_group, size_t column_group, const ConvGeometry& geometry,
                uint32_t source, std::vector<InterleaveStep::Part>& moves) const {
    const PhaseGroup& rows = rows_.groups[row_group];
    const PhaseGroup& columns = columns_.groups[column_group];
    const auto size = static_cast<size_t>(width());
    const auto groups = static_cast<size_t>(g_.groups);
    const auto phases = static_cast<size_t>(rows.phases) * static_cast<size_t>(columns.phases);
    const auto wide = static_cast<size_t>(geometry.out_w);
    const auto line = static_cast<size_t>(g_.out_w);
    size_t index = 0;
    for (const Phase& row : rows_.phases) {
      if (row.group != row_group) continue;
      for (const Phase& column : columns_.phases) {
        if (column.group != column_group) continue;
        InterleaveStep::Part part{source, 0, 0, {}};
        StridedCopyParams& copy = part.copy;
        const auto top = static_cast<size_t>(row.first - rows.begin);
        const auto left = static_cast<size_t>(column.first - columns.begin);
        part.in_offset = ((top * wide + left) * groups * phases + index++) * size;
        const auto y = static_cast<size_t>(row.first * rows_.stride + row.residue - rows_.pad);
        const auto x =
            static_cast<size_t>(column.first * columns_.stride + column.residue - columns_.pad);
        part.out_offset = (y * line + x) * groups * size;
        copy.element_size = size;
        copy.rank = 4;
        const size_t dims[] = {static_cast<size_t>(g_.batch), static_cast<size_t>(row.count),
                               static_cast<size_t>(column.count), groups};
        const size_t in[] = {static_cast<size_t>(geometry.out_h) * wide * groups * phases,
                             wide * groups * phases, groups * phases, phases};
        const size_t out[] = {static_cast<size_t>(g_.out_h) * line * groups,
                              static_cast<size_t>(rows_.stride) * line * groups,
                              static_cast<size_t>(columns_.stride) * groups, 1};
        for (size_t axis = 0; axis < 4; ++axis) {
          copy.dims[axis] = dims[axis];
          copy.in_strides[axis] = static_cast<ptrdiff_t>(in[axis]);
          copy.out_strides[axis] = static_cast<ptrdiff_t>(out[axis]);
        }
        moves.push_back(part);
      }
    }
  }

  PlanBuilder& builder_;
  const Node& node_;
  const ConvGeometry& g_;
  const QProduct& whole_;
  Axis rows_, columns_;
};

}  // namespace

bool LowerQLinearConvTranspose(PlanBuilder& builder, const Node& node) {
  const Tensor* weights = node.constant(3);
  const Tensor* bias = node.constant(8);
  const auto x = ReadQuant(node, 1, 2);
  auto w = ReadQuant(node, 4, 5);
  const auto y = ReadQuant(node, 6, 7);
  if (weights == nullptr || weights->count() == 0 || !x || !w || !y || (node.input(8) && !bias) ||
      x->scales.size() != 1 || y->scales.size() != 1) {
    return false;
  }
  const auto geometry = TransposedGeometryOf(node, node.inputs[0]->type.StaticShape(),
                                             node.outputs[0]->type.StaticShape(), weights->shape());
  if (!geometry || geometry->pad_top < 0 || geometry->pad_left < 0) return false;
  // Groups may share theirs.
  const size_t own = w->scales.size();
  while (own > 1 && own == w->zero_points.size() &&
         w->scales.size() < static_cast<size_t>(geometry->out_c)) {
    w->scales.push_back(w->scales[w->scales.size() - own]);
    w->zero_points.push_back(w->zero_points[w->zero_points.size() - own]);
  }
  const auto per_channel = Expand(*w, geometry->out_c);
  if (!per_channel) return false;
  QProduct product;
  product.weight_zero_points = NonZero(per_channel->zero_points);
  product.weights.data = weights->raw();
  product.weights.is_signed = weights->dtype() == DType::kInt8;
  product.weights.bias = bias ? bias->data<int32_t>() : nullptr;
  product.input_scale = x->scales[0];
  product.input_zero_point = x->zero_points[0];
  product.weight_scales = per_channel->scales;
  product.output_scale = y->scales[0];
  product.output_zero_point = y->zero_points[0];
  Transposition transposition(builder, node, *geometry, product);
  if (!transposition.Fits()) return false;
  transposition.Plan();
  return true;
}

std::unique_ptr<Step> NewInterleaveStep(StepKind kind) {
  if (kind == StepKind::kInterleave) return std::make_unique<InterleaveStep>();
  return nullptr;
}

}  // namespace requant
