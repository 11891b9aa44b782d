// Tells what a file needs to be read: files that hold its tensors, and functions that load late.
#include <set>

#include "onnx/local_functions.h"
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

struct Needs {
  std::set<std::string> files;
  bool late = false;
};

void CollectFromTensor(Message tensor, Needs& needs) {
  using Tag = onnx_tags::TensorProto;
  using Entry = onnx_tags::StringStringEntryProto;
  while (tensor.Next()) {
    const Tag tag = tensor.tag<Tag>();
    if (tag == Tag::kDataType && tensor.Int32() == static_cast<int>(DType::kString)) {
      needs.late = true;
    }
    if (tag != Tag::kExternalData) {
      if (tag != Tag::kDataType) tensor.Skip();
      continue;
    }
    Message entry = tensor.Child();
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
    if (key == "location") needs.files.insert(value);
  }
}

void CollectFromSparse(Message sparse, Needs& needs) {
  using Tag = onnx_tags::SparseTensorProto;
  needs.late = true;
  while (sparse.Next()) {
    const Tag tag = sparse.tag<Tag>();
    if (tag == Tag::kValues || tag == Tag::kIndices) {
      CollectFromTensor(sparse.Child(), needs);
    } else {
      sparse.Skip();
    }
  }
}

void CollectFromGraph(Message graph, int depth, Needs& needs);

void CollectFromNode(Message node, int depth, Needs& needs) {
  using Tag = onnx_tags::AttributeProto;
  ForEach(node, onnx_tags::NodeProto::kAttribute, [&](Message attribute) {
    while (attribute.Next()) {
      switch (attribute.tag<Tag>()) {
        case Tag::kTensor:
          CollectFromTensor(attribute.Child(), needs);
          break;
        case Tag::kSparseTensor:
          CollectFromSparse(attribute.Child(), needs);
          break;
        case Tag::kGraph:
          CollectFromGraph(attribute.Child(), depth + 1, needs);
          break;
        default:
          attribute.Skip();
      }
    }
  });
}

/// Collects from a graph and from the bodies in it; `depth` graphs are around it.
void CollectFromGraph(Message graph, int depth, Needs& needs) {
  using Tag = onnx_tags::GraphProto;
  if (depth > kDeepestSubgraph) return;  // the reader refuses such a file
  while (graph.Next()) {
    switch (graph.tag<Tag>()) {
      case Tag::kInitializer:
        CollectFromTensor(graph.Child(), needs);
        break;
      case Tag::kSparseInitializer:
        CollectFromSparse(graph.Child(), needs);
        break;
      case Tag::kNode:
        CollectFromNode(graph.Child(), depth, needs);
        break;
      default:
        graph.Skip();
    }
  }
}

}  // namespace

FileNeeds NeedsOf(std::span<const uint8_t> file) {
  using Tag = onnx_tags::ModelProto;
  return Guarded([&] {
    Needs needs;
    Message model(file);
    while (model.Next()) {
      switch (model.tag<Tag>()) {
        case Tag::kGraph:
          CollectFromGraph(model.Child(), 0, needs);
          break;
        case Tag::kFunctions:
          needs.late = true;
          ForEach(model.Child(), onnx_tags::FunctionProto::kNode,
                  [&](Message node) { CollectFromNode(node, 0, needs); });
          break;
        default:
          model.Skip();
      }
    }
    return FileNeeds{{needs.files.begin(), needs.files.end()},
                     needs.late ? kReadLocalFunctions.entry() : nullptr};
  });
}

}  // namespace requant
