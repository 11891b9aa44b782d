// The journal of an open plan records what the lowering of each node made, so that single nodes can
// be lowered again for other shapes (plan/open/open_plan.h).
#pragma once

#include <cstddef>
#include <map>
#include <utility>
#include <vector>

#include "ir/graph.h"
#include "plan/packed_weights.h"
#include "plan/plan.h"
#include "tensor/tensor.h"

namespace requant {

/// Records what one call of a lowering made. Its slots and its steps have consecutive numbers.
struct LoweredNode {
  const Node* node = nullptr;  // nullptr: the layouts of the graph's outputs
  size_t first_slot = 0, slots_end = 0;
  size_t first_step = 0, steps_end = 0;
  std::vector<std::pair<const Value*, Layout>> places;  // the slots that values got
  std::vector<const Node*> absorbed;                    // nodes that its steps compute as well
  std::vector<SharedWeights> packed;                    // memory that only this node's steps read
  bool once = false;                                    // it cannot be lowered again
  bool fresh = false;  // constants of its nodes follow from shapes, so its former steps say nothing
};

struct PlanJournal {
  std::vector<LoweredNode> nodes;
  std::map<int, Tensor> constants;  // of slots
  /// For a slot whose memory a later node made a part of its own: the index of that node.
  std::map<int, size_t> joined_by;

  // The node that is being lowered, and whether for the first time; else the next numbers to use.
  size_t current = 0;
  bool again = false;
  size_t next_slot = 0, next_step = 0;
};

}  // namespace requant
