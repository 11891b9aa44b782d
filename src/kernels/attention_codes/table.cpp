#include "kernels/attention_codes/table.h"

namespace requant {
namespace {

constexpr AttentionCodesKernel kAttentionCodes[] = {
#define ROW(linkage, run, name, ...) {name, __VA_ARGS__, run},
#include "kernels/attention_codes/attention_codes.inc"
#undef ROW
};

}  // namespace

std::span<const AttentionCodesKernel> AttentionCodesKernels() { return kAttentionCodes; }

void (*AttentionCodesRow(AttentionCodesOp op))(const AttentionCodesParams* params) {
  void (*best)(const AttentionCodesParams*) = nullptr;
  for (const AttentionCodesKernel& row : kAttentionCodes) {
    if (row.op == op) best = row.run;
  }
  return best;
}

}  // namespace requant
