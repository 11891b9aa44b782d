#include "quant/weights/product_inputs.h"

#include "base/error.h"
#include "base/str_cat.h"

namespace requant {
namespace {

constexpr int64_t kMostRows = 8192;                   // of a product whose input is observed
constexpr int64_t kBytesOfPass = int64_t{256} << 20;  // sums of products at a time

}  // namespace

std::string WhyUnseen(const Graph& graph, const Product& p) {
  if (p.recurrent) return "a recurrent layer";
  if (p.node->attributes.Int("transA", 0) != 0) return "its operand is transposed";
  if (p.k > kMostRows) return StrCat("it has more than ", kMostRows, " rows");
  const Value* input = p.node->inputs[0];
  if (input->is_constant()) return "its operand is constant";
  if (!graph.IsInput(input) && input->producer == nullptr) return "its operand is not computed";
  return "";
}

void ProductInputs::Watch(const std::string& value, int64_t k) {
  if (sums_.contains(value)) return;
  sums_.emplace(value, nullptr);
  const int64_t bytes = InputProducts::BytesOf(k);
  if (passes_.empty() || bytes_ + bytes > kBytesOfPass) {
    passes_.emplace_back();
    bytes_ = 0;
  }
  bytes_ += bytes;
  passes_.back().push_back(value);
}

void ProductInputs::Observe(const std::string& value, const Tensor& seen) {
  const int64_t k = seen.rank() > 0 ? seen.dim(seen.rank() - 1) : 0;
  if (k == 0 || seen.count() == 0) return;
  std::unique_ptr<InputProducts>& inputs = sums_.at(value);
  if (!inputs) inputs = std::make_unique<InputProducts>(k);
  if (inputs->k() != k) {
    Fail(ErrorCode::kShapeMismatch,
         StrCat("value '", value, "' has rows of ", k, " and of ", inputs->k(), " numbers"),
         {.value = value});
  }
  inputs->Add(seen.data<float>(), seen.count() / k);
}

void ProductInputs::CheckFinite(int pass) const {
  for (const std::string& value : values(pass)) {
    const InputProducts* inputs = sums_.at(value).get();
    if (inputs == nullptr || inputs->finite()) continue;
    Fail(ErrorCode::kInvalidArgument,
         StrCat("value '", value, "' has NaN or infinity in the calibration samples"),
         {.value = value, .hint = "leave such samples out"});
  }
}

}  // namespace requant
