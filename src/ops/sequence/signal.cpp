// DFT, STFT, the window functions and MelWeightMatrix (onnx docs/Operators.md). All sums are in
// double.
#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "base/error.h"
#include "base/str_cat.h"
#include "ops/elementwise/cast.h"
#include "ops/infer_util.h"
#include "ops/table.h"

namespace requant {
namespace {

constexpr double kPi = std::numbers::pi;

int64_t ScalarOf(const Tensor& tensor, const char* what) {
  if (tensor.count() != 1) Fail(ErrorCode::kShapeMismatch, StrCat(what, " must be one number"));
  return tensor.AsInt64(0);
}

/// The cosines and sines of all multiples of 2 pi / n.
class Circle {
 public:
  explicit Circle(int64_t n) : n_(n) {
    for (int64_t i = 0; i < n; ++i) {
      const double angle = 2 * kPi * static_cast<double>(i) / static_cast<double>(n);
      cosines_.push_back(std::cos(angle));
      sines_.push_back(std::sin(angle));
    }
  }
  /// sum over i of (re, im)[i] * e^(-+ 2 pi i k / n); zeros follow the `count` given values.
  void Transform(const std::vector<double>& re, const std::vector<double>& im, int64_t k,
                 bool inverse, double& out_re, double& out_im) const {
    out_re = out_im = 0;
    int64_t at = 0;
    for (size_t i = 0; i < re.size(); ++i) {
      const double c = cosines_[static_cast<size_t>(at)];
      const double s = inverse ? sines_[static_cast<size_t>(at)] : -sines_[static_cast<size_t>(at)];
      out_re += re[i] * c - im[i] * s;
      out_im += re[i] * s + im[i] * c;
      at += k;
      if (at >= n_) at -= n_;
    }
  }

