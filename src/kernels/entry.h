// The kernels that threads run: what a caller and a thread that has only the kernels' module, or
// only their code, call by the same number.
#pragma once

#include <span>

namespace requant {

struct KernelEntry {
  const char* name;  ///< under which the kernel module exports it
  void (*run)(const void* params);
  void (*function)();  ///< the kernel itself, for comparing only
};

/// Every vector kernel that computes a range of its output.
std::span<const KernelEntry> KernelEntries();

/// The index in KernelEntries, -1 for a kernel that is not there.
int KernelEntryOf(void (*function)());

template <typename Params>
int KernelEntryOf(void (*run)(const Params*)) {
  return KernelEntryOf(reinterpret_cast<void (*)()>(run));
}

}  // namespace requant
