#include "session/program.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "ops/subgraph.h"
#include "passes/runner.h"
#include "session/session.h"

namespace requant {
namespace {

/// Worth a kernel of its own: what the references would make much slower.
bool IsExpensive(const Graph& graph, const Node& node) {
  constexpr std::string_view kNames[] = {
      "LSTM", "GRU", "RNN", "ConvTranspose", "Attention", "MatMulInteger", "ConvInteger", "Resize"};
  const QuantRule rule = OpOf(graph, node).quant;
  return rule == QuantRule::kConv || rule == QuantRule::kMatMul || node.op_type.starts_with("Q") ||
         std::find(std::begin(kNames), std::end(kNames), node.op_type) != std::end(kNames);
}

/// In memory that nobody else writes or frees.
Tensor Owned(const Tensor& tensor) { return tensor.is_owner() ? tensor : tensor.Clone(); }

}  // namespace

/// Subgraphs as sessions; cheap ones by the references.
class Program::Bodies : public BodyRunner {
 public:
  explicit Bodies(const SessionOptions& options) : options_(options) {}

  std::vector<Tensor> Run(const Graph& body, std::span<const Tensor* const> inputs) override {
    Entry& entry = EntryOf(body, inputs);
    if (!entry.session) return EvaluateGraph(body, inputs, options_.plan.requantize);
    TensorMap feeds;
    size_t next = 0;
    for (const Value* input : body.inputs()) {
      if (!input->is_constant()) feeds[input->name] = *inputs[next++];
    }
    return entry.session->Run(feeds);
  }

  template <typename Visit>
  void ForEachSession(Visit&& visit) const {
    for (const auto& [body, entry] : entries_) {
      if (entry.session) visit(*entry.session);
    }
  }

 private:
  struct Entry {
    std::unique_ptr<Session> session;  // nullptr: by the references
  };

  static bool NeedsSession(const Graph& body) {
    return std::any_of(body.nodes().begin(), body.nodes().end(), [&body](const auto& node) {
      if (IsExpensive(body, *node)) return true;
      const auto& entries = node->attributes.entries();
      return std::any_of(entries.begin(), entries.end(), [](const auto& entry) {
        const auto* inner = std::get_if<Subgraph>(&entry.second);
        return inner && NeedsSession(**inner);
      });
    });
  }

  Entry& EntryOf(const Graph& body, std::span<const Tensor* const> inputs) {
    const auto found = entries_.find(&body);
    if (found != entries_.end()) return found->second;
    Entry& entry = entries_[&body];
    if (NeedsSession(body)) {
      auto graph = std::make_shared<Graph>(body.Clone());
      // What a body says of its inputs' shapes need not hold for every iteration.
      size_t next = 0;
      for (Value* input : graph->inputs()) {
        if (!input->is_constant()) input->type = {inputs[next++]->dtype(), std::nullopt};
      }
      graph->captured = 0;
      RunPasses(*graph, {});
      entry.session = std::make_unique<Session>(std::move(graph), options_);
    }
    return entry;
  }

