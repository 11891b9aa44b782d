// The kernels that threads run. A caller and a thread name a kernel by the same number, although
// the thread has only the kernels' module, or only their code.
#pragma once

#include <span>

namespace requant {

struct KernelEntry {
  const char* name;  ///< the name under which the kernel module exports it
  void (*run)(const void* params);
  void (*function)();  ///< the kernel itself, compared but never called; null in the tools
};

/// Lists every vector kernel that computes a range of its output.
std::span<const KernelEntry> KernelEntries();

/// The index of a kernel in KernelEntries, or -1 if it is not listed.
int KernelEntryOf(void (*function)());

template <typename Params>
int KernelEntryOf(void (*run)(const Params*)) {
  return KernelEntryOf(reinterpret_cast<void (*)()>(run));
}

}  // namespace requant
