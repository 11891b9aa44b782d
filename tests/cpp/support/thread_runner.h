// A ParallelRunner with threads of the machine.
#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "base/parallel.h"
#include "kernels/entry.h"

namespace requant::testing {

class ThreadRunner : public ParallelRunner {
 public:
  explicit ThreadRunner(int threads) {
    for (int part = 1; part < threads; ++part) {
      workers_.emplace_back([this, part] { Serve(part); });
    }
  }
  ~ThreadRunner() override {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    wake_.notify_all();
    for (std::thread& worker : workers_) worker.join();
  }

  int threads() const override { return static_cast<int>(workers_.size()) + 1; }
  void Run(int kernel, const void* const* params, int count) override {
    {
      const std::lock_guard lock(mutex_);
      kernel_ = kernel;
      params_ = params;
      count_ = count;
      left_ = count - 1;
      ++round_;
      ++runs;
    }
    wake_.notify_all();
    KernelEntries()[static_cast<size_t>(kernel)].run(params[0]);
    std::unique_lock lock(mutex_);
    done_.wait(lock, [this] { return left_ == 0; });
  }

  int runs = 0;

 private:
  void Serve(int part) {
    int seen = 0;
    std::unique_lock lock(mutex_);
    for (;;) {
      wake_.wait(lock, [&] { return stop_ || round_ != seen; });
      if (stop_) return;
      seen = round_;
      if (part >= count_) continue;
      const void* mine = params_[part];
      const int kernel = kernel_;
      lock.unlock();
      KernelEntries()[static_cast<size_t>(kernel)].run(mine);
      lock.lock();
      if (--left_ == 0) done_.notify_one();
    }
  }

  std::vector<std::thread> workers_;
  std::mutex mutex_;
  std::condition_variable wake_, done_;
  bool stop_ = false;
  int round_ = 0, kernel_ = 0, count_ = 0, left_ = 0;
  const void* const* params_ = nullptr;
};

}  // namespace requant::testing