  SessionOptions options_;
  std::map<const Graph*, Entry> entries_;
};

Program::Program(std::unique_ptr<Graph> graph, const SessionOptions& options)
    : graph_(std::move(graph)), options_(options), bodies_(std::make_unique<Bodies>(options)) {
  enum class Place : uint8_t { kHead, kMiddle, kTail };
  std::map<const Value*, Place> places;
  std::vector<const Node*> head, tail;
  for (const auto& owned : graph_->nodes()) {
    const Node& node = *owned;
    Place place = Place::kHead;
    for (const Value* input : node.inputs) {
      const auto found = places.find(input);
      if (found != places.end()) place = std::max(place, found->second);
    }
    if (place == Place::kHead && !IsPlannable(node)) place = Place::kMiddle;
    if (place == Place::kMiddle && !node.has_subgraph() && IsExpensive(*graph_, node)) {
      // Its inputs' shapes are known by now, so a data-dependent shape cannot come back here.
      const bool waits = std::any_of(node.inputs.begin(), node.inputs.end(), [&](const Value* v) {
        const auto found = places.find(v);
        return found != places.end() && found->second != Place::kHead;
      });
      if (waits) place = Place::kTail;
    }
    for (const Value* output : node.outputs) {
      if (output) places[output] = place;
    }
    if (place == Place::kHead) head.push_back(&node);
    if (place == Place::kMiddle) middle_.push_back(&node);
    if (place == Place::kTail) tail.push_back(&node);
  }
  // What each part hands on: values that a later part or the caller reads.
  const auto handed_on = [&](Place from) {
    std::vector<const Value*> out;
    for (const auto& value : graph_->values()) {
      const auto found = places.find(value.get());
      if (found == places.end() || found->second != from) continue;
      const bool used =
          graph_->IsOutput(value.get()) ||
          std::any_of(value->consumers.begin(), value->consumers.end(), [&](const Node* reader) {
            return std::any_of(reader->outputs.begin(), reader->outputs.end(),
                               [&](const Value* v) { return v && places.at(v) != from; });
          });
      if (used) out.push_back(value.get());
    }
    return out;
  };
  if (!head.empty()) head_ = MakePart(head, handed_on(Place::kHead));
  if (!tail.empty()) tail_ = MakePart(tail, handed_on(Place::kTail));
  for (const Node* node : middle_) {
    profile_.push_back({node->name, node->op_type, "reference", 0, 0, 0});
  }
}

Program::~Program() = default;

Program::Part Program::MakePart(const std::vector<const Node*>& nodes,
                                const std::vector<const Value*>& outputs) {
  Part part;
  part.outputs = outputs;
  auto graph = std::make_shared<Graph>();
  graph->name = graph_->name;
  graph->opsets = graph_->opsets;
  std::map<const Value*, Value*> twins;
  const auto twin = [&](const Value* value) -> Value* {
    if (value == nullptr) return nullptr;
    Value*& made = twins[value];
    if (made == nullptr) {
      if (value->is_constant()) {
        made = graph->AddConstant(value->name, value->constant);
      } else {
        made = graph->AddValue(value->name, value->type);
      }
    }
    return made;
  };
  std::set<const Value*> produced;
  for (const Node* node : nodes) {
    std::vector<Value*> inputs, results;
    for (const Value* value : node->inputs) {
      const bool is_new = value && !twins.contains(value);
      inputs.push_back(twin(value));
      if (!is_new || value->is_constant() || produced.contains(value)) continue;
      graph->AddInput(inputs.back());
      part.inputs.push_back(value);
    }
    for (const Value* value : node->outputs) {
      results.push_back(twin(value));
      produced.insert(value);
    }
    Node* made = graph->AddNode(node->op_type, node->domain, std::move(inputs), std::move(results),
                                node->attributes, node->name);
    made->group = node->group;
  }
  for (const Value* output : outputs) graph->AddOutput(twin(output));
  part.graph = std::move(graph);
  return part;
}

void Program::RunPart(Part& part, Environment& values) {
  if (part.graph) {
    for (size_t i = 0; i < part.inputs.size(); ++i) {
      part.graph->inputs()[i]->type.dtype = values.at(part.inputs[i]).dtype();
    }
    part.session = std::make_unique<Session>(std::move(part.graph), options_);
    part.graph.reset();
  }
  if (!part.session) return;
  TensorMap feeds;
  for (const Value* input : part.inputs) feeds[input->name] = values.at(input);
  std::vector<Tensor> results = part.session->Run(feeds);
  for (size_t i = 0; i < results.size(); ++i) values[part.outputs[i]] = std::move(results[i]);
}

std::vector<Tensor> Program::Run(const TensorMap& feeds) {
  Environment values;
  for (const Value* input : graph_->inputs()) {
    const auto feed = feeds.find(input->name);
    if (feed != feeds.end()) values[input] = feed->second;
  }
  const auto lookup = [&values](const Value* value) -> const Tensor* {
    if (value == nullptr) return nullptr;
    return value->is_constant() ? &value->constant : &values.at(value);
  };
  RunPart(head_, values);
  const bool timed = options_.profile && options_.now != nullptr;
  for (size_t i = 0; i < middle_.size(); ++i) {
    const Node& node = *middle_[i];
    const double start = timed ? options_.now() : 0;
    std::vector<const Tensor*> inputs;
    for (const Value* input : node.inputs) inputs.push_back(lookup(input));
    std::vector<Tensor> results =
        EvaluateNode(*graph_, node, inputs, options_.plan.requantize, bodies_.get());
    for (size_t k = 0; k < results.size(); ++k) {
      if (node.outputs[k]) values[node.outputs[k]] = std::move(results[k]);
    }
    if (timed) {
      profile_[i].milliseconds += options_.now() - start;
      ++profile_[i].runs;
    }
  }
  RunPart(tail_, values);
  std::vector<Tensor> out;
  for (const Value* output : graph_->outputs()) out.push_back(Owned(*lookup(output)));
  return out;
}

std::vector<StepProfile> Program::Profile() const {
  std::vector<StepProfile> out;
  const auto append = [&out](const Session& session) {
    for (StepProfile& line : session.Profile()) out.push_back(std::move(line));
  };
  if (head_.session) append(*head_.session);
  out.insert(out.end(), profile_.begin(), profile_.end());
  bodies_->ForEachSession(append);
  if (tail_.session) append(*tail_.session);
  return out;
}

SessionMemory Program::memory() const {
  SessionMemory sum;
  const auto add = [&sum](const Session& session) {
    const SessionMemory part = session.memory();
    sum.arena += part.arena;
    sum.arena_lower_bound += part.arena_lower_bound;
    sum.packed_weights += part.packed_weights;
  };
  if (head_.session) add(*head_.session);
  bodies_->ForEachSession(add);
  if (tail_.session) add(*tail_.session);
  return sum;
}

}  // namespace requant
