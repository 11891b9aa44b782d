#include "plan/lower/convolution/transposition.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "kernels/layout/table.h"
#include "plan/lower/convolution/window.h"
#include "plan/lower/rows.h"
#include "plan/lower/steps.h"

namespace requant {
namespace {

int32_t FloorDiv(int32_t a, int32_t b) { return a / b - (a % b < 0 ? 1 : 0); }

/// Moves the pixels of convolutions to their positions in the output.
class InterleaveStep : public StepOf<StepKind::kInterleave> {
 public:
  void Fields(PlanArchive& archive) override { archive.Fields(moves); }
  void Run(const RunContext& context) const override {
    auto* out = context.Write<uint8_t>(outputs[0]);
    for (const InterleaveMove& move : moves) {
      StridedCopyParams call = move.copy;
      call.in = context.Read<uint8_t>(inputs[move.input]) + move.in_offset;
      call.out = out + move.out_offset;
      StridedCopy(&call);
    }
  }
  std::vector<InterleaveMove> moves;
};

}  // namespace

void AddInterleaveStep(PlanBuilder& builder, const Node& node, const std::vector<int>& inputs,
                       int output, std::vector<InterleaveMove> moves) {
  auto& step = builder.Add<InterleaveStep>(node, "strided_copy", inputs, {output});
  step.moves = std::move(moves);
}

int32_t TransposedAxis::step() const { return stride / std::gcd(stride, dilation); }
int32_t TransposedAxis::spread() const { return dilation / std::gcd(stride, dilation); }

std::vector<int32_t> TransposedAxis::TapsOf(const TransposedPhase& phase) const {
  const TransposedGroup& group = groups[phase.group];
  if (group.taps == 0) return {-1};
  int32_t tap = 0;
  while (int64_t{tap} * dilation % stride != phase.residue) ++tap;
  std::vector<int32_t> taps;
  for (int32_t i = group.taps; i-- > 0;) taps.push_back(tap + i * step());
  return taps;
}

void TransposedAxis::MakeGroups(bool apart) {
  for (int32_t residue = 0; residue < stride; ++residue) {
    TransposedPhase phase{residue, -FloorDiv(residue - pad, stride), 0, 0};
    phase.count = FloorDiv(output - 1 + pad - residue, stride) + 1 - phase.first;
    if (phase.count <= 0) continue;
    TransposedGroup own;
    for (int32_t tap = 0; tap < kernel; ++tap) {
      const int64_t at = int64_t{tap} * dilation;
      if (at % stride != residue) continue;
      if (own.taps++ == 0) own.offset = static_cast<int32_t>((at - residue) / stride);
    }
    const auto same = [&](const TransposedGroup& group) {
      return !apart && group.taps == own.taps && group.offset == own.offset;
    };
    const auto found = std::find_if(groups.begin(), groups.end(), same);
    phase.group = static_cast<size_t>(found - groups.begin());
    if (found == groups.end()) groups.push_back(own);
    ++groups[phase.group].phases;
    phases.push_back(phase);
  }
  for (size_t index = 0; index < groups.size(); ++index) {
    TransposedGroup& group = groups[index];
    const int32_t reach = group.offset + std::max(group.taps - 1, 0) * spread();
    group.begin = reach;  // a convolution has no negative pads
    int32_t end = 0;
    for (const TransposedPhase& phase : phases) {
      if (phase.group != index) continue;
      group.begin = std::min(group.begin, phase.first);
      end = std::max(end, phase.first + phase.count);
    }
    group.size = end - group.begin;
    group.pad = reach - group.begin;
  }
}

Transposition::Transposition(const ConvGeometry& geometry) : g_(geometry) {
  rows_ = {g_.out_h, g_.kernel_h, g_.stride_h, g_.dilation_h, g_.pad_top, {}, {}};
  columns_ = {g_.out_w, g_.kernel_w, g_.stride_w, g_.dilation_w, g_.pad_left, {}, {}};
  rows_.MakeGroups(IsDepthwise(g_));
  columns_.MakeGroups(IsDepthwise(g_));
}

bool Transposition::Fits() const {
  for (size_t row = 0; row < rows_.groups.size(); ++row) {
    for (size_t column = 0; column < columns_.groups.size(); ++column) {
      const double phases =
          static_cast<double>(rows_.groups[row].phases) * columns_.groups[column].phases;
      if (phases * g_.out_c >= 1 << 28 || !FitsInt32(GeometryOf(row, column))) return false;
    }
  }
  return true;
}

void Transposition::Plan(PlanBuilder& builder, const Node& node, size_t element_bytes,
                         const Add& add) const {
  const Epilogue epilogue = TakeEpilogue(builder, node, false);
  const int input = builder.In(node.inputs[0], Layout::kChannelsLast);
  if (rows_.stride == 1 && columns_.stride == 1 && rows_.groups[0].size == g_.out_h &&
      columns_.groups[0].size == g_.out_w) {
    add(ConvolutionOf(0, 0), input, builder.Out(epilogue.output, Layout::kChannelsLast), epilogue);
    return;
  }
  std::vector<int> made;
  std::vector<InterleaveMove> moves;
  for (size_t row = 0; row < rows_.groups.size(); ++row) {
    for (size_t column = 0; column < columns_.groups.size(); ++column) {
      const PhaseConvolution convolution = ConvolutionOf(row, column);
      const ConvGeometry& geometry = convolution.geometry;
      const int slot = builder.Workspace(element_bytes * static_cast<size_t>(ConvRows(geometry)) *
                                         static_cast<size_t>(geometry.out_c));
      add(convolution, input, slot, epilogue);
      AddMoves(row, column, element_bytes, static_cast<uint32_t>(made.size()), moves);
      made.push_back(slot);
    }
  }
  const int output = builder.Out(epilogue.output, Layout::kChannelsLast);
  AddInterleaveStep(builder, node, made, output, std::move(moves));
}

ConvGeometry Transposition::GeometryOf(size_t row_group, size_t column_group) const {
  const TransposedGroup& rows = rows_.groups[row_group];
  const TransposedGroup& columns = columns_.groups[column_group];
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

PhaseConvolution Transposition::ConvolutionOf(size_t row_group, size_t column_group) const {
  PhaseConvolution out{GeometryOf(row_group, column_group), {}, {}};
  const ConvGeometry& geometry = out.geometry;
  const int32_t depth = g_.in_c / g_.groups;
  out.weights.reserve(static_cast<size_t>(geometry.out_c) * static_cast<size_t>(depth) *
                      static_cast<size_t>(geometry.kernel_h) *
                      static_cast<size_t>(geometry.kernel_w));
  // Adds one output channel of one phase.
  const auto add = [&](int32_t group, int32_t o, const std::vector<int32_t>& rows,
                       const std::vector<int32_t>& columns) {
    out.channels.push_back(group * width() + o);
    for (int32_t i = 0; i < depth; ++i) {
      const int32_t plane = (group * depth + i) * width() + o;
      for (const int32_t y : rows) {
        for (const int32_t x : columns) {
          const bool none = y < 0 || x < 0;
          out.weights.push_back(none ? -1 : (plane * g_.kernel_h + y) * g_.kernel_w + x);
        }
      }
    }
  };
  for (int32_t group = 0; group < g_.groups; ++group) {
    for (const TransposedPhase& row : rows_.phases) {
      if (row.group != row_group) continue;
      const std::vector<int32_t> y = rows_.TapsOf(row);
      for (const TransposedPhase& column : columns_.phases) {
        if (column.group != column_group) continue;
        const std::vector<int32_t> x = columns_.TapsOf(column);
        for (int32_t o = 0; o < width(); ++o) add(group, o, y, x);
      }
    }
  }
  return out;
}

void Transposition::AddMoves(size_t row_group, size_t column_group, size_t element_bytes,
                             uint32_t source, std::vector<InterleaveMove>& moves) const {
  const TransposedGroup& rows = rows_.groups[row_group];
  const TransposedGroup& columns = columns_.groups[column_group];
  const size_t size = static_cast<size_t>(width()) * element_bytes;
  const auto groups = static_cast<size_t>(g_.groups);
  const auto phases = static_cast<size_t>(rows.phases) * static_cast<size_t>(columns.phases);
  const auto wide = static_cast<size_t>(columns.size);
  const auto line = static_cast<size_t>(g_.out_w);
  // A single phase has its groups one behind the other, so whole pixels are copied.
  const bool whole = phases == 1;
  size_t index = 0;
  for (const TransposedPhase& row : rows_.phases) {
    if (row.group != row_group) continue;
    for (const TransposedPhase& column : columns_.phases) {
      if (column.group != column_group) continue;
      InterleaveMove move{source, 0, 0, {}};
      StridedCopyParams& copy = move.copy;
      const auto top = static_cast<size_t>(row.first - rows.begin);
      const auto left = static_cast<size_t>(column.first - columns.begin);
      move.in_offset = ((top * wide + left) * groups * phases + index++) * size;
      const auto y = static_cast<size_t>(row.first * rows_.stride + row.residue - rows_.pad);
      const auto x =
          static_cast<size_t>(column.first * columns_.stride + column.residue - columns_.pad);
      move.out_offset = (y * line + x) * groups * size;
      const size_t pixel = whole ? 1 : groups;
      copy.element_size = whole ? groups * size : size;
      copy.rank = 4;
      const size_t dims[] = {static_cast<size_t>(g_.batch), static_cast<size_t>(row.count),
                             static_cast<size_t>(column.count), pixel};
      const size_t in[] = {static_cast<size_t>(rows.size) * wide * pixel * phases,
                           wide * pixel * phases, pixel * phases, phases};
      const size_t out[] = {static_cast<size_t>(g_.out_h) * line * pixel,
                            static_cast<size_t>(rows_.stride) * line * pixel,
                            static_cast<size_t>(columns_.stride) * pixel, 1};
      for (size_t axis = 0; axis < 4; ++axis) {
        copy.dims[axis] = dims[axis];
        copy.in_strides[axis] = static_cast<ptrdiff_t>(in[axis]);
        copy.out_strides[axis] = static_cast<ptrdiff_t>(out[axis]);
      }
      moves.push_back(move);
    }
  }
}

RQ_STEP(Interleave, InterleaveStep)

}  // namespace requant
