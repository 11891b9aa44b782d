// Lowers convolutions and pools over three spatial dimensions to those over two. For every output
// plane the input planes under its windows, `taps` of them, are laid side by side, pixel by pixel:
// an image [height, width, taps, channels]. Read as an image of taps * channels channels, a 2-D
// convolution computes the sums of the 3-D one. Read as one whose lines are taps times as wide,
// pools and grouped convolutions do, whose windows step by `taps`. Planes in the padding hold the
// padding's value. The 2-D operator is lowered as if the graph had it.
#include <cstring>
#include <memory>
#include <utility>

#include "kernels/layout/table.h"
#include "ops/pooling/pool_windows.h"
#include "plan/archive.h"
#include "plan/lower/convolution/volume.h"
#include "plan/lower/convolution/window.h"
#include "plan/lower/rows.h"
#include "plan/lower/steps.h"
#include "plan/lower/table.h"

namespace requant {
namespace {

class UnfoldStep : public StepOf<StepKind::kUnfold> {
 public:
  void Fields(PlanArchive& archive) override {
    archive.Fields(form);
    archive.Blob(padding);
  }
  void Run(const RunContext& context) const override {
    const auto* in = context.Read<uint8_t>(inputs[0]);
    auto* out = context.Write<uint8_t>(outputs[0]);
    const size_t plane = form.pixels * form.pixel_bytes;
    in += static_cast<size_t>(form.first * form.depth) * plane;
    const auto taps = static_cast<size_t>(form.taps);
    const auto groups = static_cast<size_t>(form.groups);
    const size_t piece = form.pixel_bytes / groups;
    CopyRowsParams call{nullptr, out, form.pixels, piece, 0, taps * form.pixel_bytes};
    for (int64_t image = 0; image < form.batch; ++image) {
      for (int64_t z = 0; z < form.out_depth; ++z) {
        int64_t from = z * form.stride - form.pad;
        for (size_t tap = 0; tap < taps; ++tap) {
          const bool inside = from >= 0 && from < form.depth;
          const uint8_t* pixels = inside ? in + static_cast<size_t>(from) * plane : padding;
          call.in_row_stride = inside ? form.pixel_bytes : 0;
          for (size_t group = 0; group < groups; ++group) {
            call.in = pixels + group * piece;
            call.out = out + (group * taps + tap) * piece;
            rq_copy_rows(&call);
          }
          from += form.dilation;
        }
        out += taps * plane;
      }
      in += static_cast<size_t>(form.depth) * plane;
    }
  }
  Unfolding form{};
  const uint8_t* padding = nullptr;  // one pixel of padding
};

/// The value of an operator's padding, as the bytes of an element. (Its zero point is a constant.)
uint32_t PaddingOf(const Node& node) {
  const DType dtype = node.inputs[0]->type.dtype;
  if (node.op_type == "MaxPool") {
    if (dtype == DType::kFloat32) return 0xff800000;  // -infinity
    return dtype == DType::kInt8 ? 0x80 : 0;
  }
  const Tensor* zero = dtype == DType::kFloat32 ? nullptr : node.constant(2);
  return zero && zero->count() == 1 ? static_cast<uint32_t>(zero->AsInt64(0)) & 0xff : 0;
}

void SetInts(Node& node, const char* name, std::vector<int64_t> numbers) {
  node.attributes.Set(name, std::move(numbers));
}

/// Copies weights [out, in, depth, height, width] to the order of the flat weights.
void CopyWeights(const Tensor& weights, bool wide, Tensor& flat) {
  StridedCopyParams copy{};
  copy.in = weights.raw();
  copy.out = flat.raw();
  copy.element_size = static_cast<size_t>(DTypeBits(weights.dtype()) / 8);
  copy.rank = 5;
  ptrdiff_t stride = 1;
  for (size_t i = 5; i-- > 0;) {
    copy.dims[i] = static_cast<size_t>(weights.shape()[i]);
    copy.in_strides[i] = copy.out_strides[i] = stride;
    stride *= static_cast<ptrdiff_t>(weights.shape()[i]);
  }
  // The depth becomes the innermost dimension, or precedes the channels.
  const auto depth = static_cast<ptrdiff_t>(copy.dims[2]);
  if (wide) {
    copy.out_strides[2] = 1;
    copy.out_strides[3] *= depth;
    copy.out_strides[4] *= depth;
  } else {
    copy.out_strides[1] /= depth;
    copy.out_strides[2] *= static_cast<ptrdiff_t>(copy.dims[1]);
  }
  StridedCopy(&copy);
}

/// The operator, its weights if it is a convolution, and the geometry of its windows.
struct Volume {
  const Node& node;
  const Shape &in, &out;
  const Tensor* weights;
  Window window;
  WindowAxis rows, columns;
};

/// Lowers the output's planes [images * depth, channels, height, width] that `form` describes;
/// nullptr when there is no kernel.
Value* LowerPlanes(PlanBuilder& builder, const Volume& volume, const Unfolding& form) {
  const Node& node = volume.node;
  const Window& window = volume.window;
  const Value* x = node.inputs[0];
  const DType dtype = x->type.dtype;
  const Shape& in = volume.in;
  const Shape& out = volume.out;
  const bool wide = volume.weights == nullptr || node.attributes.Int("group", 1) != 1;
  const int64_t broad = wide ? form.taps : 1;
  const int64_t deep = wide ? 1 : form.taps;
  const int64_t images = form.batch * form.out_depth;
  const double size =
      static_cast<double>(images * form.taps) * static_cast<double>(form.pixels * form.pixel_bytes);
  constexpr double kMost = 1 << 29;  // bytes; GeometryOf accepts no more elements
  if (size >= kMost || static_cast<double>(NumElements(out)) >= kMost ||
      (broad > 1 && window.dilations[2] != 1)) {
    return nullptr;
  }
  Value* image = builder.NewValue(node.name, dtype, {images, in[1] * deep, in[3], in[4] * broad});
  Value* planes =
      builder.NewValue(node.name, node.outputs[0]->type.dtype, {images, out[1], out[3], out[4]});
  Node plane;
  plane.Retype(node.op_type, node.domain);
  plane.name = node.name;
  plane.position = node.position;
  plane.inputs = node.inputs;
  plane.inputs[0] = image;
  plane.outputs = {planes};
  SetInts(plane, "kernel_shape", {window.kernel[1], window.kernel[2] * broad});
  SetInts(plane, "strides", {window.strides[1], window.strides[2] * broad});
  SetInts(plane, "dilations", {window.dilations[1], window.dilations[2]});
  SetInts(plane, "pads",
          {volume.rows.pad_begin, volume.columns.pad_begin * broad, volume.rows.pad_end,
           volume.columns.pad_end * broad});
  for (const char* name : {"group", "count_include_pad"}) {
    plane.attributes.Set(name, node.attributes.Int(name, name[0] == 'g' ? 1 : 0));
  }
  const bool is_float = dtype == DType::kFloat32;
  if (volume.weights) {
    const Shape& w = volume.weights->shape();
    const Shape shape = {w[0], w[1] * deep, w[3], w[4] * broad};
    Value* own = plane.inputs[is_float ? 1 : 3] =
        builder.NewValue(node.name, volume.weights->dtype(), shape);
    own->constant = Tensor(volume.weights->dtype(), shape);
    CopyWeights(*volume.weights, wide, own->constant);
  }

  int source = builder.In(x, Layout::kChannelsLast);
  const uint32_t padding = PaddingOf(node);
  if (!form.IsIdentity()) source = Unfold(builder, node, source, form, padding, is_float ? 4 : 1);
  builder.Alias(image, source, Layout::kChannelsLast);
  if (!is_float) {
    const auto code = static_cast<uint8_t>(padding);
    const int32_t value = dtype == DType::kInt8 ? static_cast<int8_t>(code) : code;
    builder.SetRange(image, Join(builder.RangeOf(x), {value, value}));
  }
  constexpr LowerFunction kLower[] = {LowerPool, LowerQLinearPool, LowerConv, LowerQLinearConv};
  const size_t row = (volume.weights ? 2 : 0) + (node.op_type[0] == 'Q' ? 1 : 0);
  return kLower[row](builder, plane) ? planes : nullptr;
}

/// Lowers an average whose windows have different numbers of planes because the padding is left
/// out: each run of planes whose windows have the same number is lowered by itself.
bool LowerRuns(PlanBuilder& builder, const Volume& volume, const Unfolding& form, int64_t begin,
               int64_t end) {
  /// The first tap inside the image, and the number of such taps.
  const auto counted = [&](int64_t z) {
    std::pair<int64_t, int64_t> taps = {0, 0};
    for (int64_t tap = 0; tap < form.taps; ++tap) {
      const int64_t at = z * form.stride - form.pad + tap * form.dilation;
      if (at < begin) ++taps.first;
      if (at >= begin && at < end) ++taps.second;
    }
    return taps;
  };
  std::vector<int> slots;
  for (int64_t image = 0; image < form.batch; ++image) {
    for (int64_t z = 0; z < form.out_depth;) {
      const auto taps = counted(z);
      if (taps.second == 0) return false;
      Unfolding run = form;
      run.batch = 1;
      run.first = image;
      run.pad -= z * form.stride + taps.first * form.dilation;
      run.taps = taps.second;
      const int64_t from = z;
      while (z < form.out_depth && counted(z) == taps) ++z;
      run.out_depth = z - from;
      const Value* planes = LowerPlanes(builder, volume, run);
      if (planes == nullptr) return false;
      slots.push_back(builder.In(planes, Layout::kChannelsLast));
    }
  }
  const int whole = builder.Out(volume.node.outputs[0], Layout::kChannelsLast);
  size_t offset = 0;
  for (const int slot : slots) {
    // every pool can write into `whole`
    if (!builder.WriteInto(slot, whole, offset, 0)) return false;
    offset += builder.slot(slot).bytes;
  }
  return true;
}

}  // namespace

int Unfold(PlanBuilder& builder, const Node& node, int source, const Unfolding& form,
           uint32_t padding, size_t element) {
  const auto planes = static_cast<size_t>(form.batch * form.out_depth * form.taps);
  const int unfolded = builder.Workspace(planes * form.pixels * form.pixel_bytes);
  auto& step = builder.Add<UnfoldStep>(node, "copy_rows_simd128", {source}, {unfolded});
  step.op = "Unfold";
  step.form = form;
  uint8_t* pixel = builder.Packed(form.pixel_bytes);
  step.padding = pixel;
  for (size_t i = 0; i < form.pixel_bytes; i += element) {
    std::memcpy(pixel + i, &padding, element);
  }
  return unfolded;
}

bool LowerVolume(PlanBuilder& builder, const Node& node) {
  const Value* x = node.inputs[0];
  const DType dtype = x->type.dtype;
  const Shape in = x->type.StaticShape();
  const Shape out = node.outputs[0]->type.StaticShape();
  const bool is_float = dtype == DType::kFloat32;
  if (in.size() != 5 || NumElements(in) == 0 || NumElements(out) == 0 || node.output(1) ||
      !(is_float || IsByte(dtype))) {
    return false;
  }
  for (size_t slot = 1; slot < node.inputs.size(); ++slot) {
    if (node.input(slot) && node.constant(slot) == nullptr) return false;
  }
  // The padding is a pixel of -infinity; a window of only padding has another maximum.
  if (is_float && node.Is(Op::kMaxPool) && !WindowsHoldData(node.attributes, x->type.shape)) {
    return false;
  }
  const bool convolves = node.op_type.ends_with("Conv");
  const Tensor* weights = convolves ? node.constant(is_float ? 1 : 3) : nullptr;
  Volume volume{node,
                in,
                out,
                weights,
                ReadWindow(node.attributes,
                           weights ? Shape(weights->shape().begin() + 2, weights->shape().end())
                                   : node.attributes.Ints("kernel_shape")),
                {},
                {}};
  const Window& window = volume.window;
  const WindowAxis depth = PlaceWindow(window, 0, in[2]);
  volume.rows = PlaceWindow(window, 1, in[3]);
  volume.columns = PlaceWindow(window, 2, in[4]);
  const Unfolding form{in[0],
                       in[2],
                       out[2],
                       window.kernel[0],
                       window.strides[0],
                       window.dilations[0],
                       depth.pad_begin,
                       static_cast<size_t>(in[3] * in[4]),
                       static_cast<size_t>(in[1]) * (is_float ? 4 : 1)};
  if (node.op_type.ends_with("AveragePool")) {
    // The kernels count every plane under a window.
    const bool counts = node.attributes.Int("count_include_pad", 0) != 0;
    const int64_t begin = counts ? -form.pad : 0;
    const int64_t end = form.depth + (counts ? depth.pad_end : 0);
    const int64_t last = (form.out_depth - 1) * form.stride - form.pad + window.Extent(0);
    if (last > end || -form.pad < begin) return LowerRuns(builder, volume, form, begin, end);
  }
  Value* planes = LowerPlanes(builder, volume, form);
  if (planes == nullptr) return false;
  builder.Alias(node.outputs[0], builder.In(planes, Layout::kChannelsLast), Layout::kChannelsLast);
  builder.KeepRange(planes, node.outputs[0]);
  return true;
}

RQ_STEP(Unfold, UnfoldStep)

}  // namespace requant
