#pragma once

namespace requant {

/// The largest number of threads that compute one step.
inline constexpr int kMaxThreads = 16;

/// Threads that wait for parts of a step. Only one caller may use them at a time.
class ParallelRunner {
 public:
  virtual ~ParallelRunner() = default;

  /// The number of threads, the caller included. It never shrinks.
  virtual int threads() const = 0;

  /// Runs the kernel (an index in KernelEntries) on `count` <= threads() parameter blocks and
  /// returns when all are done. The caller's thread runs the first one.
  virtual void Run(int kernel, const void* const* params, int count) = 0;
};

}  // namespace requant
