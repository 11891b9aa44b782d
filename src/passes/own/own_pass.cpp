#include "passes/own/own_pass.h"

#include <algorithm>
#include <array>
#include <memory>
#include <utility>

#include "base/error.h"
#include "base/str_cat.h"
#include "ir/verify.h"
#include "passes/pass.h"
#include "passes/rewrite.h"
#include "passes/runner.h"
#include "passes/shape/infer_type.h"

namespace requant {
namespace {

/// A pass that was added, at an address that stays.
struct Slot {
  OwnPassSpec spec;
  Pass pass;
};
using Slots = std::array<std::unique_ptr<Slot>, kMostOwnPasses>;

/// They are never destroyed: a destructor at exit would be a call from the main module.
Slots& AllSlots() {
  static Slots& slots = *new Slots;
  return slots;
}

/// Makes a replacement's operators and puts their results in place of the root's outputs.
class Rewriter {
 public:
  Rewriter(Graph& graph, const OwnPassSpec& spec) : graph_(graph), spec_(spec) {}

  bool Run() {
    int64_t rewrites = 0;
    for (size_t i = 0; i < graph_.nodes().size();) {
      PatternMatch match;
      Node* root = graph_.nodes()[i].get();
      if (!MatchPattern(spec_.pattern, root, match) || !Rewrite(match)) {
        ++i;
        continue;
      }
      if (++rewrites > spec_.limit) {
        Fail(ErrorCode::kInvalidArgument,
             StrCat("pass ", spec_.name, " has rewritten ", spec_.limit,
                    " matches and still finds some"),
             {.value = spec_.name,
              .hint = "what it makes must not match its own pattern forever; or raise its limit"});
      }
      i = i > 8 ? i - 8 : 0;
    }
    return rewrites > 0;
  }

 private:
  bool Rewrite(const PatternMatch& match) {
    const std::string root = match.root->name;
    try {
      std::optional<Replacement> replacement = spec_.rewrite(graph_, match);
      if (!replacement) return false;
      Apply(match.root, *replacement);
      graph_.SortTopologically();
      RemoveDeadNodes(graph_);
      InferTypes(graph_);
      VerifyGraph(graph_);
      return true;
    } catch (const Error& error) {
      ErrorContext context = error.context();
      const bool elsewhere = !context.node.empty() && context.node != root;
      const std::string at = elsewhere ? StrCat(" (at '", context.node, "')") : "";
      context.node = root;
      throw Error(error.code(),
                  StrCat("pass ", spec_.name, " at '", root, "': ", error.message(), at),
                  std::move(context));
    }
  }

  Value* Find(const OperandRef& ref, const std::vector<std::vector<Value*>>& outputs) const {
    if (ref.node < 0) return ref.value;
    const auto node = static_cast<size_t>(ref.node);
    if (node >= outputs.size() || ref.output >= outputs[node].size()) {
      Fail(ErrorCode::kInvalidArgument, "an operand is an output that no new operator has");
    }
    return outputs[node][ref.output];
  }

  void Apply(Node* root, Replacement& replacement) {
    std::vector<std::vector<Value*>> outputs;
    for (NewOperator& made : replacement.nodes) {
      std::vector<Value*> inputs, results;
      for (const OperandRef& ref : made.inputs) inputs.push_back(Find(ref, outputs));
      const std::string name =
          made.name.empty() ? StrCat(root->name, "_", made.op) : std::move(made.name);
      for (size_t i = 0; i < made.outputs; ++i) results.push_back(graph_.AddValue(name));
      graph_.AddNode(made.op, made.domain, std::move(inputs), results, std::move(made.attributes),
                     name);
      outputs.push_back(std::move(results));
    }
    const std::vector<Value*> old = root->outputs;
    for (size_t i = 0; i < old.size(); ++i) {
      const bool given = i < replacement.results.size() && !replacement.results[i].absent();
      if (old[i] == nullptr || !given) continue;
      Replace(root, old[i], Find(replacement.results[i], outputs));
    }
  }

