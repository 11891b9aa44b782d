#include "base/error.h"

namespace requant {

const char* ErrorCodeName(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidModel:
      return "INVALID_MODEL";
    case ErrorCode::kUnsupported:
      return "UNSUPPORTED";
    case ErrorCode::kInvalidArgument:
      return "INVALID_ARGUMENT";
    case ErrorCode::kShapeMismatch:
      return "SHAPE_MISMATCH";
    case ErrorCode::kTypeMismatch:
      return "TYPE_MISMATCH";
    case ErrorCode::kInvalidQuantization:
      return "INVALID_QUANTIZATION";
    case ErrorCode::kOutOfMemory:
      return "OUT_OF_MEMORY";
    case ErrorCode::kAborted:
      return "ABORTED";
    case ErrorCode::kInternal:
      break;
  }
  return "INTERNAL";
}

void Fail(ErrorCode code, std::string message, ErrorContext context) {
  throw Error(code, std::move(message), std::move(context));
}

}  // namespace requant
