// Lowers transposed convolutions over three spatial dimensions to those over two. The output planes
// of one phase of the depth (transposition.h) meet the same taps of the kernel's depth, so the
// input planes under them are laid side by side as in volume.cpp: an image of taps * channels
// channels, of which a 2-D transposed convolution makes the planes of the phase. The phases' planes
// then interleave:
//
//   stride 2, depth w0 w1 w2, no padding
//   output plane   0         1       2                 3       4
//   phase 0        w0 x0             w2 x0 + w0 x1             w2 x1     image [x(z-1) x(z)]
//   phase 1                  w1 x0                     w1 x1             image [x(z)]
//
// The 2-D operator is lowered as if the graph had it.
#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "ops/convolution/convolve.h"
#include "plan/lower/convolution/transposition.h"
#include "plan/lower/convolution/volume.h"
#include "plan/lower/rows.h"
#include "plan/lower/table.h"

namespace requant {
namespace {

constexpr int64_t kMostBytes = int64_t{1} << 29;

class TransposedVolume {
 public:
  TransposedVolume(PlanBuilder& builder, const Node& node, const Tensor& weights, size_t slot)
      : builder_(builder),
        node_(node),
        weights_(weights),
        slot_(slot),
        in_(node.inputs[0]->type.StaticShape()),
        out_(node.outputs[0]->type.StaticShape()),
        groups_(node.attributes.Int("group", 1)),
        is_float_(node.inputs[0]->type.dtype == DType::kFloat32),
        element_(is_float_ ? 4 : 1),
        geometry_(TransposedGeometry(node.attributes, in_, weights.shape())) {}

  bool Lower() {
    constexpr int64_t kMost = 1 << 24;
    const Geometry& g = geometry_;
    if (g.pad_begin[0] < 0 || g.pad_begin[1] < 0 || g.pad_begin[2] < 0 ||
        std::max({g.output[0], g.kernel[0], g.stride[0], g.dilation[0], g.pad_begin[0]}) > kMost ||
        NumElements(out_) >= kMostBytes / 4) {
      return false;
    }
    const auto narrow = [](int64_t value) { return static_cast<int32_t>(value); };
    TransposedAxis depth{narrow(g.output[0]),
                         narrow(g.kernel[0]),
                         narrow(g.stride[0]),
                         narrow(g.dilation[0]),
                         narrow(g.pad_begin[0]),
                         {},
                         {}};
    depth.MakeGroups(true);
    for (const TransposedPhase& phase : depth.phases) {
      if (!Fits(depth, phase)) return false;
    }
    std::vector<int> made;
    std::vector<InterleaveMove> moves;
    for (const TransposedPhase& phase : depth.phases) {
      const Value* planes = LowerPhase(depth, phase);
      if (planes == nullptr) return false;
      AddMove(depth, phase, static_cast<uint32_t>(made.size()), moves);
      made.push_back(builder_.In(planes, Layout::kChannelsLast));
    }
    const int output = builder_.Out(node_.outputs[0], Layout::kChannelsLast);
    AddInterleaveStep(builder_, node_, made, output, std::move(moves));
    return true;
  }

 private:
  static int64_t TapsOf(const TransposedAxis& depth, const TransposedPhase& phase) {
    return std::max(depth.groups[phase.group].taps, 1);
  }

  bool Fits(const TransposedAxis& depth, const TransposedPhase& phase) const {
    const double planes =
        static_cast<double>(in_[0] * phase.count) * static_cast<double>(TapsOf(depth, phase));
    return planes * static_cast<double>(in_[1] * in_[3] * in_[4]) * static_cast<double>(element_) <
           static_cast<double>(kMostBytes);
  }

  /// The bytes of a weight that stands for 0 in an output channel.
  uint32_t ZeroOf(int64_t channel) const {
    const Tensor* zeros = is_float_ ? nullptr : node_.constant(5);
    if (zeros == nullptr || zeros->count() == 0) return 0;
    return static_cast<uint32_t>(zeros->AsInt64(channel % zeros->count())) & 0xff;
  }

  /// The weights [taps * channels, ...] of a phase: in each group those of a tap behind each other.
  Tensor WeightsOf(const std::vector<int32_t>& taps) const {
    const Shape& from = weights_.shape();
    const auto count = static_cast<int64_t>(taps.size());
    const int64_t inner = from[0] / groups_;
    const int64_t width = from[1];
    Tensor made(weights_.dtype(), {from[0] * count, width, from[3], from[4]});
    const auto plane = static_cast<size_t>(from[3] * from[4]) * element_;
    const auto* source = static_cast<const uint8_t*>(weights_.raw());
    auto* out = static_cast<uint8_t*>(made.raw());
    for (int64_t group = 0; group < groups_; ++group) {
      for (const int32_t tap : taps) {
        for (int64_t c = group * inner; c < (group + 1) * inner; ++c) {
          for (int64_t o = 0; o < width; ++o, out += plane) {
            if (tap < 0) {
              std::memset(out, static_cast<int>(ZeroOf(group * width + o)), plane);
              continue;
            }
            std::memcpy(out, source + static_cast<size_t>((c * width + o) * from[2] + tap) * plane,
                        plane);
          }
        }
      }
    }
    return made;
  }

