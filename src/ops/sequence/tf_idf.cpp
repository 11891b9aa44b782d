// TfIdfVectorizer (onnx docs/Operators.md).
#include <algorithm>
#include <string>
#include <vector>

#include "base/checked_math.h"
#include "base/error.h"
#include "base/str_cat.h"
#include "ops/infer_util.h"
#include "ops/table.h"
#include "ops/text/text_list.h"

namespace requant {
namespace {

int64_t VectorSize(const AttributeMap& attributes) {
  const std::vector<int64_t> indexes = attributes.Ints("ngram_indexes");
  if (indexes.empty() || *std::min_element(indexes.begin(), indexes.end()) < 0) {
    Fail(ErrorCode::kInvalidModel, "TfIdfVectorizer without ngram_indexes");
  }
  return CheckedAdd64(*std::max_element(indexes.begin(), indexes.end()), 1);
}

void InferTfIdf(InferContext& context) {
  RequireDType(context, 0, {DType::kInt32, DType::kInt64, DType::kString});
  std::optional<SymbolicShape> shape = context.inputs[0].shape;
  if (shape) {
    if (shape->empty() || shape->size() > 2) {
      Fail(ErrorCode::kShapeMismatch, StrCat("TfIdfVectorizer of rank ", shape->size()));
    }
    shape->back() = VectorSize(context.attributes());
  }
  SetOutput(context, 0, DType::kFloat32, shape);
}

/// The elements; those of strings are their handles, which are equal where the strings are.
std::vector<int64_t> NumbersOf(const Tensor& tensor) {
  if (!IsText(tensor.dtype())) return tensor.ToInts();
  const auto* handles = static_cast<const int64_t*>(tensor.raw());
  return {handles, handles + tensor.count()};
}

void EvaluateTfIdf(EvalContext& context) {
  const AttributeMap& attributes = context.attributes();
  const Tensor& x = context.input(0);
  const std::vector<int64_t> starts = attributes.Ints("ngram_counts");
  const std::vector<int64_t> indexes = attributes.Ints("ngram_indexes");
  const bool texts = IsText(x.dtype());
  const Tensor pool_texts = TextList(attributes, "pool_strings");
  const std::vector<int64_t> pool = texts ? NumbersOf(pool_texts) : attributes.Ints("pool_int64s");
  const std::vector<float> weights = attributes.Floats("weights");
  const int64_t shortest = attributes.Int("min_gram_length", 1);
  const int64_t longest = attributes.Int("max_gram_length", 1);
  const int64_t skips = attributes.Int("max_skip_count", 0);
  const std::string mode = attributes.String("mode", "TF");
  const int64_t size = VectorSize(attributes);
  if (x.rank() < 1 || x.rank() > 2 || pool.empty() || shortest < 1 || longest < shortest ||
      (mode != "TF" && mode != "IDF" && mode != "TFIDF") ||
      (!weights.empty() && weights.size() != indexes.size())) {
    Fail(ErrorCode::kInvalidModel, "TfIdfVectorizer with attributes that do not fit together");
  }
  const int64_t length = x.dim(x.rank() - 1);
  const int64_t rows = x.rank() == 2 ? x.dim(0) : 1;
  const std::vector<int64_t> values = NumbersOf(x);
  Shape shape = x.shape();
  shape.back() = size;
  Tensor out(DType::kFloat32, shape);
  size_t gram = 0;  // index of the n-gram in the pool
  for (size_t n = 1; n <= starts.size(); ++n) {
    const auto width = static_cast<int64_t>(n);
    const auto words = static_cast<int64_t>(pool.size());
    const int64_t end = n < starts.size() ? starts[n] : words;
    if (starts[n - 1] < 0 || starts[n - 1] > words || end < 0 || end > words) {
      Fail(ErrorCode::kInvalidModel, "ngram_counts of TfIdfVectorizer do not fit its pool");
    }
    for (int64_t at = starts[n - 1]; width <= end - at; at += width, ++gram) {
      if (gram >= indexes.size()) {
        Fail(ErrorCode::kInvalidModel, "TfIdfVectorizer has more n-grams than ngram_indexes");
      }
      if (width < shortest || width > longest) continue;
      for (int64_t row = 0; row < rows; ++row) {
        float found = 0;
        // A single word has nothing to skip.
        const int64_t last_step = n == 1 ? 1 : std::min(skips, length) + 1;
        for (int64_t step = 1; step <= last_step; ++step) {
          for (int64_t first = 0; first + (width - 1) * step < length; ++first) {
            bool same = true;
            for (int64_t i = 0; same && i < width; ++i) {
              same = values[static_cast<size_t>(row * length + first + i * step)] ==
                     pool[static_cast<size_t>(at + i)];
            }
            found += same ? 1 : 0;
          }
        }
        const float weight = weights.empty() ? 1 : weights[gram];
        if (mode == "IDF") found = found > 0 ? weight : 0;
        if (mode == "TFIDF") found *= weight;
        if (found != 0) out.data<float>()[row * size + indexes[gram]] = found;
      }
    }
  }
  context.outputs[0] = std::move(out);
}

constexpr OpDef kRows[] = {
    {"TfIdfVectorizer", "", 9, 1, 1, 1, InferTfIdf, EvaluateTfIdf, QuantRule::kFloat},
};

}  // namespace

std::span<const OpDef> TfIdfOps() { return kRows; }

}  // namespace requant
