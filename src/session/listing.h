// A Program as a flat list of instructions on registers, for people who want to see how a model
// with control flow runs.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "plan/plan.h"

namespace requant {

/// A step of a plan, or an operator that runs between plans.
struct Instruction {
  /// The part of the program: "head", "middle" or "tail"; behind the name of a node and of its body
  /// for the parts of a body, such as "loop/body/head".
  std::string part;
  const Plan* plan = nullptr;  // of a step
  size_t step = 0;             // its number in the plan
  std::string op, name, kernel;
  std::vector<int> reads, writes;  // registers; -1 for an operand left out
};

/// Memory that instructions read and write: an input of the part, the place of a plan's values, or
/// a value between plans.
struct Register {
  std::string part, name;
  DType dtype = DType::kUndefined;
  std::optional<Shape> shape;  // where it is known
};

struct Listing {
  std::vector<Instruction> instructions;
  std::vector<Register> registers;
};

/// The registers of the values that a part shares with those around it, with their names.
using ValueRegisters = std::vector<std::pair<std::string, int>>;

}  // namespace requant
