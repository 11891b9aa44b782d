// Lists the files outside the model that hold its tensors.
#include <set>

#include "onnx/read.h"
#include "onnx/read_parts.h"
#include "onnx/tags.h"

namespace requant {
namespace {

/// Calls `visit` with every message in field `tag` of `message`.
template <typename Tag, typename Visit>
void ForEach(Message message, Tag tag, Visit&& visit) {
  while (message.Next()) {
    if (message.tag<Tag>() == tag) {
      visit(message.Child());
    } else {
      message.Skip();
    }
  }
}

void CollectLocations(Message tensor, std::set<std::string>& out) {
  using Entry = onnx_tags::StringStringEntryProto;
  ForEach(tensor, onnx_tags::TensorProto::kExternalData, [&](Message entry) {
    std::string key;
    std::string value;
    while (entry.Next()) {
      switch (entry.tag<Entry>()) {
        case Entry::kKey:
          key = entry.String();
          break;
        case Entry::kValue:
          value = entry.String();
          break;
        default:
          entry.Skip();
      }
    }
    if (key == "location") out.insert(value);
  });
}

/// Collects the files of a graph and of the bodies in it; `depth` graphs are around it.
void CollectFromGraph(Message graph, int depth, std::set<std::string>& out) {
  if (depth > kDeepestSubgraph) return;  // the reader refuses such a file
  ForEach(graph, onnx_tags::GraphProto::kInitializer,
          [&](Message tensor) { CollectLocations(tensor, out); });
  ForEach(graph, onnx_tags::GraphProto::kNode, [&](Message node) {
    ForEach(node, onnx_tags::NodeProto::kAttribute, [&](Message attribute) {
      ForEach(attribute, onnx_tags::AttributeProto::kTensor,
              [&](Message tensor) { CollectLocations(tensor, out); });
      ForEach(attribute, onnx_tags::AttributeProto::kGraph,
              [&](Message body) { CollectFromGraph(body, depth + 1, out); });
    });
  });
}

}  // namespace

std::vector<std::string> ExternalDataLocations(std::span<const uint8_t> file) {
  return Guarded([&] {
    std::set<std::string> locations;
    ForEach(Message(file), onnx_tags::ModelProto::kGraph,
            [&](Message graph) { CollectFromGraph(graph, 0, locations); });
    return std::vector<std::string>(locations.begin(), locations.end());
  });
}

}  // namespace requant