 private:
  int64_t n_;
  std::vector<double> cosines_, sines_;
};

void Store(Tensor& out, int64_t at, double value) {
  if (out.dtype() == DType::kFloat64) {
    out.data<double>()[at] = value;
  } else {
    out.data<float>()[at] = static_cast<float>(value);
  }
}

// --- DFT: x [..., n, ..., 1 or 2], length; the axis is an attribute until opset 19

/// The axis when it is known.
std::optional<int64_t> DftAxis(const Node& node, int opset, const Tensor* given, bool present) {
  if (opset < 20) return node.attributes.Int("axis", 1);
  if (!present) return -2;
  if (given == nullptr) return std::nullopt;
  return ScalarOf(*given, "the axis of DFT");
}

void InferDft(InferContext& context) {
  RequireFloat(context, 0);
  const auto axis = DftAxis(context.node, context.opset, context.constant(2), context.has(2));
  std::optional<SymbolicShape> shape;
  if (const SymbolicShape* x = context.shape(0); x != nullptr && axis) {
    const auto rank = static_cast<int64_t>(x->size());
    const auto at = static_cast<size_t>(NormalizeAxis(*axis, rank));
    if (static_cast<int64_t>(at) == rank - 1) {
      Fail(ErrorCode::kInvalidModel, "DFT along the axis of real and imaginary parts");
    }
    shape = *x;
    shape->back() = 2;
    if (context.has(1)) {
      (*shape)[at] =
          context.constant(1) ? Dim(ScalarOf(*context.constant(1), "dft_length")) : Dim();
    }
    if (context.attributes().Int("onesided", 0) != 0) {
      Dim& n = (*shape)[at];
      n = n.known() ? Dim(n.value / 2 + 1) : Dim();
    }
  }
  SetOutput(context, 0, context.inputs[0].dtype, shape);
}

void EvaluateDft(EvalContext& context) {
  const Tensor& x = context.input(0);
  const auto axis = static_cast<size_t>(
      NormalizeAxis(*DftAxis(context.node, context.opset,
                             context.has(2) ? &context.input(2) : nullptr, context.has(2)),
                    x.rank()));
  const bool inverse = context.attributes().Int("inverse", 0) != 0;
  const bool half = context.attributes().Int("onesided", 0) != 0;
  const int64_t parts = x.dim(x.rank() - 1);
  if (static_cast<int64_t>(axis) == x.rank() - 1 || parts < 1 || parts > 2) {
    Fail(ErrorCode::kShapeMismatch, StrCat("DFT of ", ShapeToString(x.shape())));
  }
  if (inverse && half) Fail(ErrorCode::kUnsupported, "DFT both inverse and one-sided");
  const int64_t given = x.shape()[axis];
  const int64_t n = context.has(1) ? ScalarOf(context.input(1), "dft_length") : given;
  if (n < 1) Fail(ErrorCode::kInvalidArgument, StrCat("DFT of length ", n));
  Shape shape = x.shape();
  shape[axis] = half ? n / 2 + 1 : n;
  shape.back() = 2;
  Tensor out(x.dtype(), shape);
  int64_t inner = 1;  // elements between neighbors along the axis, without the parts
  for (size_t i = axis + 1; i + 1 < shape.size(); ++i) inner *= shape[i];
  const int64_t lines = given > 0 ? x.count() / parts / given : 0;
  const Circle circle(n);
  const auto count = static_cast<size_t>(std::min(given, n));
  std::vector<double> re(count), im(count);
  for (int64_t line = 0; line < lines; ++line) {
    const int64_t outer = line / inner, column = line % inner;
    for (size_t i = 0; i < count; ++i) {
      const int64_t at = ((outer * given + static_cast<int64_t>(i)) * inner + column) * parts;
      re[i] = x.AsDouble(at);
      im[i] = parts == 2 ? x.AsDouble(at + 1) : 0;
    }
    for (int64_t k = 0; k < shape[axis]; ++k) {
      double a, b;
      circle.Transform(re, im, k, inverse, a, b);
      const double scale = inverse ? 1.0 / static_cast<double>(n) : 1;
      const int64_t to = ((outer * shape[axis] + k) * inner + column) * 2;
      Store(out, to, a * scale);
      Store(out, to + 1, b * scale);
    }
  }
  context.outputs[0] = std::move(out);
}

// --- STFT: signal [batch, length, 1 or 2], step, window, frame length

void InferStft(InferContext& context) {
  RequireFloat(context, 0);
  std::optional<SymbolicShape> shape;
  if (const SymbolicShape* signal = context.shape(0)) {
    RequireRank(context, 0, 3);
    Dim frame;
    if (context.constant(3)) frame = ScalarOf(*context.constant(3), "frame_length");
    if (context.has(2) && context.shape(2) && context.shape(2)->size() == 1) {
      frame = MergeDims(frame, (*context.shape(2))[0], "frame_length and window");
    }
    Dim frames, bins;
    if (frame.known()) {
      bins = context.attributes().Int("onesided", 1) != 0 ? frame.value / 2 + 1 : frame.value;
      const int64_t step = context.constant(1) ? ScalarOf(*context.constant(1), "frame_step") : 0;
      if (step > 0 && (*signal)[1].known() && (*signal)[1].value >= frame.value) {
        frames = ((*signal)[1].value - frame.value) / step + 1;
      }
    }
    shape = SymbolicShape{(*signal)[0], frames, bins, 2};
  }
  SetOutput(context, 0, context.inputs[0].dtype, shape);
}

void EvaluateStft(EvalContext& context) {
  const Tensor& signal = context.input(0);
  const int64_t step = ScalarOf(context.input(1), "frame_step");
  if (signal.rank() != 3 || signal.dim(2) < 1 || signal.dim(2) > 2 || step < 1) {
    Fail(ErrorCode::kShapeMismatch, StrCat("STFT of ", ShapeToString(signal.shape())));
  }
  const int64_t length = signal.dim(1), parts = signal.dim(2);
  int64_t frame = length;
  if (context.has(2)) frame = context.input(2).count();
  if (context.has(3)) frame = ScalarOf(context.input(3), "frame_length");
  if (frame < 1 || frame > length || (context.has(2) && context.input(2).count() != frame)) {
    Fail(ErrorCode::kShapeMismatch, StrCat("STFT in frames of ", frame, " of ", length));
  }
  const int64_t bins = context.attributes().Int("onesided", 1) != 0 ? frame / 2 + 1 : frame;
  const int64_t frames = (length - frame) / step + 1;
  Tensor out(signal.dtype(), {signal.dim(0), frames, bins, 2});
  const Circle circle(frame);
  std::vector<double> re(static_cast<size_t>(frame)), im(static_cast<size_t>(frame));
  int64_t to = 0;
  for (int64_t b = 0; b < signal.dim(0); ++b) {
    for (int64_t f = 0; f < frames; ++f) {
      for (int64_t i = 0; i < frame; ++i) {
        const int64_t at = (b * length + f * step + i) * parts;
        const double weight = context.has(2) ? context.input(2).AsDouble(i) : 1;
        re[static_cast<size_t>(i)] = weight * signal.AsDouble(at);
        im[static_cast<size_t>(i)] = parts == 2 ? weight * signal.AsDouble(at + 1) : 0;
      }
      for (int64_t k = 0; k < bins; ++k) {
        double x, y;
        circle.Transform(re, im, k, false, x, y);
        Store(out, to++, x);
        Store(out, to++, y);
      }
    }
  }
  context.outputs[0] = std::move(out);
}

// --- windows: a0 - a1 cos(2 pi i / n) + a2 cos(4 pi i / n)

struct WindowRow {
  const char* name;
  double a0, a1, a2;
};

constexpr WindowRow kWindows[] = {
    {"HannWindow", 0.5, 0.5, 0},
    {"HammingWindow", 25.0 / 46, 21.0 / 46, 0},
    {"BlackmanWindow", 0.42, 0.5, 0.08},
};

DType OutputType(const AttributeMap& attributes) {
  const int64_t dtype = attributes.Int("output_datatype", 1);
  return dtype > 0 && dtype < 256 ? static_cast<DType>(dtype) : DType::kUndefined;
}

void InferWindow(InferContext& context) {
  RequireDType(context, 0, {DType::kInt32, DType::kInt64});
  SymbolicShape shape(1);
  if (context.constant(0)) shape[0] = ScalarOf(*context.constant(0), "the window's size");
  SetOutput(context, 0, OutputType(context.attributes()), shape);
}

void EvaluateWindow(EvalContext& context) {
  const int64_t size = ScalarOf(context.input(0), "the window's size");
  const bool periodic = context.attributes().Int("periodic", 1) != 0;
  const auto n = static_cast<double>(periodic ? size : std::max<int64_t>(size - 1, 1));
  const auto* row = std::find_if(
      std::begin(kWindows), std::end(kWindows),
      [&](const WindowRow& candidate) { return context.node.op_type == candidate.name; });
  Tensor out(DType::kFloat64, {std::max<int64_t>(size, 0)});
  for (int64_t i = 0; i < out.count(); ++i) {
    const double turn = 2 * kPi * static_cast<double>(i) / n;
    out.data<double>()[i] = row->a0 - row->a1 * std::cos(turn) + row->a2 * std::cos(2 * turn);
  }
  context.outputs[0] = CastTensor(out, OutputType(context.attributes()));
}

// --- MelWeightMatrix: mel bins, DFT length, sample rate, lower and upper edge

void InferMelWeightMatrix(InferContext& context) {
  SymbolicShape shape(2);
  if (context.constant(1)) shape[0] = ScalarOf(*context.constant(1), "dft_length") / 2 + 1;
  if (context.constant(0)) shape[1] = ScalarOf(*context.constant(0), "num_mel_bins");
  SetOutput(context, 0, OutputType(context.attributes()), shape);
}

void EvaluateMelWeightMatrix(EvalContext& context) {
  const int64_t mels = ScalarOf(context.input(0), "num_mel_bins");
  const int64_t length = ScalarOf(context.input(1), "dft_length");
  const auto rate = static_cast<double>(ScalarOf(context.input(2), "sample_rate"));
  const auto mel_of = [](double hertz) { return 2595 * std::log10(1 + hertz / 700); };
  const double low = mel_of(context.input(3).AsDouble(0));
  const double high = mel_of(context.input(4).AsDouble(0));
  if (mels < 1 || length < 1 || !(rate > 0) || !std::isfinite(high - low)) {
    Fail(ErrorCode::kInvalidArgument, "MelWeightMatrix of such sizes does not exist");
  }
  const int64_t rows = length / 2 + 1;
  Tensor out(DType::kFloat64, {rows, mels});  // refuses sizes that do not fit, before the loop
  std::vector<int64_t> edges;
  for (int64_t i = 0; i < mels + 2; ++i) {
    const double mel = static_cast<double>(i) * (high - low) / static_cast<double>(mels + 2) + low;
    const double hertz = 700 * (std::pow(10, mel / 2595) - 1);
    edges.push_back(
        static_cast<int64_t>(std::clamp(std::floor(static_cast<double>(length + 1) * hertz / rate),
                                        0.0, static_cast<double>(rows - 1))));
  }
  const auto cell = [&](int64_t row, int64_t mel) -> double& {
    return out.data<double>()[row * mels + mel];
  };
  for (int64_t i = 0; i < mels; ++i) {
    const int64_t left = edges[static_cast<size_t>(i)];
    const int64_t center = edges[static_cast<size_t>(i) + 1];
    const int64_t right = edges[static_cast<size_t>(i) + 2];
    if (center == left) cell(center, i) = 1;
    for (int64_t j = left; j <= center && center > left; ++j) {
      cell(j, i) = static_cast<double>(j - left) / static_cast<double>(center - left);
    }
    for (int64_t j = center; j < right; ++j) {
      cell(j, i) = static_cast<double>(right - j) / static_cast<double>(right - center);
    }
  }
  context.outputs[0] = CastTensor(out, OutputType(context.attributes()));
}

constexpr OpDef WindowOp(const char* name) {
  return {name, "", 17, 1, 1, 1, InferWindow, EvaluateWindow, QuantRule::kShape};
}

constexpr OpDef kRows[] = {
    WindowOp("BlackmanWindow"),
    {"DFT", "", 17, 1, 3, 1, InferDft, EvaluateDft, QuantRule::kFloat},
    WindowOp("HammingWindow"),
    WindowOp("HannWindow"),
    {"MelWeightMatrix", "", 17, 5, 5, 1, InferMelWeightMatrix, EvaluateMelWeightMatrix,
     QuantRule::kShape},
    {"STFT", "", 17, 2, 4, 1, InferStft, EvaluateStft, QuantRule::kFloat},
};

}  // namespace

std::span<const OpDef> SignalOps() { return kRows; }

}  // namespace requant
