#include "quant/sim/batch_runner.h"

#include <cstdint>

#include "base/error.h"
#include "base/str_cat.h"

namespace requant {

size_t BatchRunner::Aligned(int64_t floats) {
  constexpr int64_t kLimit =
      static_cast<int64_t>(std::min<uint64_t>(SIZE_MAX / 16, INT64_MAX / 16));
  if (floats < 0 || floats > kLimit) {
    Fail(ErrorCode::kOutOfMemory, StrCat("a layer needs ", floats, " floats for its windows"),
         {.hint = "take smaller images"});
  }
  return (static_cast<size_t>(floats) + 4 + 31) / 16 * 16;
}

int BatchRunner::PartsOf(int64_t total, double work) const {
  // To wake a thread takes about as long as 100,000 multiplications.
  constexpr double kLeastWork = 4e5;
  if (total <= 0) return 0;
  const int threads = runner_ == nullptr ? 1 : std::min(runner_->threads(), kMaxThreads);
  const double useful = std::min(static_cast<double>(total), work / kLeastWork);
  return std::max(1, std::min(threads, static_cast<int>(std::min(useful, 1e3))));
}

}  // namespace requant
