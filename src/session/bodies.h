#pragma once

#include <map>
#include <memory>

#include "ops/op.h"
#include "session/session.h"

namespace requant {

/// Whether a node deserves a kernel because its reference would be much slower.
bool IsExpensive(const Graph& graph, const Node& node);

/// Whether a body has any expensive node.
bool NeedsSession(const Graph& body);

/// A copy of a body, as a graph of its own, with these types for its inputs that are not constants,
/// in order. The copy's inputs are named by their numbers, since a file names a captured input
/// after the value around the body.
Graph BodyOfTypes(const Graph& body, std::span<const ValueType> types);

/// Runs the subgraphs of a Program's nodes as sessions, made when they run first, and cheap ones by
/// the references. Its methods are among the extended operators, where all operators with subgraphs
/// are. Making and deleting it (program.cpp) is not, since every Program does; code there calls the
/// rest through virtual functions.
class Bodies : public BodyRunner {
 public:
  explicit Bodies(const SessionOptions& options) : options_(options) {}
  ~Bodies() override;

  std::vector<Tensor> Run(const Graph& body, std::span<const Tensor* const> inputs) override;

  /// Appends the plans of the bodies in `graph`'s nodes to `files`, and the number of plans of each
  /// body to `plans`. A body saves the plans of the shapes it ran with last; one that never ran
  /// saves the plan of the only shapes it can have, where these are known. `as_read`: the graph as
  /// it is read from the file that it is written to.
  virtual void Save(const Graph& graph, const Graph& as_read, std::vector<uint32_t>& plans,
                    std::vector<std::vector<uint8_t>>& files);
  /// Loads what Save appended. Throws as LoadPlan does.
  virtual void Load(const Graph& graph, std::span<const uint32_t> plans,
                    std::span<const SharedBytes> files);

  /// The session of a body, once it ran; nullptr for one that runs by the references.
  const Session* Find(const Graph& body) const {
    const auto found = sessions_.find(&body);
    return found == sessions_.end() ? nullptr : found->second.get();
  }

  template <typename Visit>
  void ForEachSession(Visit&& visit) const {
    for (const auto& [body, session] : sessions_) {
      if (session) visit(*session);
    }
  }

 private:
  SessionOptions options_;
  std::map<const Graph*, std::unique_ptr<Session>> sessions_;  // nullptr: runs by the references
};

}  // namespace requant