  /// The 2-D operator's attributes: pads and output_padding give the same planes.
  void SetAttributes(Node& plane) const {
    const Geometry& g = geometry_;
    std::vector<int64_t> strides, dilations, kernel, begin, end, extra;
    for (size_t axis = 1; axis < 3; ++axis) {
      strides.push_back(g.stride[axis]);
      dilations.push_back(g.dilation[axis]);
      kernel.push_back(g.kernel[axis]);
      const int64_t full = (std::max<int64_t>(g.input[axis], 1) - 1) * g.stride[axis] +
                           (g.kernel[axis] - 1) * g.dilation[axis] + 1;
      const int64_t rest = full - g.pad_begin[axis] - g.output[axis];
      begin.push_back(g.pad_begin[axis]);
      end.push_back(std::max<int64_t>(rest, 0));
      extra.push_back(std::max<int64_t>(-rest, 0));
    }
    begin.insert(begin.end(), end.begin(), end.end());
    plane.attributes.Set("strides", std::move(strides));
    plane.attributes.Set("dilations", std::move(dilations));
    plane.attributes.Set("kernel_shape", std::move(kernel));
    plane.attributes.Set("pads", std::move(begin));
    plane.attributes.Set("output_padding", std::move(extra));
    plane.attributes.Set("group", groups_);
  }

  /// Adds the steps for the planes [images * count, channels, height, width] of a phase.
  const Value* LowerPhase(const TransposedAxis& depth, const TransposedPhase& phase) {
    const TransposedGroup& group = depth.groups[phase.group];
    const int64_t taps = TapsOf(depth, phase);
    const int64_t images = in_[0] * phase.count;
    const int64_t reach = group.offset + (taps - 1) * depth.spread();
    const Unfolding form{in_[0],
                         in_[2],
                         phase.count,
                         taps,
                         1,
                         depth.spread(),
                         reach - phase.first,
                         static_cast<size_t>(in_[3] * in_[4]),
                         static_cast<size_t>(in_[1]) * element_,
                         0,
                         groups_};
    const Value* x = node_.inputs[0];
    const DType dtype = x->type.dtype;
    Value* image = builder_.NewValue(node_.name, dtype, {images, in_[1] * taps, in_[3], in_[4]});
    Value* planes = builder_.NewValue(node_.name, node_.outputs[0]->type.dtype,
                                      {images, out_[1], out_[3], out_[4]});
    Node plane;
    plane.Retype(node_.op_type, node_.domain);
    plane.name = node_.name;
    plane.position = node_.position;
    plane.inputs = node_.inputs;
    plane.inputs[0] = image;
    plane.outputs = {planes};
    SetAttributes(plane);
    Tensor own = WeightsOf(depth.TapsOf(phase));
    plane.inputs[slot_] = builder_.NewValue(node_.name, own.dtype(), own.shape());
    plane.inputs[slot_]->constant = std::move(own);
    int source = builder_.In(x, Layout::kChannelsLast);
    const Tensor* zero = is_float_ ? nullptr : node_.constant(2);
    const int64_t padding = zero != nullptr && zero->count() == 1 ? zero->AsInt64(0) : 0;
    if (!form.IsIdentity()) {
      source = Unfold(builder_, node_, source, form,
                      is_float_ ? 0 : static_cast<uint32_t>(padding) & 0xff, element_);
    }
    builder_.Alias(image, source, Layout::kChannelsLast);
    if (!is_float_) {
      const auto code = static_cast<int32_t>(padding);
      builder_.SetRange(image, Join(builder_.RangeOf(x), {code, code}));
    }
    const bool lowered = is_float_ ? LowerConvTranspose(builder_, plane)
                                   : LowerQLinearConvTranspose(builder_, plane);
    return lowered ? planes : nullptr;
  }

  /// Copies the planes of a phase to their places.
  void AddMove(const TransposedAxis& depth, const TransposedPhase& phase, uint32_t source,
               std::vector<InterleaveMove>& moves) const {
    const size_t bytes = static_cast<size_t>(out_[1] * out_[3] * out_[4]) * element_;
    const int64_t first = int64_t{phase.first} * depth.stride + phase.residue - depth.pad;
    InterleaveMove move{source, 0, static_cast<size_t>(first) * bytes, {}};
    StridedCopyParams& copy = move.copy;
    copy.element_size = bytes;
    copy.rank = 2;
    copy.dims[0] = static_cast<size_t>(in_[0]);
    copy.dims[1] = static_cast<size_t>(phase.count);
    copy.in_strides[0] = phase.count;
    copy.in_strides[1] = 1;
    copy.out_strides[0] = static_cast<ptrdiff_t>(out_[2]);
    copy.out_strides[1] = depth.stride;
    moves.push_back(move);
  }

  PlanBuilder& builder_;
  const Node& node_;
  const Tensor& weights_;
  size_t slot_;  // of the weights
  Shape in_, out_;
  int64_t groups_;
  bool is_float_;
  size_t element_;
  Geometry geometry_;
};

}  // namespace

bool LowerTransposedVolume(PlanBuilder& builder, const Node& node) {
  const Value* x = node.inputs[0];
  const bool is_float = x->type.dtype == DType::kFloat32;
  const size_t slot = is_float ? 1 : 3;
  const Tensor* weights = node.constant(slot);
  if (weights == nullptr || weights->count() == 0 || weights->rank() != 5 ||
      !(is_float ? weights->dtype() == DType::kFloat32
                 : IsByte(x->type.dtype) && IsByte(weights->dtype())) ||
      NumElements(x->type.StaticShape()) == 0 ||
      NumElements(node.outputs[0]->type.StaticShape()) == 0) {
    return false;
  }
  for (size_t input = 1; input < node.inputs.size(); ++input) {
    if (node.input(input) && node.constant(input) == nullptr) return false;
  }
  return TransposedVolume(builder, node, *weights, slot).Lower();
}

}  // namespace requant
