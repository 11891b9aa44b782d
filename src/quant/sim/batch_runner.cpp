#include "quant/sim/batch_runner.h"

namespace requant {

int BatchRunner::PartsOf(int64_t total, double work) const {
  // To wake a thread takes about as long as 100,000 multiplications.
  constexpr double kLeastWork = 4e5;
  if (total <= 0) return 0;
  const int threads = runner_ == nullptr ? 1 : std::min(runner_->threads(), kMaxThreads);
  const double useful = std::min(static_cast<double>(total), work / kLeastWork);
  return std::max(1, std::min(threads, static_cast<int>(std::min(useful, 1e3))));
}

}  // namespace requant
