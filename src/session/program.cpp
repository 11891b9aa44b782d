#include "session/program.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/str_cat.h"
#include "ir/extract.h"
#include "kernels/variant/missing.h"
#include "plan/low_bits.h"
#include "session/bodies.h"
#include "session/session.h"

namespace requant {
namespace {

/// The tensor in memory that nobody else writes or frees.
Tensor Owned(const Tensor& tensor) { return tensor.is_owner() ? tensor : tensor.Clone(); }

const Tensor& Known(const TensorMap& values, const Value* value) {
  if (value->is_constant()) return value->constant;
  const auto found = values.find(value->name);
  if (found == values.end()) DamagedPlan("its parts do not fit together");
  return found->second;
}

}  // namespace

bool IsExpensive(const Graph& graph, const Node& node) {
  const OpDef& op = OpOf(graph, node);
  return op.expensive || op.quant == QuantRule::kConv || op.quant == QuantRule::kMatMul;
}

Program::Program() = default;

Program::Program(const Graph& graph, const SessionOptions& options,
                 const std::set<std::string>* dynamic)
    : options_(options) {
  const auto is_plannable = [dynamic](const Node& node) {
    if (dynamic == nullptr) return IsPlannable(node);
    return !node.has_subgraph() &&
           std::none_of(node.outputs.begin(), node.outputs.end(), [dynamic](const Value* output) {
             return output && dynamic->contains(output->name);
           });
  };
  enum class Place : uint8_t { kHead, kMiddle, kTail };
  std::map<const Value*, Place> places;
  std::vector<const Node*> nodes[3];
  for (const auto& owned : graph.nodes()) {
    const Node& node = *owned;
    Place place = Place::kHead;
    for (const Value* input : node.inputs) {
      const auto found = places.find(input);
      if (found != places.end()) place = std::max(place, found->second);
    }
    if (place == Place::kHead && !is_plannable(node)) place = Place::kMiddle;
    if (place == Place::kMiddle && !node.has_subgraph() && IsExpensive(graph, node)) {
      // An expensive node that waits for the middle goes to the tail, which is planned once the
      // shapes of its inputs are known.
      const bool waits = std::any_of(node.inputs.begin(), node.inputs.end(), [&](const Value* v) {
        const auto found = places.find(v);
        return found != places.end() && found->second != Place::kHead;
      });
      if (waits) place = Place::kTail;
    }
    for (const Value* output : node.outputs) {
      if (output) places[output] = place;
    }
    nodes[static_cast<size_t>(place)].push_back(&node);
  }
  // The nodes of a part. It returns what a later part or the caller reads.
  const auto part = [&](Place from) {
    std::vector<const Value*> out;
    for (const auto& value : graph.values()) {
      const bool constant = value->is_constant() && from == Place::kMiddle;
      const auto found = places.find(value.get());
      if (!constant && (found == places.end() || found->second != from)) continue;
      const bool used =
          graph.IsOutput(value.get()) ||
          (!constant &&
           std::any_of(value->consumers.begin(), value->consumers.end(), [&](const Node* reader) {
             return std::any_of(reader->outputs.begin(), reader->outputs.end(),
                                [&](const Value* v) { return v && places.at(v) != from; });
           }));
      if (used) out.push_back(value.get());
    }
    return Extract(graph, nodes[static_cast<size_t>(from)], out);
  };
  interface_.name = graph.name;
  for (const Value* input : graph.inputs()) {
    if (!input->is_constant()) interface_.AddInput(interface_.AddValue(input->name, input->type));
  }
  for (const Value* output : graph.outputs()) {
    Value* value = interface_.FindValue(output->name);
    interface_.AddOutput(value ? value : interface_.AddValue(output->name, output->type));
  }
  MakeStage(head_, part(Place::kHead));
  middle_ = part(Place::kMiddle);
  MakeStage(tail_, part(Place::kTail));
  Complete();
}

Program::~Program() = default;
Bodies::~Bodies() = default;

const Graph* Program::Stage::Interface() const {
  if (session) return &session->graph();
  return model ? &model->graph() : nullptr;
}

void Program::MakeStage(Stage& stage, Graph graph) {
  if (graph.nodes().empty()) return;
  stage.planned = std::all_of(graph.inputs().begin(), graph.inputs().end(), [](const Value* input) {
    return input->type.IsStatic() && input->type.dtype != DType::kUndefined;
  });
  stage.model = PreparedModel::AsIs(std::move(graph));
  if (!stage.planned) return;
  stage.session = std::make_unique<Session>(std::move(*stage.model), options_);
  stage.model.reset();
  stage.session->Prepare();
}

void Program::Complete() {
  bodies_ = std::make_unique<Bodies>(options_);
  for (const auto& node : middle_.nodes()) {
    profile_.push_back({node->name, node->op_type, "reference", 0, 0, 0});
  }
}

void Program::RunStage(Stage& stage, TensorMap& values) {
  if (stage.Interface() == nullptr) return;
  if (stage.session == nullptr) {
    // Some dtypes are known only now.
    Graph graph = stage.model->graph().Clone();
    for (Value* input : graph.inputs()) input->type.dtype = Known(values, input).dtype();
    stage.session = std::make_unique<Session>(PreparedModel::AsIs(std::move(graph)), options_);
    stage.model.reset();
  }
  const Graph& graph = stage.session->graph();
  TensorMap feeds;
  for (const Value* input : graph.inputs()) feeds[input->name] = Known(values, input);
  std::vector<Tensor> results = stage.session->Run(feeds);
  for (size_t i = 0; i < results.size(); ++i) {
    values[graph.outputs()[i]->name] = std::move(results[i]);
  }
}

void Program::Run(const TensorMap& feeds, std::span<const void* const>,
                  std::vector<Tensor>& results, const RunDetails&) {
  std::vector<Tensor> made = Results(feeds);
  if (results.empty()) {
    results = std::move(made);
    return;
  }
  for (size_t i = 0; i < made.size(); ++i) {
    if (made[i].shape() != results[i].shape() || made[i].dtype() != results[i].dtype()) {
      Fail(ErrorCode::kShapeMismatch, "an output has not the shape that its operators say");
    }
    if (made[i].bytes() > 0) std::memcpy(results[i].raw(), made[i].raw(), made[i].bytes());
  }
}

std::vector<Tensor> Program::MakeResults() const {
  std::vector<Tensor> results;
  for (const Value* output : interface_.outputs()) {
    if (!output->type.IsStatic()) {
      Fail(ErrorCode::kUnsupported,
           StrCat("the shape of '", output->name, "' depends on data, so it cannot be bound"),
           {.value = output->name, .hint = "use run()"});
    }
    results.emplace_back(output->type.dtype, output->type.StaticShape());
  }
  return results;
}

std::vector<Tensor> Program::Results(TensorMap values) {
  RunStage(head_, values);
  const bool timed = options_.profile && options_.now != nullptr;
  StepProfile* line = profile_.data();
  for (const auto& node : middle_.nodes()) {
    const double start = timed ? options_.now() : 0;
    std::vector<const Tensor*> inputs;
    for (const Value* input : node->inputs) {
      inputs.push_back(input ? &Known(values, input) : nullptr);
    }
    std::vector<Tensor> results =
        EvaluateNode(middle_, *node, inputs, options_.plan.requantize, bodies_.get());
    for (size_t k = 0; k < results.size(); ++k) {
      if (const Value* output = node->outputs[k]) values[output->name] = std::move(results[k]);
    }
    if (timed) {
      line->milliseconds += options_.now() - start;
      ++line->runs;
    }
    ++line;
  }
  RunStage(tail_, values);
  std::vector<Tensor> out;
  for (const Value* output : interface_.outputs()) {
    const Value* constant = middle_.FindValue(output->name);
    out.push_back(Owned(Known(values, constant ? constant : output)));
  }
  return out;
}

template <typename Visit>
void Program::ForEachSession(Visit&& visit) const {
  if (head_.session) visit(*head_.session);
  bodies_->ForEachSession(visit);
  if (tail_.session) visit(*tail_.session);
}

std::vector<StepProfile> Program::Profile() const {
  std::vector<StepProfile> out = profile_;
  ForEachSession([&out](const Session& session) {
    for (StepProfile& line : session.Profile()) out.push_back(std::move(line));
  });
  return out;
}

SessionMemory Program::memory() const {
  SessionMemory sum;
  ForEachSession([&sum](const Session& session) {
    const SessionMemory part = session.memory();
    sum.arena += part.arena;
    sum.arena_lower_bound += part.arena_lower_bound;
    sum.packed_weights += part.packed_weights;
  });
  return sum;
}

bool Program::LacksLowBits() const {
  if (MissingLowBits() == nullptr) return false;
  bool lacks = MayUseLowBits(middle_) || (tail_.model && MayUseLowBits(tail_.model->graph()));
  ForEachSession([&lacks](const Session& session) { lacks = lacks || session.LacksLowBits(); });
  return lacks;
}

}  // namespace requant
