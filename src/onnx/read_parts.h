// Readers of single messages inside a ModelProto, shared by the files of this folder.
#pragma once

#include <protozero/exception.hpp>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/str_cat.h"
#include "ir/attribute.h"
#include "onnx/message.h"
#include "onnx/tensor_proto.h"
#include "tensor/shape.h"

namespace requant {

/// Throws kInvalidModel; without a hint of its own the file is called damaged.
[[noreturn]] inline void InvalidFile(std::string message, ErrorContext context = {}) {
  if (context.hint.empty()) context.hint = "the file is damaged or is no ONNX model";
  Fail(ErrorCode::kInvalidModel, std::move(message), std::move(context));
}

/// Runs `function`, with malformed protobuf turned into kInvalidModel.
template <typename Function>
auto Guarded(Function&& function) {
  try {
    return function();
  } catch (const protozero::exception& error) {
    InvalidFile(StrCat("the bytes are no protobuf message: ", error.what()));
  }
}

struct ValueInfo {
  std::string name;
  ValueType type;
};
/// A ValueInfoProto. Throws kInvalidModel, or kUnsupported for sequences, maps and their like.
ValueInfo ReadValueInfo(Message message);

/// Graphs that may be around a subgraph; a file with more is refused.
constexpr int kDeepestSubgraph = 64;

/// Reads the subgraphs of attributes.
class SubgraphReader {
 public:
  virtual ~SubgraphReader() = default;
  virtual Subgraph ReadSubgraph(Message message) = 0;
};

/// An AttributeProto, set in `attributes`. `op_type` and `label` name its node in errors. Throws
/// kInvalidModel, or kUnsupported for kinds that no operator here has.
void ReadAttribute(Message message, const std::string& op_type, const std::string& label,
                   const SharedBytes& file, const ExternalFiles& external,
                   SubgraphReader& subgraphs, AttributeMap& attributes);

}  // namespace requant
