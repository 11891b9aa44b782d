#pragma once

#include <vector>

namespace requant {

/// One row of one family's table, as PlanOptions::force_kernels names it.
struct KernelInfo {
  const char* family;
  const char* name;
  const char* isa;                // "scalar", "simd128" or "relaxed"
  const char* missing = nullptr;  // what this machine lacks for the row, which then cannot run
  bool low_bits = false;          // the row is in a module loaded on demand
};

/// Every kernel of every family, in table order.
std::vector<KernelInfo> ListKernels();

/// The code of one scalar row, whichever: a module has all scalar rows or none.
void (*AnyScalarKernel())();

}  // namespace requant
