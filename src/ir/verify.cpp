#include "ir/verify.h"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>

#include "base/error.h"
#include "base/str_cat.h"

namespace requant {
namespace {

[[noreturn]] void Broken(std::string message, std::string node, std::string value) {
  Fail(ErrorCode::kInvalidModel, std::move(message),
       {.node = std::move(node),
        .value = std::move(value),
        .hint = "the graph is not well formed: the file or the last pass is wrong"});
}

class Verifier {
 public:
  explicit Verifier(const Graph& graph) : graph_(graph) {}

  void Run() {
    for (const auto& value : graph_.values()) CheckValue(*value);
    CheckInterface();
    CheckNodes();
    CheckConsumers();
  }

 private:
  void CheckValue(const Value& value) {
    if (value.name.empty()) Broken("a value has no name", "", "");
    if (!names_.insert(value.name).second) {
      Broken(StrCat("two values are called '", value.name, "'"), "", value.name);
    }
    if (graph_.FindValue(value.name) != &value) {
      Broken(StrCat("value '", value.name, "' is not found by its name"), "", value.name);
    }
    known_.insert(&value);
    if (value.type.shape) {
      for (const Dim& dim : *value.type.shape) {
        if (dim.value < -1 || (dim.known() && !dim.symbol.empty())) {
          Broken(StrCat("value '", value.name, "' has a bad dimension"), "", value.name);
        }
      }
    }
    if (!value.is_constant()) return;
    if (value.producer) {
      Broken(StrCat("constant '", value.name, "' is also computed"), value.producer->name,
             value.name);
    }
    const bool same_shape =
        value.type.IsStatic() && value.type.StaticShape() == value.constant.shape();
    if (value.type.dtype != value.constant.dtype() || !same_shape) {
      Broken(StrCat("constant '", value.name, "' is declared as ", TypeToString(value.type),
                    ", but holds ", DTypeName(value.constant.dtype()),
                    ShapeToString(value.constant.shape())),
             "", value.name);
    }
  }

  void CheckInterface() {
    for (const auto* list : {&graph_.inputs(), &graph_.outputs()}) {
      std::set<const Value*> seen;
      const char* kind = list == &graph_.inputs() ? "input" : "output";
      for (const Value* value : *list) {
        if (value == nullptr || !known_.contains(value)) {
          Broken(StrCat("a graph ", kind, " is no value of the graph"), "", "");
        }
        if (!seen.insert(value).second) {
          Broken(StrCat(kind, " '", value->name, "' is listed twice"), "", value->name);
        }
      }
    }
    for (const Value* input : graph_.inputs()) {
      if (input->producer) {
        Broken(StrCat("input '", input->name, "' is computed by a node"), input->producer->name,
               input->name);
      }
      defined_.insert(input);
    }
    for (const auto& value : graph_.values()) {
      if (value->is_constant()) defined_.insert(value.get());
    }
  }

  void CheckNodes() {
    std::set<std::string_view> names;
    for (const auto& node : graph_.nodes()) {
      if (node->op_type.empty()) Broken("a node has no operator", node->name, "");
      if (node->op != OpId(node->op_type, node->domain)) {
        Broken("a node has the identity of another operator", node->name, "");
      }
      if (node->name.empty() || !names.insert(node->name).second) {
        Broken(StrCat("node name '", node->name, "' is not unique"), node->name, "");
      }
      for (const Value* input : node->inputs) {
        if (input == nullptr) continue;
        if (!known_.contains(input)) {
          Broken("a node reads a value that was removed", node->name, "");
        }
        if (!defined_.contains(input)) {
          Broken(StrCat("node '", node->name, "' reads '", input->name, "' before it is defined"),
                 node->name, input->name);
        }
        ++reads_[input][node.get()];
      }
      for (const Value* output : node->outputs) {
        if (output == nullptr) continue;
        if (!known_.contains(output)) {
          Broken("a node writes a value that was removed", node->name, "");
        }
        if (output->producer != node.get()) {
          Broken(StrCat("value '", output->name, "' does not know its producer"), node->name,
                 output->name);
        }
        if (!defined_.insert(output).second) {
          Broken(StrCat("value '", output->name, "' is defined twice"), node->name, output->name);
        }
      }
    }
    for (const Value* output : graph_.outputs()) {
      if (!defined_.contains(output)) {
        Broken(StrCat("output '", output->name, "' is never computed"), "", output->name);
      }
    }
  }

  void CheckConsumers() {
    for (const auto& value : graph_.values()) {
      if (value->producer && !defined_.contains(value.get())) {
        Broken(StrCat("value '", value->name, "' names a producer that does not write it"), "",
               value->name);
      }
      std::map<const Node*, size_t> listed;
      for (const Node* consumer : value->consumers) ++listed[consumer];
      const auto found = reads_.find(value.get());
      const bool same = found == reads_.end() ? listed.empty() : listed == found->second;
      if (!same) {
        Broken(StrCat("value '", value->name, "' has a wrong list of consumers"), "", value->name);
      }
    }
  }

  const Graph& graph_;
  std::set<std::string_view> names_;
  std::set<const Value*> known_;
  std::set<const Value*> defined_;
  std::map<const Value*, std::map<const Node*, size_t>> reads_;
};

}  // namespace

void VerifyGraph(const Graph& graph) { Verifier(graph).Run(); }

}  // namespace requant
