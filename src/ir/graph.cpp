#include "ir/graph.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "base/str_cat.h"

namespace requant {
namespace {

void RemoveOne(std::vector<Node*>& list, const Node* node) {
  const auto found = std::find(list.begin(), list.end(), node);
  if (found != list.end()) list.erase(found);
}

}  // namespace

int Graph::opset(const std::string& domain) const {
  const auto found = opsets.find(domain);
  return found == opsets.end() ? 1 : found->second;
}

Value* Graph::FindValue(std::string_view value_name) const {
  const auto found = values_by_name_.find(value_name);
  return found == values_by_name_.end() ? nullptr : found->second;
}

Node* Graph::FindNode(std::string_view node_name) const {
  for (const auto& node : nodes_) {
    if (node->name == node_name) return node.get();
  }
  return nullptr;
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
  if (!values_by_name_.contains(value_name)) return value_name;
  std::string candidate;
  do {
    candidate = StrCat(value_name, "_", next_suffix_++);
  } while (values_by_name_.contains(candidate));
  return candidate;
}

std::string Graph::UniqueNodeName(std::string node_name, const std::string& op_type) {
  if (node_name.empty()) node_name = StrCat(op_type, "#", nodes_.size());
  std::string candidate = node_name;
  while (node_names_.contains(candidate)) candidate = StrCat(node_name, "_", next_suffix_++);
  node_names_.insert(candidate);
  return candidate;
}

Value* Graph::AddValue(std::string value_name, ValueType type) {
  auto value = std::make_unique<Value>();
  value->name = UniqueValueName(std::move(value_name));
  value->type = std::move(type);
  values_by_name_[value->name] = value.get();
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
  node->op_type = std::move(op_type);
  node->domain = std::move(domain);
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
  if (value) value->consumers.push_back(node);
  while (!node->inputs.empty() && node->inputs.back() == nullptr) node->inputs.pop_back();
}

void Graph::SetOutput(Node* node, size_t slot, Value* value) {
  if (slot >= node->outputs.size()) node->outputs.resize(slot + 1);
  if (Value* old = node->outputs[slot]) old->producer = nullptr;
  node->outputs[slot] = value;
  if (value) value->producer = node;
}

void Graph::ReplaceAllUses(Value* from, Value* to) {
  if (from == to) return;
  for (Node* node : from->consumers) {
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
  const bool swap_names = IsOutput(from) && !IsOutput(to) && !IsInput(to);
  ReplaceAllUses(from, to);
  if (!swap_names) return;
  std::string wanted = from->name;
  RenameValue(from, wanted + "_replaced");
  RenameValue(to, std::move(wanted));
}

void Graph::RenameValue(Value* value, std::string value_name) {
  values_by_name_.erase(value->name);
  value->name = UniqueValueName(std::move(value_name));
  values_by_name_[value->name] = value;
}

void Graph::EraseNode(Node* node) {
  for (Value* input : node->inputs) {
    if (input) RemoveOne(input->consumers, node);
  }
  for (Value* output : node->outputs) {
    if (output == nullptr || output->producer != node) continue;
    output->producer = nullptr;
    if (!output->consumers.empty() || IsOutput(output) || IsInput(output) ||
        output->is_constant()) {
      continue;
    }
    values_by_name_.erase(output->name);
    std::erase_if(values_, [output](const auto& owned) { return owned.get() == output; });
  }
  node_names_.erase(node->name);
  std::erase_if(nodes_, [node](const auto& owned) { return owned.get() == node; });
}

void Graph::MakeConstant(Value* value, Tensor tensor) {
  Node* producer = value->producer;
  value->producer = nullptr;
  value->type = {tensor.dtype(), ToSymbolic(tensor.shape())};
  value->constant = std::move(tensor);
  if (producer == nullptr) return;
  bool used = false;
  for (Value*& output : producer->outputs) {
    if (output == value) output = nullptr;
    used = used || (output && (!output->consumers.empty() || IsOutput(output)));
  }
  if (!used) EraseNode(producer);
}

void Graph::RemoveUnusedValues() {
  std::set<const Value*> kept(inputs_.begin(), inputs_.end());
  kept.insert(outputs_.begin(), outputs_.end());
  std::erase_if(values_, [&](const auto& value) {
    if (value->producer || !value->consumers.empty() || kept.contains(value.get())) return false;
    values_by_name_.erase(value->name);
    return true;
  });
}

void Graph::SortTopologically() {
  std::map<const Node*, size_t> missing;  // inputs not yet produced
  for (const auto& node : nodes_) {
    size_t count = 0;
    for (const Value* input : node->inputs) count += input && input->producer;
    missing[node.get()] = count;
  }
  // Kahn's algorithm, always taking the earliest ready node of the old order: stable.
  std::map<const Node*, size_t> position;
  for (size_t i = 0; i < nodes_.size(); ++i) position[nodes_[i].get()] = i;
  std::vector<size_t> ready;  // min-heap of old positions
  const auto later = std::greater<>();
  for (size_t i = 0; i < nodes_.size(); ++i) {
    if (missing[nodes_[i].get()] == 0) ready.push_back(i);
  }
  std::make_heap(ready.begin(), ready.end(), later);
  std::vector<size_t> order;
  order.reserve(nodes_.size());
  while (!ready.empty()) {
    std::pop_heap(ready.begin(), ready.end(), later);
    const size_t index = ready.back();
    ready.pop_back();
    order.push_back(index);
    for (const Value* output : nodes_[index]->outputs) {
      if (output == nullptr) continue;
      for (const Node* consumer : output->consumers) {
        if (--missing[consumer] == 0) {
          ready.push_back(position[consumer]);
          std::push_heap(ready.begin(), ready.end(), later);
        }
      }
    }
  }
  if (order.size() != nodes_.size()) {
    for (const auto& node : nodes_) {
      if (missing[node.get()] != 0) {
        Fail(ErrorCode::kInvalidModel, "the graph has a cycle",
             {.node = node->name, .hint = "an ONNX graph must be acyclic"});
      }
    }
  }
  std::vector<std::unique_ptr<Node>> sorted;
  sorted.reserve(nodes_.size());
  for (const size_t index : order) sorted.push_back(std::move(nodes_[index]));
  nodes_ = std::move(sorted);
}

Graph Graph::Clone() const {
  Graph copy;
  copy.name = name;
  copy.opsets = opsets;
  copy.metadata = metadata;
  std::map<const Value*, Value*> twin;
  for (const auto& value : values_) {
    Value* made = copy.AddValue(value->name, value->type);
    made->constant = value->constant;
    twin[value.get()] = made;
  }
  const auto translate = [&twin](const std::vector<Value*>& list) {
    std::vector<Value*> out;
    for (const Value* value : list) out.push_back(value ? twin.at(value) : nullptr);
    return out;
  };
  for (const auto& node : nodes_) {
    std::vector<Value*> outputs = translate(node->outputs);
    Node* made = copy.AddNode(node->op_type, node->domain, translate(node->inputs), {},
                              node->attributes, node->name);
    made->group = node->group;
    made->outputs = std::move(outputs);
    for (Value* output : made->outputs) {
      if (output) output->producer = made;
    }
  }
  copy.inputs_ = translate(inputs_);
  copy.outputs_ = translate(outputs_);
  copy.next_suffix_ = next_suffix_;
  return copy;
}

}  // namespace requant
