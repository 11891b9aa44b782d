// EliminateCommonSubexpr
// Before: two nodes with the same operator, attributes and inputs (constants compared bit for bit)
// After:  the first one, whose outputs everyone reads
// Conditions: at most one of each pair of outputs is a graph output, because each output has its
//   own name; operators that draw random numbers stay.
// Formula: f(x) = f(x); nodes are compared by operator, attributes, inputs and opset.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "ops/op.h"
#include "passes/pass.h"
#include "passes/rewrite.h"

namespace requant {
namespace {

size_t Mix(size_t hash, size_t more) {
  hash = (hash ^ more) * 0x9e3779b1U;
  return hash ^ (hash >> 15);
}

size_t Mix(size_t hash, std::string_view text) {
  for (const char c : text) hash = hash * 31 + static_cast<unsigned char>(c);
  return Mix(hash, text.size());
}

/// Hashes the size and a few bytes: equal constants have equal hashes, and most others do not.
size_t HashOf(const Tensor& tensor) {
  if (tensor.half()) return HashOf(*tensor.half());
  if (tensor.lean()) return reinterpret_cast<uintptr_t>(tensor.lean());
  uint32_t ends[2] = {};
  const size_t bytes = tensor.bytes();
  const size_t count = std::min(bytes, sizeof(uint32_t));
  const auto* data = static_cast<const uint8_t*>(tensor.raw());
  if (data != nullptr && count > 0) {
    std::memcpy(&ends[0], data, count);
    std::memcpy(&ends[1], data + (bytes - count), count);
  }
  return Mix(Mix(Mix(static_cast<size_t>(tensor.dtype()), bytes), ends[0]), ends[1]);
}

size_t HashOf(const Node& node) {
  size_t hash = Mix(Mix(node.outputs.size(), node.domain), node.op_type);
  for (const Value* input : node.inputs) {
    const bool constant = input && input->is_constant();
    hash = Mix(hash, constant ? HashOf(input->constant) : reinterpret_cast<uintptr_t>(input));
  }
  return hash;
}

/// Whether the constant has values: a plan may have left them out.
bool HasValues(const Tensor& tensor) { return tensor.half() || tensor.raw() != nullptr; }

/// Whether two constants are equal. Lean ones are not read, since reading makes their bytes stay.
bool SameConstant(const Tensor& a, const Tensor& b) {
  if (a.lean() || b.lean()) return a.lean() == b.lean() && a.shape() == b.shape();
  return HasValues(a) && HasValues(b) && a.SameBits(b);
}

bool SameInput(const Value* a, const Value* b) {
  return a == b ||
         (a && b && a->is_constant() && b->is_constant() && SameConstant(a->constant, b->constant));
}

bool CanMerge(const Graph& graph, const Node& from, const Node& to) {
  if (IsRandom(from)) return false;
  if (from.op_type != to.op_type || from.domain != to.domain ||
      from.outputs.size() != to.outputs.size() ||
      !std::equal(from.inputs.begin(), from.inputs.end(), to.inputs.begin(), to.inputs.end(),
                  SameInput)) {
    return false;
  }
  for (size_t i = 0; i < from.outputs.size(); ++i) {
    if ((from.outputs[i] == nullptr) != (to.outputs[i] == nullptr)) return false;
    if (from.outputs[i] && !CanReplace(graph, from.outputs[i], to.outputs[i])) return false;
  }
  return SameAttributes(from.attributes, to.attributes);
}

/// The nodes seen so far, by hashes of what they compute.
class SeenNodes {
 public:
  explicit SeenNodes(size_t nodes) {
    size_t slots = 16;
    while (slots < 2 * nodes) slots *= 2;
    slots_.resize(slots);
  }

  /// A node seen that computes the same; else nullptr, and the node itself joins them.
  Node* Twin(const Graph& graph, Node* node) {
    const size_t hash = HashOf(*node);
    size_t at = hash & (slots_.size() - 1);
    for (; slots_[at].node != nullptr; at = (at + 1) & (slots_.size() - 1)) {
      if (slots_[at].hash == hash && CanMerge(graph, *node, *slots_[at].node)) {
        return slots_[at].node;
      }
    }
    slots_[at] = {hash, node};
    return nullptr;
  }

 private:
  struct Slot {
    size_t hash = 0;
    Node* node = nullptr;
  };
  std::vector<Slot> slots_;  // a power of two, at most half of them in use
};

}  // namespace

bool EliminateCommonSubexpr(Graph& graph, PassContext&) {
  bool changed = false;
  SeenNodes seen(graph.nodes().size());
  for (size_t i = 0; i < graph.nodes().size();) {
    Node* node = graph.nodes()[i].get();
    Node* twin = seen.Twin(graph, node);
    if (twin == nullptr) {
      ++i;
      continue;
    }
    for (size_t slot = 0; slot < node->outputs.size(); ++slot) {
      if (node->outputs[slot]) graph.ReplaceAndKeepName(node->outputs[slot], twin->outputs[slot]);
    }
    graph.EraseNode(node);
    changed = true;
  }
  if (changed) graph.RemoveUnusedValues();
  return changed;
}

}  // namespace requant
