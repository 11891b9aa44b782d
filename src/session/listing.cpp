#include "session/listing.h"

#include <utility>

#include "base/str_cat.h"
#include "ir/graph.h"
#include "session/bodies.h"
#include "session/program.h"
#include "session/session.h"

namespace requant {
namespace {

int AddRegister(Listing& listing, Register made) {
  listing.registers.push_back(std::move(made));
  return static_cast<int>(listing.registers.size()) - 1;
}

/// The register of a name, -1 where there is none.
int& Found(ValueRegisters& values, const std::string& name) {
  for (auto& [known, index] : values) {
    if (known == name) return index;
  }
  return values.emplace_back(name, -1).second;
}

/// The register of a value of a graph, made where there is none.
int RegisterOf(const std::string& part, const Value& value, Listing& listing,
               ValueRegisters& values) {
  int& index = Found(values, value.name);
  if (index < 0) {
    std::optional<Shape> shape;
    if (value.type.IsStatic()) shape = value.type.StaticShape();
    index = AddRegister(listing, {part, value.name, value.type.dtype, std::move(shape)});
  }
  return index;
}

std::string Inside(const std::string& part, const std::string& name) {
  return part.empty() ? name : StrCat(part, "/", name);
}

void ListNodes(const std::string& part, const Graph& graph, const Bodies* bodies, Listing& listing,
               ValueRegisters& values);

/// Lists the bodies of a node behind it; they have registers of their own.
void ListBodies(const std::string& part, const Node& node, const Bodies* bodies, Listing& listing) {
  for (const auto& [name, attribute] : node.attributes.entries()) {
    const auto* body = std::get_if<Subgraph>(&attribute);
    if (body == nullptr) continue;
    const std::string inner = Inside(part, StrCat(node.name, "/", name));
    const Session* session = bodies ? bodies->Find(**body) : nullptr;
    ValueRegisters own;
    if (session && session->execution()) {
      session->execution()->List(inner, listing, own);
    } else {
      ListNodes(inner, **body, nullptr, listing, own);
    }
  }
}

void ListNodes(const std::string& part, const Graph& graph, const Bodies* bodies, Listing& listing,
               ValueRegisters& values) {
  for (const auto& node : graph.nodes()) {
    Instruction line{part, nullptr, 0, node->op_type, node->name, "reference", {}, {}};
    for (const Value* input : node->inputs) {
      line.reads.push_back(input ? RegisterOf(part, *input, listing, values) : -1);
    }
    for (const Value* output : node->outputs) {
      line.writes.push_back(output ? RegisterOf(part, *output, listing, values) : -1);
    }
    listing.instructions.push_back(std::move(line));
    ListBodies(part, *node, bodies, listing);
  }
}

}  // namespace

void PlanExecution::List(const std::string& part, Listing& listing, ValueRegisters& values) const {
  const Plan& plan = *plan_;
  std::vector<int> registers(plan.slots.size(), -1);  // of roots
  // The register of a slot's memory, named after the value `name` where it is made.
  const auto register_of = [&](int slot, const std::string& name) {
    const auto root = static_cast<size_t>(plan.slots[static_cast<size_t>(slot)].root);
    int& index = registers[root];
    if (index < 0) {
      const Slot& memory = plan.slots[root];
      index = AddRegister(listing, {part, name, memory.dtype, memory.shape});
    }
    return index;
  };
  // Inputs are the values of those names, and so are outputs.
  for (size_t i = 0; i < plan.slots.size(); ++i) {
    const Slot& slot = plan.slots[i];
    if (slot.home != Slot::Home::kInput || slot.root != static_cast<int>(i)) continue;
    int& known = Found(values, slot.name);
    registers[i] = known;
    known = register_of(static_cast<int>(i), slot.name);
  }
  for (size_t i = 0; i < plan.outputs.size() && i < interface_->outputs().size(); ++i) {
    const std::string& name = interface_->outputs()[i]->name;
    Found(values, name) = register_of(plan.outputs[i], name);
  }
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    const Step& step = *plan.steps[i];
    Instruction line{part, &plan, i, step.op, step.name, step.kernel, {}, {}};
    const auto add = [&](const std::vector<int>& slots, std::vector<int>& to) {
      for (const int slot : slots) {
        to.push_back(register_of(slot, plan.slots[static_cast<size_t>(slot)].name));
      }
    };
    add(step.inputs, line.reads);
    add(step.outputs, line.writes);
    listing.instructions.push_back(std::move(line));
  }
}

void Program::List(const std::string& part, Listing& listing, ValueRegisters& values) const {
  const auto list_stage = [&](const Stage& stage, const char* name) {
    const std::string inner = Inside(part, name);
    if (stage.session && stage.session->execution()) {
      stage.session->execution()->List(inner, listing, values);
    } else if (stage.Interface() != nullptr) {  // it is planned when it runs
      ListNodes(inner, *stage.Interface(), nullptr, listing, values);
    }
  };
  list_stage(head_, "head");
  ListNodes(Inside(part, "middle"), middle_, bodies_.get(), listing, values);
  list_stage(tail_, "tail");
}

}  // namespace requant
