#pragma once

#include <vector>

namespace requant {

/// One row of one family's table: what PlanOptions::force_kernels can name.
struct KernelInfo {
  const char* family;
  const char* name;
  const char* isa;                // "scalar", "simd128" or "relaxed"
  const char* missing = nullptr;  // what this machine lacks for it: then it cannot be used
  bool low_bits = false;          // is loaded on demand
};

/// Every kernel of every family, in table order.
std::vector<KernelInfo> ListKernels();

/// The code of one of the scalar rows: a module has all of them or none.
void (*AnyScalarKernel())();

}  // namespace requant
