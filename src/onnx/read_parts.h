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

/// Throws kInvalidModel; the default hint calls the file damaged.
[[noreturn]] inline void InvalidFile(std::string message, ErrorContext context = {}) {
  if (context.hint.empty()) context.hint = "the file is damaged or is no ONNX model";
  Fail(ErrorCode::kInvalidModel, std::move(message), std::move(context));
}

/// Runs `function` and turns malformed protobuf into kInvalidModel.
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
/// Reads a ValueInfoProto. Throws kInvalidModel, or kUnsupported for maps, sparse and opaque
/// values, and containers of sequences other than optional ones.
ValueInfo ReadValueInfo(Message message);

/// The dtype of a TypeProto, with the bits of containers (tensor/dtype.h). Throws as ReadValueInfo.
DType ReadTypeProto(Message message, const std::string& what);

/// The largest nesting of subgraphs; a file with more is refused.
constexpr int kDeepestSubgraph = 64;

/// Reads the subgraphs of attributes.
class SubgraphReader {
 public:
  virtual ~SubgraphReader() = default;
  virtual Subgraph ReadSubgraph(Message message) = 0;
};

/// Reads an AttributeProto and sets it in `attributes`. `op_type` and `label` name its node in
/// errors, `around` has the attributes of the function call around it, to which a reference may
/// refer (nullptr: outside of functions). Throws kInvalidModel, or kUnsupported for kinds that no
/// supported operator has.
void ReadAttribute(Message message, const std::string& op_type, const std::string& label,
                   const SharedBytes& file, const ExternalFiles& external,
                   SubgraphReader& subgraphs, const AttributeMap* around, AttributeMap& attributes);

}  // namespace requant
