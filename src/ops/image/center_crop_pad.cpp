// CenterCropPad: a Pad where the shape grows and a Slice where it shrinks; an odd element goes to
// the end (the function of onnx docs/Operators.md, CenterCropPad-18).
#include "base/error.h"
#include "base/str_cat.h"
#include "ops/function/function_text.h"
#include "ops/infer_util.h"
#include "ops/shape/select.h"
#include "ops/table.h"

namespace requant {
namespace {

void WriteCenterCropPad(FunctionText& text) {
  const bool some = text.node().attributes.Has("axes");
  text.Line(
      "%to = Cast(%i1) {to = 7}\n"
      "const %2: int64[] = {2}");
  if (some) {
    text.Ints("a", text.node().attributes.Ints("axes"));
    text.Line(
        "%all = Shape(%i0)\n"
        "%from = Gather(%all, %a)");
  } else {
    text.Line("%from = Shape(%i0)");
  }
  const char* tail = some ? ", %a)" : ")";
  text.Line(
      "%max = Max(%from, %to)\n"
      "%more = Sub(%max, %from)\n"
      "%left = Div(%more, %2)\n"
      "%right = Sub(%more, %left)\n"
      "%pads = Concat(%left, %right) {axis = 0}\n"
      "%less = Sub(%max, %to)\n"
      "%start = Div(%less, %2)\n"
      "%end = Add(%start, %to)");
  text.Line(
      "%p = Pad(%i0, %pads$0$1\n"
      "%y = Slice(%p, %start, %end$1\n"
      "output %y",
      some ? ", _" : "", tail);
}

void InferCenterCropPad(InferContext& context) {
  RequireRank(context, 1, 1);
  const ListArgument goal = ReadList(context, nullptr, 1);
  std::optional<SymbolicShape> shape = context.inputs[0].shape;
  if (shape) {
    const auto rank = static_cast<int64_t>(shape->size());
    const std::vector<int64_t> axes =
        context.attributes().Has("axes") ? context.attributes().Ints("axes") : Sequence(rank);
    NormalizeAxes(axes, rank);  // throws for a duplicate
    const SymbolicShape* count = context.shape(1);
    bool fits =
        !count || !(*count)[0].known() || (*count)[0].value == static_cast<int64_t>(axes.size());
    for (size_t i = 0; fits && i < axes.size(); ++i) {
      Dim& dim = (*shape)[static_cast<size_t>(NormalizeAxis(axes[i], rank))];
      dim = Dim();
      if (goal.known()) dim.value = goal.values[i];
      fits = !goal.known() || dim.known();
    }
    if (!fits) {
      Fail(ErrorCode::kInvalidModel,
           StrCat("CenterCropPad of ", axes.size(), " axes needs as many sizes, none below 0"));
    }
  }
  SetOutput(context, 0, context.inputs[0].dtype, std::move(shape));
}

constexpr OpDef kRows[] = {
    FunctionOp<WriteCenterCropPad>("CenterCropPad", "", 18, 2, 2, 1, InferCenterCropPad),
};

}  // namespace

std::span<const OpDef> CenterCropPadOps() { return kRows; }

}  // namespace requant