  void Replace(const Node* root, Value* from, Value* to) {
    if (from == to) return;
    // A new value takes over the declared type, against which inference checks it.
    const bool fresh = to->producer != nullptr && to->type.dtype == DType::kUndefined;
    if (fresh) {
      to->type = from->type;
    } else if (!Agree(from->type, to->type)) {
      Fail(ErrorCode::kTypeMismatch,
           StrCat("'", from->name, "' is ", TypeToString(from->type), ", its replacement '",
                  to->name, "' is ", TypeToString(to->type)),
           {.value = from->name, .hint = "a replacement must have the type of what it replaces"});
    }
    if (!CanReplace(graph_, from, to)) {
      to = graph_.AddOp("Identity", "", {to}, StrCat(root->name, "_result"), from->type);
    }
    graph_.ReplaceAndKeepName(from, to);
  }

  static bool Agree(const ValueType& a, const ValueType& b) {
    if (a.dtype != b.dtype && a.dtype != DType::kUndefined && b.dtype != DType::kUndefined) {
      return false;
    }
    if (!a.shape || !b.shape) return true;
    if (a.shape->size() != b.shape->size()) return false;
    for (size_t i = 0; i < a.shape->size(); ++i) {
      const Dim &first = (*a.shape)[i], &second = (*b.shape)[i];
      if (first.known() && second.known() && first.value != second.value) return false;
    }
    return true;
  }

  Graph& graph_;
  const OwnPassSpec& spec_;
};

/// Passes are functions without state, so each slot has one of its own.
template <size_t Index>
bool RunSlot(Graph& graph, PassContext&) {
  return Rewriter(graph, AllSlots()[Index]->spec).Run();
}

using Run = bool (*)(Graph&, PassContext&);
template <size_t... Indices>
constexpr std::array<Run, kMostOwnPasses> Runs(std::index_sequence<Indices...>) {
  return {RunSlot<Indices>...};
}
constexpr std::array<Run, kMostOwnPasses> kRuns = Runs(std::make_index_sequence<kMostOwnPasses>());

}  // namespace

void AddOwnPass(OwnPassSpec spec) {
  const std::string name = spec.name;
  const std::vector<const Pass*> all = AllPasses({});
  const auto known = [&all](const std::string& wanted) {
    return std::any_of(all.begin(), all.end(),
                       [&](const Pass* pass) { return wanted == pass->name; });
  };
  if (known(name)) {
    Fail(ErrorCode::kInvalidArgument, StrCat("there is a pass '", name, "' already"),
         {.value = name, .hint = "choose another name, or remove the other pass"});
  }
  for (const std::string& anchor : {spec.before, spec.after}) {
    if (anchor.empty() || known(anchor)) continue;
    Fail(ErrorCode::kInvalidArgument, StrCat("there is no pass '", anchor, "'"),
         {.value = anchor, .hint = "engineInfo() lists all passes"});
  }
  Slots& slots = AllSlots();
  for (size_t i = 0; i < slots.size(); ++i) {
    if (slots[i]) continue;
    slots[i] = std::make_unique<Slot>(Slot{std::move(spec), {}});
    const OwnPassSpec& kept = slots[i]->spec;
    slots[i]->pass = {kept.name.c_str(), kept.summary.c_str(),
                      kept.bound,        kept.by_default ? PassRole::kDefault : PassRole::kByName,
                      kRuns[i],          nullptr};
    OwnPasses().push_back({&slots[i]->pass, kept.before, kept.after});
    return;
  }
  Fail(ErrorCode::kInvalidArgument,
       StrCat("there are ", kMostOwnPasses, " passes of your own already"),
       {.value = name, .hint = "remove one of them"});
}

bool RemoveOwnPass(const std::string& name) {
  for (std::unique_ptr<Slot>& slot : AllSlots()) {
    if (!slot || slot->spec.name != name) continue;
    std::erase_if(OwnPasses(), [&](const OwnPass& own) { return own.pass == &slot->pass; });
    slot.reset();
    return true;
  }
  return false;
}

}  // namespace requant
