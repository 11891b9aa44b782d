#include "ops/elementwise/equal_texts.h"

#include "base/error.h"
#include "base/late_text.h"
#include "base/str_cat.h"
#include "ops/elementwise/elementwise.h"
#include "tensor/text.h"

namespace requant {

void EqualTexts(EvalContext& context) {
  const Tensor& a = context.input(0);
  const Tensor& b = context.input(1);
  if (!IsText(b.dtype())) {
    Fail(ErrorCode::kTypeMismatch,
         StrCat(RQ_LATE_TEXT("Equal of string and "), DTypeName(b.dtype())));
  }
  // Equal strings have equal handles.
  const auto* left = static_cast<const uint64_t*>(a.raw());
  const auto* right = static_cast<const uint64_t*>(b.raw());
  Tensor out(DType::kBool, BroadcastShapes(a.shape(), b.shape()));
  ForEachRow(PlanRows(out.shape(), {&a.shape(), &b.shape()}), [&](const RowStep& row) {
    for (int64_t i = 0; i < row.length; ++i) {
      out.data<bool>()[row.output + i] =
          left[row.input[0] + i * row.step[0]] == right[row.input[1] + i * row.step[1]];
    }
  });
  context.outputs[0] = std::move(out);
}

}  // namespace requant
