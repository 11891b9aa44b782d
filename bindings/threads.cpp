// Threads are JavaScript workers that run kernels on the same memory; web/engine/mailbox.ts hands
// parts to them. The loader supplies two functions of it as imports of the module.
#include "threads.h"

#define RQ_THREADS(name) extern "C" __attribute__((import_module("threads"), import_name(#name)))

/// Gives a part (1, 2, ...) to its thread.
RQ_THREADS(rq_post) void rq_post(int part, int kernel, const void* params);
/// Waits until the part is done; nonzero: its thread has not begun it and never will.
RQ_THREADS(rq_finish) int rq_finish(int part);

namespace requant::bindings {
namespace {

class WorkerThreads : public ParallelRunner {
 public:
  int threads() const override { return count; }
  void Run(int kernel, const void* const* params, int parts) override {
    for (int part = 1; part < parts; ++part) rq_post(part, kernel, params[part]);
    const auto run = KernelEntries()[static_cast<size_t>(kernel)].run;
    run(params[0]);
    for (int part = 1; part < parts; ++part) {
      if (rq_finish(part) != 0) run(params[part]);
    }
  }
  int count = 1;
};

WorkerThreads threads;

}  // namespace

ParallelRunner* Threads() { return &threads; }
void UseThreads(int count) { threads.count = count; }

std::string ThreadKernels() {
  std::string names;
  for (const KernelEntry& entry : KernelEntries()) names.append(entry.name).append(" ");
  names.pop_back();
  return names;
}

}  // namespace requant::bindings
