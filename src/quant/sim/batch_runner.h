#pragma once

#include <algorithm>
#include <functional>
#include <vector>

#include "base/parallel.h"

namespace requant {

/// Runs the kernels of a batch (gradient/kernel.h) on all threads, and keeps their scratch.
class BatchRunner {
 public:
  /// `runner` outlives this object; null: one thread.
  explicit BatchRunner(ParallelRunner* runner = nullptr) : runner_(runner) {}

  /// A range of a kernel's work, by the members of its parameters.
  template <typename Params>
  struct Range {
    int64_t Params::*begin;
    int64_t Params::*end;
    int64_t total;
  };

  /// Runs a kernel, by its number and function, on the whole range, divided among threads if it has
  /// enough of `work` (multiplications). `scratch` tells how many floats a part needs that has so
  /// much of the range.
  template <typename Params>
  void Run(int number, void (*kernel)(const Params*), const Params& params,
           const Range<Params>& range, double work,
           const std::function<int64_t(int64_t)>& scratch) {
    int parts = PartsOf(range.total, work);
    if (parts == 0) return;
    size_t floats = 0;
    // Unfolded windows of large images are the scratch of few threads.
    for (;; --parts) {
      floats = Aligned(scratch((range.total + parts - 1) / parts));
      if (parts == 1 || floats <= kMostScratch / static_cast<size_t>(parts)) break;
    }
    const auto begin = [&](int64_t part) { return range.total * part / parts; };
    std::vector<Params> blocks(static_cast<size_t>(parts), params);
    const void* pointers[kMaxThreads];
    if (scratch_.size() < floats * blocks.size()) scratch_.resize(floats * blocks.size());
    for (size_t part = 0; part < blocks.size(); ++part) {
      blocks[part].*range.begin = begin(static_cast<int64_t>(part));
      blocks[part].*range.end = begin(static_cast<int64_t>(part) + 1);
      blocks[part].scratch = scratch_.data() + part * floats;
      pointers[part] = &blocks[part];
    }
    if (parts == 1) return kernel(blocks.data());
    runner_->Run(number, pointers, parts);
  }

 private:
  static constexpr size_t kMostScratch = size_t{1} << 26;  // floats, if there is more than one part

  /// Parts lie a cache line apart, and kernels may read a vector beyond their scratch.
  /// Throws kOutOfMemory for more than a machine can address.
  static size_t Aligned(int64_t floats);
  int PartsOf(int64_t total, double work) const;

  ParallelRunner* runner_;
  std::vector<float> scratch_;
};

}  // namespace requant
