#include "kernels/list.h"

#include "kernels/tables.h"
#include "kernels/variant/missing.h"

namespace requant {
namespace {

template <typename Rows>
void Append(std::vector<KernelInfo>& out, const char* family, const Rows& rows) {
  for (const auto& row : rows) {
    out.push_back({family, row.name, row.isa});
    if constexpr (requires { row.missing; }) {
      out.back().low_bits = IsLowBits(row.missing);
      out.back().missing = MissingForEver(row.missing);
    }
  }
}

}  // namespace

std::vector<KernelInfo> ListKernels() {
  std::vector<KernelInfo> out;
#define FAMILY(name, table) Append(out, #name, table());
#include "kernels/families.inc"
#undef FAMILY
  return out;
}

void (*AnyScalarKernel())() { return reinterpret_cast<void (*)()>(AddF32Reference); }

}  // namespace requant
