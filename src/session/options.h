// The options of sessions, and what sessions report.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/parallel.h"
#include "plan/plan.h"

namespace requant {

struct SessionOptions {
  PlanOptions plan;
  /// Keeps the milliseconds of each step for Profile(); needs `now`.
  bool profile = false;
  /// The wall clock in milliseconds.
  double (*now)() = nullptr;
  /// Computes the parts of steps, with all its threads or plan.threads of them. Must outlive the
  /// session. Without a runner there is one thread.
  ParallelRunner* runner = nullptr;
};

/// One line of the profile.
struct StepProfile {
  std::string name, op, kernel;
  double milliseconds = 0;  // sum over runs
  int64_t macs = 0;         // of one run
  int runs = 0;
};

/// Memory of the plan that ran last, in bytes.
struct SessionMemory {
  size_t arena = 0;
  size_t arena_lower_bound = 0;
  size_t packed_weights = 0;
};

}  // namespace requant
