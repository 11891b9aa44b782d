// A ParallelRunner for the kernels of src/gradient alone: ThreadRunner needs the list of all
// kernels.
#pragma once

#include <thread>
#include <vector>

#include "base/parallel.h"
#include "gradient/kernel.h"

namespace requant::testing {

/// Runs every part of a batch on a thread of its own.
class PartRunner : public ParallelRunner {
 public:
  explicit PartRunner(int threads) : threads_(threads) {}
  int threads() const override { return threads_; }
  void Run(int kernel, const void* const* params, int count) override {
    ++runs;
    std::vector<std::thread> threads;
    for (int part = 0; part < count; ++part) {
      threads.emplace_back([kernel, params, part] { RunPart(kernel, params[part]); });
    }
    for (std::thread& thread : threads) thread.join();
  }
  int runs = 0;

 private:
  static void RunPart(int kernel, const void* params) {
#define ROW(number, run, Params) \
  if (kernel == gradient::number) return run(static_cast<const gradient::Params*>(params));
#include "gradient/kernels.inc"
#undef ROW
  }

  int threads_;
};

}  // namespace requant::testing
