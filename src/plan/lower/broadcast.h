#pragma once

#include <optional>

#include "plan/builder.h"

namespace requant {

/// How the operands of an elementwise binary operator are walked (see BinaryF32Params).
struct BinaryWalk {
  Layout layout = Layout::kPlain;  // of the operands that have the output's shape, and the output
  size_t rows = 1, cols = 0;
  size_t a_row_stride = 0, b_row_stride = 0;
  int a_step = 1, b_step = 1;
};

/// The walk when one operand has the output's shape and the other has it too, is one element, or is
/// one vector along the channels or the last axis; nullopt otherwise.
std::optional<BinaryWalk> PlanBinary(const PlanBuilder& builder, const Value* a, const Value* b,
                                     const Value* out);
/// The walk of a block of any other broadcast, all of whose values are plain; blocks follow each
/// other in the output, and `blocks` says for each where its operands begin. nullopt when there is
/// nothing to walk, or too much of it.
std::optional<BinaryWalk> PlanBlocks(const Value* a, const Value* b, const Value* out,
                                     std::vector<int64_t>& blocks);
/// The operand beside `own` of a binary operator if it is a constant: one float, or one for each
/// index along that axis of `own`, whose shape is the output's, too. nullptr otherwise.
const Tensor* ConstantAlong(const Node& binary, const Value* own, size_t axis);
/// The slot of an operand in the walk's layout (plain for the smaller one).
int WalkedOperand(PlanBuilder& builder, const Value* operand, const Value* out, Layout layout);

}  // namespace requant
