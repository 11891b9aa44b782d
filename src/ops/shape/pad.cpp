// Pad: constant, reflect, edge and wrap (onnx docs/Operators.md, Pad-2 to Pad-21; the modes are
// numpy.pad's). Negative pads crop.
#include <cstring>

#include "base/checked_math.h"
#include "base/error.h"
#include "base/str_cat.h"
#include "ops/elementwise/cast.h"
#include "ops/infer_util.h"
#include "ops/shape/select.h"
#include "ops/table.h"

namespace requant {
namespace {

struct AxisPads {
  int64_t begin = 0, end = 0;
};

/// The pads of each axis.
std::vector<AxisPads> ExpandPads(const std::vector<int64_t>& pads, const ListArgument& axes,
                                 int64_t rank) {
  const std::vector<int64_t> named = axes.known() ? axes.values : Sequence(rank);
  NormalizeAxes(named, rank);  // throws for a duplicate
  if (pads.size() != 2 * named.size()) {
    Fail(ErrorCode::kInvalidModel, StrCat("Pad of ", named.size(), " axes with ", pads.size(),
                                          " numbers instead of ", 2 * named.size()));
  }
  std::vector<AxisPads> out(static_cast<size_t>(rank));
  for (size_t i = 0; i < named.size(); ++i) {
    out[static_cast<size_t>(NormalizeAxis(named[i], rank))] = {pads[i], pads[i + named.size()]};
  }
  return out;
}

int64_t PaddedSize(const AxisPads& pads, int64_t dim, const std::string& mode) {
  const int64_t size = CheckedAdd64(CheckedAdd64(dim, pads.begin), pads.end);
  if (size < 0 || (dim == 0 && size > 0 && mode != "constant")) {
    Fail(ErrorCode::kShapeMismatch,
         StrCat("Pad of a dimension of ", dim, " by ", pads.begin, " and ", pads.end, " in mode ",
                mode, " is not possible"));
  }
  return size;
}

std::string PadMode(const AttributeMap& attributes) {
  std::string mode = attributes.String("mode", "constant");
  if (mode != "constant" && mode != "reflect" && mode != "edge" && mode != "wrap") {
    Fail(ErrorCode::kInvalidModel, StrCat("mode '", mode, "' of Pad does not exist"),
         {.hint = "use constant, reflect, edge or wrap"});
  }
  return mode;
}

int64_t Modulo(int64_t value, int64_t divisor) {
  const int64_t rest = value % divisor;
  return rest < 0 ? rest + divisor : rest;
}

/// The index of the input's element at position `at` of an axis (which may lie outside of [0,
/// dim)), or -1.
int64_t Source(int64_t at, int64_t dim, const std::string& mode) {
  if (at >= 0 && at < dim) return at;
  if (mode == "edge") return at < 0 ? 0 : dim - 1;
  if (mode == "wrap") return Modulo(at, dim);
  if (mode == "reflect") {
    // Reflection goes back and forth without repeating the border, with period 2 (dim - 1).
    if (dim == 1) return 0;
    const int64_t period = 2 * (dim - 1);
    const int64_t phase = Modulo(at, period);
    return phase < dim ? phase : period - phase;
  }
  return -1;
}

void InferPad(InferContext& context) {
  const ListArgument pads = ReadList(context, "pads", 1);
  const ListArgument axes = ReadList(context, nullptr, 3);
  if (pads.absent()) Fail(ErrorCode::kInvalidModel, "Pad without pads");
  if (context.has(2)) RequireSameDType(context, 0, 2);
  const std::string mode = PadMode(context.attributes());
  std::optional<SymbolicShape> shape;
  if (const SymbolicShape* input = context.shape(0)) {
    shape = SymbolicShape(input->size());
    if (pads.known() && (axes.known() || axes.absent())) {
      shape = *input;
      const std::vector<AxisPads> list =
          ExpandPads(pads.values, axes, static_cast<int64_t>(input->size()));
      for (size_t axis = 0; axis < list.size(); ++axis) {
        Dim& dim = (*shape)[axis];
        if (dim.known()) {
          dim = PaddedSize(list[axis], dim.value, mode);
        } else if (CheckedAdd64(list[axis].begin, list[axis].end) != 0) {
          dim = Dim();
        }
      }
    }
  }
  SetOutput(context, 0, context.inputs[0].dtype, shape);
}

void EvaluatePad(EvalContext& context) {
  const Tensor& input = context.input(0);
  const ListArgument pads = ReadList(context, "pads", 1);
  if (pads.absent()) Fail(ErrorCode::kInvalidModel, "Pad without pads");
  const std::string mode = PadMode(context.attributes());
  const std::vector<AxisPads> list =
      ExpandPads(pads.values, ReadList(context, nullptr, 3), input.rank());
  // The fill value is input 2, in older opsets the attribute `value`, or zero.
  Tensor fill = CastTensor(Tensor::Scalar(context.attributes().Float("value", 0)), input.dtype());
  if (context.has(2)) {
    fill = context.input(2);
    if (fill.count() != 1 || fill.dtype() != input.dtype()) {
      Fail(ErrorCode::kTypeMismatch,
           StrCat("the constant of Pad must be one ", DTypeName(input.dtype())));
    }
  }
  std::vector<std::vector<int64_t>> indices;
  for (size_t axis = 0; axis < list.size(); ++axis) {
    const int64_t dim = input.shape()[axis];
    indices.push_back(Sequence(PaddedSize(list[axis], dim, mode)));
    for (int64_t& index : indices.back()) {
      index = Source(index - list[axis].begin, dim, mode);
    }
  }
  context.outputs[0] = SelectByAxis(input, indices, fill.raw());
}

constexpr OpDef kRows[] = {
    {"Pad", "", 2, 1, 4, 1, InferPad, EvaluatePad, QuantRule::kPassive, FusionRule::kInjective},
};

}  // namespace

std::span<const OpDef> PadOps() { return kRows; }

}  // namespace requant
