#pragma once

namespace requant {

/// Most threads that compute one step.
inline constexpr int kMaxThreads = 16;

/// Threads that wait for parts of a step. One caller at a time.
class ParallelRunner {
 public:
  virtual ~ParallelRunner() = default;

  /// How many compute, the caller included; does not shrink.
  virtual int threads() const = 0;

  /// Runs the kernel (its index in KernelEntries) on `count` <= threads() parameter blocks and
  /// returns when all are done. The first one is the caller's.
  virtual void Run(int kernel, const void* const* params, int count) = 0;
};

}  // namespace requant
