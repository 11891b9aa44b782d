// The only exception type of the core. The core never prints and never aborts: every failure
// becomes an Error that names the node, the value and the remedy, and the bindings translate it.
#pragma once

#include <exception>
#include <string>
#include <string_view>
#include <utility>

namespace requant {

enum class ErrorCode {
  kInvalidModel,         // the file or graph breaks the ONNX rules
  kUnsupported,          // valid, but beyond what this engine does
  kInvalidArgument,      // a call with a bad option or a bad value
  kShapeMismatch,        // a tensor of the wrong shape
  kTypeMismatch,         // a tensor of the wrong dtype
  kInvalidQuantization,  // impossible scales, zero points or policies
  kOutOfMemory,
  kAborted,
  kInternal,
};

/// The name that JavaScript sees as `error.code`, such as "INVALID_MODEL".
const char* ErrorCodeName(ErrorCode code);

/// Where an error happened and what to do about it; every field may be empty.
struct ErrorContext {
  std::string node = {};   // node name, or "OpType#index" for a nameless one
  std::string value = {};  // value (tensor) name
  std::string hint = {};   // the remedy, one sentence
};

class Error : public std::exception {
 public:
  Error(ErrorCode code, std::string message, ErrorContext context = {})
      : code_(code), message_(std::move(message)), context_(std::move(context)) {}

  const char* what() const noexcept override { return message_.c_str(); }
  ErrorCode code() const { return code_; }
  const std::string& message() const { return message_; }
  const ErrorContext& context() const { return context_; }
  /// Sets the node where the thrower did not know it.
  void AddNode(std::string_view node) {
    if (context_.node.empty()) context_.node = node;
  }

 private:
  ErrorCode code_;
  std::string message_;
  ErrorContext context_;
};

[[noreturn]] void Fail(ErrorCode code, std::string message, ErrorContext context = {});

}  // namespace requant
