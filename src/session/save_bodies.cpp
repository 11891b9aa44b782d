// Saves and loads the plans of bodies in a program's file. Among the extended operators, as bodies
// are.
#include <algorithm>

#include "base/error.h"
#include "plan/archive.h"
#include "session/bodies.h"

namespace requant {
namespace {

/// Visits the bodies of a graph's nodes, in an order that survives saving.
template <typename Visit>
void ForEachBody(const Graph& graph, Visit&& visit) {
  for (const auto& node : graph.nodes()) {
    for (const auto& [name, value] : node->attributes.entries()) {
      if (const auto* body = std::get_if<Subgraph>(&value)) visit(*node, **body);
    }
  }
}

/// Whether both nodes read the same values in the same order.
bool HaveSameInputs(const Node& a, const Node& b) {
  return std::equal(a.inputs.begin(), a.inputs.end(), b.inputs.begin(), b.inputs.end(),
                    [](const Value* x, const Value* y) {
                      return x == nullptr || y == nullptr ? x == y : x->name == y->name;
                    });
}

/// The plan of a body for the only shapes that its node can give it; empty where they are unknown
/// or the body cannot run with them.
std::vector<uint8_t> PlanAhead(const Graph& graph, const Node& node, const Graph& body,
                               const SessionOptions& options) {
  try {
    BodyTypes given;
    InferNode(graph, node, &given);
    std::vector<ValueType> types;
    for (size_t i = 0; i < body.inputs().size(); ++i) {
      if (!body.inputs()[i]->is_constant()) types.push_back(given.at(&body)[i]);
    }
    for (const ValueType& type : types) {
      if (!type.IsStatic() || type.dtype == DType::kUndefined) return {};
    }
    Session session(PreparedModel::AsIs(BodyOfTypes(body, types)), options);
    session.Prepare();
    return session.Save();
  } catch (const Error&) {
    return {};  // the branch is never taken with these shapes, or the run reports the error
  }
}

}  // namespace

std::vector<std::vector<uint8_t>> Session::SavePlans() {
  std::vector<std::vector<uint8_t>> out;
  for (const Entry& entry : entries_) out.push_back(Save(entry));
  return out;
}

Session::Session(const Graph& body, std::span<const SharedBytes> saved_plans,
                 SessionOptions options)
    : Session(std::move(options)) {
  const auto open = std::count_if(body.inputs().begin(), body.inputs().end(),
                                  [](const Value* input) { return !input->is_constant(); });
  for (const SharedBytes& bytes : saved_plans) {
    const Graph& interface = Load(bytes).execution->interface();
    std::vector<ValueType> types;
    for (const Value* input : interface.inputs()) {
      types.push_back({input->type.dtype, std::nullopt});
    }
    bool same = types.size() == static_cast<size_t>(open) &&
                interface.outputs().size() == body.outputs().size();
    if (same) model_ = PreparedModel::AsIs(BodyOfTypes(body, types));
    size_t next = 0;
    for (const Value* input : same ? model_->graph().inputs() : std::vector<Value*>()) {
      if (input->is_constant()) continue;
      same = same && interface.inputs()[next++]->name == input->name;
    }
    if (!same) DamagedPlan("its parts do not fit together");
  }
}

void Bodies::Save(const Graph& graph, const Graph& as_read, std::vector<uint32_t>& plans,
                  std::vector<std::vector<uint8_t>>& files) {
  ForEachBody(graph, [&](const Node& node, const Graph& body) {
    std::vector<std::vector<uint8_t>> made;
    // A file has no order of captured values: the reader takes them in the order of their use.
    // Where that is another order the body is planned when it runs.
    const Node* read = as_read.FindNode(node.name);
    if (read == nullptr || !HaveSameInputs(node, *read)) {
      plans.push_back(0);
      return;
    }
    const auto found = sessions_.find(&body);
    if (found != sessions_.end() && found->second) made = found->second->SavePlans();
    if (made.empty() && NeedsSession(body)) {
      made.push_back(PlanAhead(graph, node, body, options_));
      if (made.back().empty()) made.clear();
    }
    plans.push_back(static_cast<uint32_t>(made.size()));
    for (std::vector<uint8_t>& file : made) files.push_back(std::move(file));
  });
}

void Bodies::Load(const Graph& graph, std::span<const uint32_t> plans,
                  std::span<const SharedBytes> files) {
  ForEachBody(graph, [&](const Node&, const Graph& body) {
    if (plans.empty() || plans[0] > files.size()) DamagedPlan("its bodies lack plans");
    if (plans[0] > 0) {
      sessions_[&body] = std::make_unique<Session>(body, files.first(plans[0]), options_);
    }
    files = files.subspan(plans[0]);
    plans = plans.subspan(1);
  });
  if (!plans.empty() || !files.empty()) DamagedPlan("its plans lack bodies");
}

}  // namespace requant
