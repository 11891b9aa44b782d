#include "kernels/token_codes/table.h"

namespace requant {
namespace {

constexpr TokenCodesKernel kTokenCodes[] = {
#define ROW(linkage, run, name, ...) {name, __VA_ARGS__, run},
#include "kernels/token_codes/token_codes.inc"
#undef ROW
};

}  // namespace

std::span<const TokenCodesKernel> TokenCodesKernels() { return kTokenCodes; }

void (*TokenCodesRow(TokenCodesOp op))(const TokenCodesParams* params) {
  void (*best)(const TokenCodesParams*) = nullptr;
  for (const TokenCodesKernel& row : kTokenCodes) {
    if (row.op == op) best = row.run;
  }
  return best;
}

}  // namespace requant
