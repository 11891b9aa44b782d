#include "ir/graph.h"

#include <algorithm>
#include <functional>

#include "base/error.h"
#include "base/str_cat.h"

namespace requant {
namespace {

void RemoveOne(std::vector<Node*>& list, const Node* node) {
  const auto found = std::find(list.begin(), list.end(), node);
  if (found != list.end()) list.erase(found);
}

}  // namespace

size_t Node::formal_inputs() const {
  size_t captured = 0;
  for (const auto& [key, value] : attributes.entries()) {
    if (const auto* body = std::get_if<Subgraph>(&value)) captured += (*body)->captured;
  }
  return captured < inputs.size() ? inputs.size() - captured : 0;
}

bool Node::has_subgraph() const {
  return std::any_of(
      attributes.entries().begin(), attributes.entries().end(),
      [](const auto& entry) { return std::holds_alternative<Subgraph>(entry.second); });
}

void Node::Retype(std::string new_type, std::string new_domain) {
  op_type = std::move(new_type);
  domain = std::move(new_domain);
  op = OpId(op_type, domain);
}

void Node::Retype(Op wanted) { Retype(OpName(wanted), OpDomain(wanted)); }

int Graph::opset(const std::string& domain) const {
  const auto found = opsets.find(domain);
  return found == opsets.end() ? 1 : found->second;
}

Value* Graph::FindValue(std::string_view value_name) const {
  return static_cast<Value*>(values_by_name_.Find(value_name));
}

Node* Graph::FindNode(std::string_view node_name) const {
  return static_cast<Node*>(nodes_by_name_.Find(node_name));
}

bool Graph::IsOutput(const Value* value) const {
  return std::find(outputs_.begin(), outputs_.end(), value) != outputs_.end();
}

bool Graph::IsInput(const Value* value) const {
  return std::find(inputs_.begin(), inputs_.end(), value) != inputs_.end();
}

Node* Graph::SoleConsumer(const Value* value) const {
  return value->consumers.size() == 1 && !IsOutput(value) ? value->consumers[0] : nullptr;
}

std::string Graph::UniqueValueName(std::string value_name) {
  if (value_name.empty()) value_name = "v";
  if (values_by_name_.Find(value_name) == nullptr) return value_name;
  std::string candidate;
  do {
    candidate = StrCat(value_name, "_", next_suffix_++);
  } while (values_by_name_.Find(candidate) != nullptr);
  return candidate;
}

std::string Graph::UniqueNodeName(std::string node_name, const std::string& op_type) {
  if (node_name.empty()) node_name = StrCat(op_type, "#", nodes_.size());
  if (nodes_by_name_.Find(node_name) == nullptr) return node_name;
  std::string candidate;
  do {
    candidate = StrCat(node_name, "_", next_suffix_++);
  } while (nodes_by_name_.Find(candidate) != nullptr);
  return candidate;
}

Value* Graph::AddValue(std::string value_name, ValueType type) {
  auto value = std::make_unique<Value>();
  value->name = UniqueValueName(std::move(value_name));
  value->type = std::move(type);
  value->position = values_.size();
  values_by_name_.Insert(value->name, value.get());
  values_.push_back(std::move(value));
  return values_.back().get();
}

Value* Graph::AddConstant(std::string value_name, Tensor tensor) {
  Value* value = AddValue(std::move(value_name));
  value->type = {tensor.dtype(), ToSymbolic(tensor.shape())};
  value->constant = std::move(tensor);
  return value;
}

void Graph::AddInput(Value* value) { inputs_.push_back(value); }
void Graph::AddOutput(Value* value) { outputs_.push_back(value); }

Node* Graph::AddNode(std::string op_type, std::string domain, std::vector<Value*> inputs,
                     std::vector<Value*> outputs, AttributeMap attributes, std::string node_name) {
  auto node = std::make_unique<Node>();
  node->name = UniqueNodeName(std::move(node_name), op_type);
  node->position = nodes_.size();
  node->Retype(std::move(op_type), std::move(domain));
  node->attributes = std::move(attributes);
  node->inputs = std::move(inputs);
  node->outputs = std::move(outputs);
  for (Value* value : node->inputs) {
    if (value) value->consumers.push_back(node.get());
  }
  for (Value* value : node->outputs) {
    if (value == nullptr) continue;
    if (value->producer || value->is_constant()) {
      Fail(ErrorCode::kInvalidModel, StrCat("value '", value->name, "' is defined twice"),
           {.node = node->name, .value = value->name, .hint = "every value needs one producer"});
    }
    value->producer = node.get();
  }
  nodes_by_name_.Insert(node->name, node.get());
  nodes_.push_back(std::move(node));
  return nodes_.back().get();
}

Value* Graph::AddOp(std::string op_type, std::string domain, std::vector<Value*> inputs,
                    std::string output_name, ValueType type, AttributeMap attributes,
                    std::string node_name) {
  Value* output = AddValue(std::move(output_name), std::move(type));
  AddNode(std::move(op_type), std::move(domain), std::move(inputs), {output}, std::move(attributes),
          std::move(node_name));
  return output;
}

void Graph::SetInput(Node* node, size_t slot, Value* value) {
  if (slot >= node->inputs.size()) node->inputs.resize(slot + 1);
  if (Value* old = node->inputs[slot]) RemoveOne(old->consumers, node);
  node->inputs[slot] = value;
  node->typed = false;
  if (value) value->consumers.push_back(node);
  while (!node->inputs.empty() && node->inputs.back() == nullptr) node->inputs.pop_back();
}

void Graph::SetOutput(Node* node, size_t slot, Value* value) {
  if (slot >= node->outputs.size()) node->outputs.resize(slot + 1);
  if (Value* old = node->outputs[slot]) old->producer = nullptr;
  node->outputs[slot] = value;
  node->typed = false;
  if (value) value->producer = node;
}

void Graph::RemoveNodeInput(Node* node, size_t slot) {
  if (Value* old = node->inputs[slot]) RemoveOne(old->consumers, node);
  node->inputs.erase(node->inputs.begin() + static_cast<std::ptrdiff_t>(slot));
  node->typed = false;
}

void Graph::RemoveInput(Value* value) { std::erase(inputs_, value); }

void Graph::ReplaceAllUses(Value* from, Value* to) {
  if (from == to) return;
  for (Node* node : from->consumers) {
    node->typed = false;
    for (Value*& input : node->inputs) {
      if (input == from) {
        input = to;
        to->consumers.push_back(node);
      }
    }
  }
  from->consumers.clear();
  std::replace(outputs_.begin(), outputs_.end(), from, to);
}

void Graph::ReplaceAndKeepName(Value* from, Value* to) {
  const bool swap_names = IsOutput(from);
  if (swap_names && (IsOutput(to) || IsInput(to))) {
    Fail(ErrorCode::kInternal, "an output would lose its name");
  }
  ReplaceAllUses(from, to);
  if (!swap_names) return;
  std::string wanted = from->name;
  RenameValue(from, wanted + "_replaced");
  RenameValue(to, std::move(wanted));
}

void Graph::RenameValue(Value* value, std::string value_name) {
  values_by_name_.Erase(value->name);
  value->name = UniqueValueName(std::move(value_name));
  values_by_name_.Insert(value->name, value);
}

void Graph::RenameNode(Node* node, std::string node_name) {
  nodes_by_name_.Erase(node->name);
  node->name = UniqueNodeName(std::move(node_name), node->op_type);
  nodes_by_name_.Insert(node->name, node);
}

namespace {

/// The index of an item: its position or below, because items move only towards the front.
template <typename Item>
size_t PlaceOf(const std::vector<std::unique_ptr<Item>>& items, const Item* item) {
  size_t at = std::min(item->position + 1, items.size());
  while (at > 0 && items[at - 1].get() != item) --at;
  return at - 1;
}

}  // namespace

void Graph::RemoveValue(const Value* value) {
  values_by_name_.Erase(value->name);
  values_.erase(values_.begin() + static_cast<ptrdiff_t>(PlaceOf(values_, value)));
}

void Graph::EraseNode(Node* node) {
  for (Value* input : node->inputs) {
    if (input) RemoveOne(input->consumers, node);
  }
  for (Value* output : node->outputs) {
    if (output == nullptr || output->producer != node) continue;
    output->producer = nullptr;
    if (output->consumers.empty() && !IsOutput(output) && !IsInput(output) &&
        !output->is_constant()) {
      RemoveValue(output);
    }
  }
  nodes_by_name_.Erase(node->name);
  nodes_.erase(nodes_.begin() + static_cast<ptrdiff_t>(PlaceOf(nodes_, node)));
}

void Graph::MakeConstant(Value* value, Tensor tensor) {
  Node* producer = value->producer;
  value->producer = nullptr;
  value->type = {tensor.dtype(), ToSymbolic(tensor.shape())};
  value->constant = std::move(tensor);
  TypeChanged(value);
  if (producer == nullptr) return;
  bool used = false;
  for (Value*& output : producer->outputs) {
    if (output == value) output = nullptr;
    used = used || (output && (!output->consumers.empty() || IsOutput(output)));
  }
  if (!used) EraseNode(producer);
}

void Graph::RemoveUnusedValues() {
  std::erase_if(values_, [&](const auto& value) {
    if (value->producer || !value->consumers.empty() || IsInput(value.get()) ||
        IsOutput(value.get())) {
      return false;
    }
    values_by_name_.Erase(value->name);
    return true;
  });
}

void Graph::SortTopologically() {
  const size_t count = nodes_.size();
  std::vector<size_t> missing(count, 0);  // inputs not yet produced
  std::vector<size_t> ready;              // min-heap of old positions
  bool sorted = true;
  Renumber();
  for (size_t i = 0; i < count; ++i) {
    for (const Value* input : nodes_[i]->inputs) {
      if (input == nullptr || input->producer == nullptr) continue;
      ++missing[i];
      sorted = sorted && input->producer->position < i;
    }
  }
  if (sorted) return;
  // Kahn's algorithm, always taking the earliest ready node of the old order: stable.
  const auto later = std::greater<>();
  for (size_t i = 0; i < count; ++i) {
    if (missing[i] == 0) ready.push_back(i);
  }
  std::make_heap(ready.begin(), ready.end(), later);
  std::vector<size_t> order;
  order.reserve(count);
  while (!ready.empty()) {
    std::pop_heap(ready.begin(), ready.end(), later);
    const size_t index = ready.back();
    ready.pop_back();
    order.push_back(index);
    for (const Value* output : nodes_[index]->outputs) {
      if (output == nullptr) continue;
      for (const Node* consumer : output->consumers) {
        if (--missing[consumer->position] == 0) {
          ready.push_back(consumer->position);
          std::push_heap(ready.begin(), ready.end(), later);
        }
      }
    }
  }
  if (order.size() != count) {
    for (const auto& node : nodes_) {
      if (missing[node->position] != 0) {
        Fail(ErrorCode::kInvalidModel, "the graph has a cycle",
             {.node = node->name, .hint = "an ONNX graph must be acyclic"});
      }
    }
  }
  std::vector<std::unique_ptr<Node>> in_order;
  in_order.reserve(count);
  for (const size_t index : order) {
    in_order.push_back(std::move(nodes_[index]));
    in_order.back()->position = in_order.size() - 1;
  }
  nodes_ = std::move(in_order);
}

Graph Graph::Clone() const {
  Graph copy;
  copy.name = name;
  copy.opsets = opsets;
  copy.metadata = metadata;
  copy.captured = captured;
  Renumber();
  copy.values_by_name_.Reserve(values_.size());
  copy.nodes_by_name_.Reserve(nodes_.size());
  copy.values_.reserve(values_.size());
  copy.nodes_.reserve(nodes_.size());
  for (const auto& value : values_) {
    auto made = std::make_unique<Value>();
    made->name = value->name;
    made->type = value->type;
    made->constant = value->constant;
    made->position = value->position;
    made->consumers.reserve(value->consumers.size());
    copy.values_by_name_.Insert(made->name, made.get());
    copy.values_.push_back(std::move(made));
  }
  const auto translate = [&copy](const std::vector<Value*>& list) {
    std::vector<Value*> out;
    out.reserve(list.size());
    for (const Value* value : list) {
      out.push_back(value ? copy.values_[value->position].get() : nullptr);
    }
    return out;
  };
  for (const auto& node : nodes_) {
    auto made = std::make_unique<Node>();
    made->op_type = node->op_type;
    made->domain = node->domain;
    made->op = node->op;
    made->name = node->name;
    made->group = node->group;
    made->used_bytes = node->used_bytes;
    made->attributes = node->attributes;
    made->inputs = translate(node->inputs);
    made->outputs = translate(node->outputs);
    made->typed = node->typed;
    made->position = node->position;
    for (Value* input : made->inputs) {
      if (input) input->consumers.push_back(made.get());
    }
    for (Value* output : made->outputs) {
      if (output) output->producer = made.get();
    }
    copy.nodes_by_name_.Insert(made->name, made.get());
    copy.nodes_.push_back(std::move(made));
  }
  copy.inputs_ = translate(inputs_);
  copy.outputs_ = translate(outputs_);
  copy.next_suffix_ = next_suffix_;
  return copy;
}

}  // namespace requant
