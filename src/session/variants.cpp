#include "session/variants.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "ops/op.h"
#include "passes/runner.h"
#include "session/session.h"

namespace requant {
namespace {

/// Whether the node passes its only element on, or its opposite.
bool PassesOn(const Node& node) {
  return node.Is(Op::kIdentity) || node.Is(Op::kNot) || node.Is(Op::kSqueeze) ||
         node.Is(Op::kUnsqueeze) || node.Is(Op::kReshape) || node.Is(Op::kCast);
}

/// Whether a branch of an If follows from the value.
bool ChoosesBranch(const Value& value) {
  return std::any_of(value.consumers.begin(), value.consumers.end(), [&](const Node* node) {
    if (node->input(0) != &value) return false;
    return node->Is(Op::kIf) || (PassesOn(*node) && ChoosesBranch(*node->output()));
  });
}

class SwitchedSessions : public Variants {
 public:
  SwitchedSessions(const PreparedModel& model, SessionOptions options,
                   std::vector<std::string> switches)
      : model_(model.Clone()), options_(std::move(options)), switches_(std::move(switches)) {}

  Session* For(TensorMap& feeds) override {
    std::vector<bool> key;
    for (const std::string& name : switches_) {
      const auto feed = feeds.find(name);
      if (feed == feeds.end() || feed->second.dtype() != DType::kBool ||
          feed->second.count() != 1) {
        return nullptr;
      }
      key.push_back(*feed->second.data<uint8_t>() != 0);
    }
    std::unique_ptr<Session>& session = sessions_[key];
    if (!session) session = Make(key, feeds);
    for (const std::string& name : switches_) feeds.erase(name);
    return session.get();
  }

 private:
  std::unique_ptr<Session> Make(const std::vector<bool>& key, const TensorMap& feeds) const {
    Graph graph = model_.Clone().Release();
    for (size_t i = 0; i < switches_.size(); ++i) {
      Value* input = graph.FindValue(switches_[i]);
      Tensor value(DType::kBool, feeds.at(switches_[i]).shape());
      *value.data<uint8_t>() = key[i] ? 1 : 0;
      graph.MakeConstant(input, std::move(value));
      graph.RemoveInput(input);
    }
    RunPasses(graph);
    return std::make_unique<Session>(PreparedModel::Settled(std::move(graph)), options_);
  }

  PreparedModel model_;
  SessionOptions options_;
  std::vector<std::string> switches_;
  std::map<std::vector<bool>, std::unique_ptr<Session>> sessions_;
};

}  // namespace

std::unique_ptr<Variants> MakeVariants(const PreparedModel& model, const SessionOptions& options) {
  std::vector<std::string> switches;
  for (const Value* input : model.graph().inputs()) {
    const ValueType& type = input->type;
    if (input->is_constant() || type.dtype != DType::kBool || !type.shape ||
        type.shape->size() > 1 || !ChoosesBranch(*input) || model.graph().IsOutput(input)) {
      continue;
    }
    switches.push_back(input->name);
  }
  if (switches.empty()) return nullptr;
  return std::make_unique<SwitchedSessions>(model, options, std::move(switches));
}

}  // namespace requant
