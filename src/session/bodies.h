#pragma once

#include <map>
#include <memory>

#include "ops/op.h"
#include "session/session.h"

namespace requant {

/// Worth a kernel of its own: what the references would make much slower.
bool IsExpensive(const Graph& graph, const Node& node);

/// The subgraphs of a Program's nodes as sessions, made when they run first; cheap ones by the
/// references. Running them is among the tools, where all operators with subgraphs are; making and
/// deleting it (program.cpp) is not, since every Program has one.
class Bodies : public BodyRunner {
 public:
  explicit Bodies(const SessionOptions& options) : options_(options) {}
  ~Bodies() override;

  std::vector<Tensor> Run(const Graph& body, std::span<const Tensor* const> inputs) override;

  template <typename Visit>
  void ForEachSession(Visit&& visit) const {
    for (const auto& [body, session] : sessions_) {
      if (session) visit(*session);
    }
  }

 private:
  SessionOptions options_;
  std::map<const Graph*, std::unique_ptr<Session>> sessions_;  // nullptr: by the references
};

}  // namespace requant
