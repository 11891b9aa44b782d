// Operators on strings: StringNormalizer, StringConcat, StringSplit and RegexFullMatch (onnx
// docs/Operators.md). Where ONNX leaves something open, they follow ONNX Runtime.
#include <algorithm>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/late_text.h"
#include "base/parse_name.h"
#include "base/str_cat.h"
#include "ops/elementwise/binary_classes.h"
#include "ops/infer_util.h"
#include "ops/table.h"
#include "ops/text/constant_texts.h"
#include "ops/text/letter_case.h"
#include "ops/text/text_list.h"

namespace requant {
namespace {

// --- StringNormalizer

enum class CaseChange : uint8_t { kNone, kLower, kUpper };

struct StringNormalizer {
  CaseChange change = CaseChange::kNone;
  bool sensitive;
  Tensor stopwords;

  explicit StringNormalizer(const AttributeMap& attributes)
      : sensitive(attributes.Int("is_case_sensitive", 0) != 0),
        stopwords(TextList(attributes, "stopwords")) {
    constexpr const char* kNames[] = {"NONE", "LOWER", "UPPER"};
    const std::string name = attributes.String("case_change_action", kNames[0]);
    if (!ParseName(name, kNames, &change)) {
      Fail(ErrorCode::kInvalidModel, StrCat(RQ_LATE_TEXT("case_change_action "), name));
    }
    // Languages with rules of their own would need tables of them.
    const std::string locale = attributes.String("locale", "");
    const std::string bare = locale.substr(0, locale.find('.'));
    if (!bare.empty() && bare != "C" && bare != "POSIX" && bare != "en_US") {
      Fail(ErrorCode::kUnsupported, StrCat(RQ_LATE_TEXT("StringNormalizer of the locale "), locale),
           {.hint = RQ_LATE_TEXT("change the case in JavaScript, with toLocaleLowerCase()")});
    }
  }
  bool filters() const { return stopwords.count() > 0; }
};

void RequireTexts(const InferContext& context, size_t slot) {
  RequireDType(context, slot, {DType::kString});
}

[[noreturn]] void WrongRank(const std::string& shape) {
  Fail(ErrorCode::kShapeMismatch,
       StrCat(RQ_LATE_TEXT("StringNormalizer takes [C] or [1, C], not "), shape));
}

void InferStringNormalizer(InferContext& context) {
  RequireTexts(context, 0);
  const StringNormalizer normalizer(context.attributes());
  std::optional<SymbolicShape> shape = context.inputs[0].shape;
  if (shape && (shape->empty() || shape->size() > 2 ||
                (shape->size() == 2 && (*shape)[0].known() && (*shape)[0].value != 1))) {
    WrongRank(TypeToString(context.inputs[0]));
  }
  // An empty result becomes one empty string.
  const bool open = normalizer.filters() || (shape && !shape->back().known());
  if (shape && open) shape->back() = Dim();
  if (shape && !open) shape->back() = std::max<int64_t>(1, shape->back().value);
  SetOutput(context, 0, DType::kString, shape);
}

void EvaluateStringNormalizer(EvalContext& context) {
  const Tensor& x = context.input(0);
  if (x.rank() < 1 || x.rank() > 2 || (x.rank() == 2 && x.dim(0) != 1)) {
    WrongRank(ShapeToString(x.shape()));
  }
  const StringNormalizer normalizer(context.attributes());
  const auto key = [&normalizer](std::string_view text) {
    return normalizer.sensitive ? std::string(text) : InCase(text, LetterCase::kLower);
  };
  std::set<std::string> stopwords;
  for (const std::string_view word : TextsOf(normalizer.stopwords)) stopwords.insert(key(word));
  std::vector<std::string> out;
  for (const std::string_view text : TextsOf(x)) {
    if (!stopwords.empty() && stopwords.contains(key(text))) continue;
    switch (normalizer.change) {
      case CaseChange::kNone:
        out.emplace_back(text);
        break;
      case CaseChange::kLower:
        out.push_back(InCase(text, LetterCase::kLower));
        break;
      case CaseChange::kUpper:
        out.push_back(InCase(text, LetterCase::kUpper));
        break;
    }
  }
  if (out.empty()) out.emplace_back();
  Shape shape = x.shape();
  shape.back() = static_cast<int64_t>(out.size());
  context.outputs[0] = TextTensor(out, shape);
}

// --- StringConcat

void InferConcatTexts(InferContext& context) {
  RequireTexts(context, 0);
  RequireTexts(context, 1);
  SetOutput(context, 0, DType::kString, BroadcastOfInputs(context));
}

void EvaluateConcatTexts(EvalContext& context) {
  const Tensor& a = context.input(0);
  const Tensor& b = context.input(1);
  const std::vector<std::string_view> left = TextsOf(a);
  const std::vector<std::string_view> right = TextsOf(b);
  Tensor out(DType::kString, BroadcastShapes(a.shape(), b.shape()));
  auto* to = static_cast<uint64_t*>(out.raw());
  ForEachRow(PlanRows(out.shape(), {&a.shape(), &b.shape()}), [&](const RowStep& row) {
    for (int64_t i = 0; i < row.length; ++i) {
      std::string joined(left[static_cast<size_t>(row.input[0] + i * row.step[0])]);
      joined += right[static_cast<size_t>(row.input[1] + i * row.step[1])];
      to[row.output + i] = TextHandle(joined);
    }
  });
  context.outputs[0] = std::move(out);
}

// --- StringSplit

bool IsSpace(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

using Parts = std::vector<std::string_view>;

/// The parts between runs of white space. The last one may hold white space, but does not end with
/// it, as in ONNX Runtime (core/providers/cpu/nn/string_split.cc).
Parts SplitAtSpaces(std::string_view text, size_t most) {
  const auto skip = [&text] {
    while (!text.empty() && IsSpace(text.front())) text.remove_prefix(1);
  };
  while (!text.empty() && IsSpace(text.back())) text.remove_suffix(1);
  Parts parts;
  for (skip(); !text.empty(); skip()) {
    size_t end = parts.size() < most ? 0 : text.size();
    while (end < text.size() && !IsSpace(text[end])) ++end;
    parts.push_back(text.substr(0, end));
    text.remove_prefix(end);
  }
  return parts;
}

Parts SplitAt(std::string_view delimiter, std::string_view text, size_t most) {
  Parts parts;
  if (text.empty()) return parts;
  for (;;) {
    const size_t at = parts.size() < most ? text.find(delimiter) : std::string_view::npos;
    parts.push_back(text.substr(0, at));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + delimiter.size());
  }
}

void InferSplitTexts(InferContext& context) {
  RequireTexts(context, 0);
  const std::optional<SymbolicShape>& shape = context.inputs[0].shape;
  std::optional<SymbolicShape> parts = shape;
  if (parts) parts->emplace_back();
  SetOutput(context, 0, DType::kString, parts);
  SetOutput(context, 1, DType::kInt64, shape);
}

void EvaluateSplitTexts(EvalContext& context) {
  const Tensor& x = context.input(0);
  const std::string delimiter = context.attributes().String("delimiter", "");
  const int64_t given = context.attributes().Int("maxsplit", std::numeric_limits<int64_t>::max());
  if (given < 0) {
    Fail(ErrorCode::kInvalidModel, StrCat(RQ_LATE_TEXT("maxsplit of StringSplit is "), given));
  }
  const auto most = static_cast<size_t>(std::min<int64_t>(given, int64_t{1} << 31));
  std::vector<Parts> rows;
  size_t width = 0;
  for (const std::string_view text : TextsOf(x)) {
    rows.push_back(delimiter.empty() ? SplitAtSpaces(text, most) : SplitAt(delimiter, text, most));
    width = std::max(width, rows.back().size());
  }
  Shape shape = x.shape();
  shape.push_back(static_cast<int64_t>(width));
  Tensor parts(DType::kString, shape);  // missing parts are empty strings
  Tensor counts(DType::kInt64, x.shape());
  auto* to = static_cast<uint64_t*>(parts.raw());
  for (size_t row = 0; row < rows.size(); ++row) {
    counts.data<int64_t>()[row] = static_cast<int64_t>(rows[row].size());
    for (size_t i = 0; i < rows[row].size(); ++i) {
      // New strings leave the older ones, of which these are parts, where they are.
      to[row * width + i] = TextHandle(rows[row][i]);
    }
  }
  context.outputs[0] = std::move(parts);
  if (context.outputs.size() > 1) context.outputs[1] = std::move(counts);
}

// --- RegexFullMatch

[[noreturn]] void RefusePatterns() {
  Fail(
      ErrorCode::kUnsupported, RQ_LATE_TEXT("RegexFullMatch is not supported"),
      {.hint = RQ_LATE_TEXT("cut it off, and feed what new RegExp(`^(?:${pattern})$`, 'us').test() "
                            "gives for each string")});
}
void InferPattern(InferContext&) { RefusePatterns(); }
void EvaluatePattern(EvalContext&) { RefusePatterns(); }

constexpr auto kRule = QuantRule::kFloat;
constexpr OpDef kRows[] = {
    {"StringNormalizer", "", 10, 1, 1, 1, InferStringNormalizer, EvaluateStringNormalizer, kRule},
    {"StringConcat", "", 20, 2, 2, 1, InferConcatTexts, EvaluateConcatTexts, kRule},
    {"StringSplit", "", 20, 1, 1, 2, InferSplitTexts, EvaluateSplitTexts, kRule},
    {"RegexFullMatch", "", 20, 1, 1, 1, InferPattern, EvaluatePattern, kRule},
};

}  // namespace

Tensor ConstantTexts(const AttributeMap& attributes) {
  if (!attributes.Has("value_string")) return TextList(attributes, "value_strings");
  const std::string text = attributes.String("value_string", "");
  return TextTensor({&text, 1}, {});
}

std::span<const OpDef> TextOps() { return kRows; }

}  // namespace requant
