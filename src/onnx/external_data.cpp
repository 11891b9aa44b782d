// Tells what a file needs to be read: files that hold its tensors, and functions that load late.
#include <utility>

#include "base/checked_math.h"
#include "onnx/external_range.h"
#include "onnx/local_functions.h"
#include "onnx/read.h"
#include "onnx/read_parts.h"
#include "onnx/tags.h"
#include "onnx/upgrade.h"

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
  std::vector<ExternalNeed> external;
  bool late = false;
};

/// The bytes of a tensor; 0 for one that the reader refuses.
uint64_t SizeOf(const ExternalRange& range, const Shape& dims, int32_t type) {
  if (const auto length = ParseDecimal(range.length)) return *length;
  try {
    return DTypeBytes(DTypeFromNumber(type, ""), static_cast<size_t>(NumElements(dims)));
  } catch (const Error&) {
    return 0;
  }
}

void CollectFromTensor(Message tensor, Needs& needs) {
  using Tag = onnx_tags::TensorProto;
  ExternalRange range;
  Shape dims;
  int32_t type = 0;
  while (tensor.Next()) {
    switch (tensor.tag<Tag>()) {
      case Tag::kDims:
        tensor.AppendInt64(dims);
        break;
      case Tag::kDataType:
        type = tensor.Int32();
        break;
      case Tag::kExternalData:
        ReadExternalEntry(tensor.Child(), range);
        break;
      default:
        tensor.Skip();
    }
  }
  if (type == static_cast<int32_t>(DType::kString)) needs.late = true;
  if (range.location.empty()) return;
  ExternalNeed need{range.location, ParseDecimal(range.offset).value_or(0),
                    SizeOf(range, dims, type)};
  uint64_t end;
  if (__builtin_add_overflow(need.offset, need.size, &end)) need.size = 0;
  needs.external.push_back(std::move(need));
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
        case Tag::kOpsetImport: {
          const OpsetImport import = ReadOpsetImport(model.Child());
          if (import.domain.empty() && import.version < kOldestKept) needs.late = true;
          break;
        }
        case Tag::kFunctions:
          needs.late = true;
          ForEach(model.Child(), onnx_tags::FunctionProto::kNode,
                  [&](Message node) { CollectFromNode(node, 0, needs); });
          break;
        default:
          model.Skip();
      }
    }
    return FileNeeds{std::move(needs.external), needs.late ? kReadLocalFunctions.entry() : nullptr};
  });
}

}  // namespace requant
