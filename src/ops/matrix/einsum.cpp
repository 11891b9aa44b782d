// Einsum (onnx docs/Operators.md): evaluates any equation by walking over all its subscripts. Sums
// are in double (in 64 bits for integers).
#include <algorithm>
#include <string>
#include <vector>

#include "base/checked_math.h"
#include "base/error.h"
#include "base/str_cat.h"
#include "ops/infer_util.h"
#include "ops/matrix/einsum.h"
#include "ops/shape/select.h"
#include "ops/table.h"

namespace requant {
namespace {

using Term = EinsumTerm;
using Equation = EinsumEquation;
constexpr int kEllipsis = 256;
constexpr int kMostEllipsis = 64;

[[noreturn]] void BadEquation(const std::string& equation) {
  Fail(ErrorCode::kInvalidModel,
       StrCat("Einsum equation '", equation, "' does not fit its inputs"));
}

Term ReadTerm(const std::string& equation, std::string_view text, size_t ellipsis) {
  Term out;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) {
      out.push_back(c);
    } else if (text.substr(i, 3) == "...") {
      if (ellipsis > kMostEllipsis) BadEquation(equation);
      for (size_t k = 0; k < ellipsis; ++k) {
        out.push_back(kEllipsis + kMostEllipsis - static_cast<int>(ellipsis - k));
      }
      i += 2;
    } else {
      BadEquation(equation);
    }
  }
  return out;
}

}  // namespace

EinsumEquation ReadEquation(const AttributeMap& attributes, const std::vector<size_t>& ranks) {
  std::string text;
  for (const char c : attributes.String("equation", "")) {
    if (c != ' ') text += c;
  }
  const size_t arrow = text.find("->");
  const std::string left = text.substr(0, arrow);
  Equation out;
  size_t most = 0;
  for (size_t start = 0, slot = 0; start <= left.size(); ++slot) {
    const size_t comma = std::min(left.find(',', start), left.size());
    const std::string_view term = std::string_view(left).substr(start, comma - start);
    if (slot >= ranks.size()) BadEquation(text);
    const bool dots = term.find("...") != std::string_view::npos;
    const size_t letters = term.size() - (dots ? 3 : 0);
    if (dots ? ranks[slot] < letters : ranks[slot] != letters) BadEquation(text);
    const size_t rest = ranks[slot] - letters;
    most = std::max(most, rest);
    out.inputs.push_back(ReadTerm(text, term, rest));
    start = comma + 1;
  }
  if (out.inputs.size() != ranks.size()) BadEquation(text);
  if (arrow != std::string::npos) {
    out.output = ReadTerm(text, std::string_view(text).substr(arrow + 2), most);
    return out;
  }
  // An equation without an arrow has the ellipsis, then every letter that occurs once, in
  // alphabetical order.
  out.output = ReadTerm(text, "...", most);
  for (int letter = 'A'; letter <= 'z'; ++letter) {
    size_t times = 0;
    for (const Term& term : out.inputs) {
      times += static_cast<size_t>(std::count(term.begin(), term.end(), letter));
    }
    if (times == 1) out.output.push_back(letter);
  }
  return out;
}

