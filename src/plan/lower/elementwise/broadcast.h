#pragma once

#include <optional>

#include "plan/builder.h"
#include "plan/lower/parts.h"

namespace requant {

/// How the operands of an elementwise binary operator are walked (BinaryF32Params).
struct BinaryWalk {
  Layout layout = Layout::kPlain;  // layout of the output and of operands with its shape
  size_t rows = 1, cols = 0;
  size_t a_row_stride = 0, b_row_stride = 0;
  int a_step = 1, b_step = 1;
};

/// The walk when one operand has the output's shape and the other has it too, is one element, or is
/// one vector along the channels or the last axis; else nullopt.
std::optional<BinaryWalk> PlanBinary(const PlanBuilder& builder, const Value* a, const Value* b,
                                     const Value* out);
/// The walk of one block of any other broadcast between values in the plain layout. Blocks follow
/// each other in the output, and `blocks` says for each where its operands begin. nullopt when
/// there is nothing to walk, or too many blocks.
std::optional<BinaryWalk> PlanBlocks(const Value* a, const Value* b, const Value* out,
                                     std::vector<int64_t>& blocks);
/// The walk of PlanBinary or, where it finds none, of PlanBlocks.
std::optional<BinaryWalk> PlanBroadcast(const PlanBuilder& builder, const Value* a, const Value* b,
                                        const Value* out, std::vector<int64_t>& blocks);
/// Runs the kernel on `call`, or on each of the blocks if there are any. Elements have `bytes`
/// bytes in operands, `out_bytes` in results.
template <typename Params>
void RunBlocks(const RunContext& context, const Parts& parts, void (*run)(const Params*),
               Params& call, const std::vector<int64_t>& blocks, size_t bytes, size_t out_bytes) {
  const auto* a = static_cast<const uint8_t*>(static_cast<const void*>(call.a));
  const auto* b = static_cast<const uint8_t*>(static_cast<const void*>(call.b));
  auto* out = static_cast<uint8_t*>(call.out);
  RunParts(context, parts, run, call);
  for (size_t i = 2; i < blocks.size(); i += 2) {
    const void* next_a = a + static_cast<size_t>(blocks[i]) * bytes;
    const void* next_b = b + static_cast<size_t>(blocks[i + 1]) * bytes;
    call.a = static_cast<decltype(call.a)>(next_a);
    call.b = static_cast<decltype(call.b)>(next_b);
    call.out = out += call.rows * call.cols * out_bytes;
    RunParts(context, parts, run, call);
  }
}
/// The operand beside `own` of a binary operator if it is a constant: one float, or one for each
/// index along that axis of `own`, which has the output's shape. Else nullptr.
const Tensor* ConstantAlong(const Node& binary, const Value* own, size_t axis);
/// The slot of an operand in the walk's layout (plain for the smaller one).
int WalkedOperand(PlanBuilder& builder, const Value* operand, const Value* out, Layout layout);

}  // namespace requant
