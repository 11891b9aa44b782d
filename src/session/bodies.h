#pragma once

#include <map>
#include <memory>

#include "ops/op.h"
#include "session/session.h"

namespace requant {

/// Worth a kernel of its own: what the references would make much slower.
bool IsExpensive(const Graph& graph, const Node& node);

/// Whether a body has anything such.
bool NeedsSession(const Graph& body);

/// A body as a graph of its own, with these types of the inputs that are no constants, in order.
/// These are called by their numbers, since a file names what is captured by what is around it.
Graph BodyOfTypes(const Graph& body, std::span<const ValueType> types);

/// The subgraphs of a Program's nodes as sessions, made when they run first; cheap ones by the
/// references. What it does is among the rarer operators, where all operators with subgraphs are;
/// making and deleting it (program.cpp) is not, since every Program has one: whose code is there
/// calls the rest through the table of virtual functions.
class Bodies : public BodyRunner {
 public:
  explicit Bodies(const SessionOptions& options) : options_(options) {}
  ~Bodies() override;

  std::vector<Tensor> Run(const Graph& body, std::span<const Tensor* const> inputs) override;

  /// Appends the plans of the bodies in `graph`'s nodes to `files`, and how many each body has to
  /// `plans`: those of the shapes it ran with last; if it never ran, that of the shapes it must
  /// have, where these are known.
  virtual void Save(const Graph& graph, std::vector<uint32_t>& plans,
                    std::vector<std::vector<uint8_t>>& files);
  /// Reads them again. Throws like LoadPlan.
  virtual void Load(const Graph& graph, std::span<const uint32_t> plans,
                    std::span<const SharedBytes> files);

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