namespace {

void InferEinsum(InferContext& context) {
  std::vector<size_t> ranks;
  for (size_t slot = 0; slot < context.inputs.size(); ++slot) {
    RequireNumeric(context, slot);
    RequireSameDType(context, 0, slot);
    if (context.shape(slot) == nullptr) {
      return SetOutput(context, 0, context.inputs[0].dtype, std::nullopt);
    }
    ranks.push_back(context.shape(slot)->size());
  }
  const Equation equation = ReadEquation(context.attributes(), ranks);
  SymbolicShape shape;
  for (const int subscript : equation.output) {
    Dim dim = 1;
    bool found = false;
    for (size_t slot = 0; slot < ranks.size(); ++slot) {
      for (size_t i = 0; i < ranks[slot]; ++i) {
        if (equation.inputs[slot][i] != subscript) continue;
        dim = BroadcastDim(dim, (*context.shape(slot))[i]);
        found = true;
      }
    }
    if (!found) BadEquation(context.attributes().String("equation", ""));
    shape.push_back(dim);
  }
  SetOutput(context, 0, context.inputs[0].dtype, shape);
}

/// One subscript, and how far each operand moves with it.
struct Axis {
  int subscript;
  int64_t size;
  std::vector<int64_t> steps;  // steps of the inputs, then of the output
};

void EvaluateEinsum(EvalContext& context) {
  std::vector<size_t> ranks;
  for (size_t slot = 0; slot < context.inputs.size(); ++slot) {
    ranks.push_back(context.input(slot).shape().size());
  }
  const Equation equation = ReadEquation(context.attributes(), ranks);
  const size_t count = ranks.size();
  std::vector<Axis> axes;
  const auto axis_of = [&](int subscript) -> Axis& {
    for (Axis& axis : axes) {
      if (axis.subscript == subscript) return axis;
    }
    axes.push_back({subscript, 1, std::vector<int64_t>(count + 1, 0)});
    return axes.back();
  };
  for (const int subscript : equation.output) axis_of(subscript);  // axes of the output come first
  const size_t outer = axes.size();
  for (size_t slot = 0; slot < count; ++slot) {
    const Tensor& input = context.input(slot);
    const Shape strides = RowMajorStrides(input.shape());
    for (size_t i = 0; i < ranks[slot]; ++i) {
      Axis& axis = axis_of(equation.inputs[slot][i]);
      const int64_t dim = input.shape()[i];
      if (dim != 1 && axis.size != 1 && dim != axis.size) {
        Fail(ErrorCode::kShapeMismatch,
             StrCat("Einsum: ", axis.size, " and ", dim, " elements along one subscript"));
      }
      if (dim == 1) continue;
      axis.size = dim;
      axis.steps[slot] += strides[i];
    }
  }
  Shape shape;
  for (size_t i = 0; i < outer; ++i) shape.push_back(axes[i].size);
  Tensor out(context.input(0).dtype(), shape);
  const bool known = VisitDType(out.dtype(), [&](auto tag) {
    using T = decltype(tag);
    using Sum = std::conditional_t<std::is_floating_point_v<T>, double, uint64_t>;  // wraps
    std::vector<const T*> from;
    for (size_t slot = 0; slot < count; ++slot) {
      from.push_back(static_cast<const T*>(context.input(slot).raw()));
    }
    std::vector<int64_t> at(axes.size(), 0);
    /// Moves all operands along the odometer [first, last); false at its end.
    const auto advance = [&](size_t first, size_t last) {
      for (size_t i = last; i-- > first;) {
        ++at[i];
        for (size_t slot = 0; slot < count; ++slot) from[slot] += axes[i].steps[slot];
        if (at[i] < axes[i].size) return true;
        for (size_t slot = 0; slot < count; ++slot) {
          from[slot] -= axes[i].steps[slot] * axes[i].size;
        }
        at[i] = 0;
      }
      return false;
    };
    const bool empty = std::any_of(axes.begin() + static_cast<std::ptrdiff_t>(outer), axes.end(),
                                   [](const Axis& axis) { return axis.size == 0; });
    T* to = static_cast<T*>(out.raw());
    for (int64_t i = 0; i < out.count(); ++i) {
      Sum sum{0};
      if (!empty) {
        do {
          Sum product{1};
          for (const T* value : from) product *= static_cast<Sum>(*value);
          sum += product;
        } while (advance(outer, axes.size()));
      }
      to[i] = static_cast<T>(sum);
      advance(0, outer);
    }
  });
  if (!known) Fail(ErrorCode::kUnsupported, StrCat("Einsum of ", DTypeName(out.dtype())));
  context.outputs[0] = std::move(out);
}

constexpr OpDef kRows[] = {
    {"Einsum", "", 12, 1, kVariadic, 1, InferEinsum, EvaluateEinsum, QuantRule::kFloat,
     FusionRule::kOutFusable},
};

}  // namespace

std::span<const OpDef> EinsumOps() { return kRows; }

}  // namespace requant
