// A C file in the making: constants, kernels and the statements of its function.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/fields.h"
#include "ir/graph.h"
#include "numeric/requantize.h"
#include "numeric/requantize_prepare.h"

namespace requant {

class CFile {
 public:
  /// Without `kernels` (codegen.h) it takes none, and no constants: it is only there to find out
  /// whether it could be written.
  CFile(const Graph& graph, RequantizeMode requantize,
        const std::map<std::string, std::string>* kernels);

  RequantizeMode requantize() const { return requantize_; }

  /// Has the kernel of src/codegen/c/<name>.c, and what that includes, written before its use.
  void Use(const std::string& kernel);

  /// Names of read-only arrays with these elements; equal ones are there once.
  std::string Bytes(std::span<const uint8_t> values);
  std::string Ints(std::span<const int32_t> values);
  std::string Floats(std::span<const float> values);
  /// Of a requantization: the first two members of rq_output.
  Fields Scales(const PreparedRequantize& prepared);
  /// The address of a constant of a kernel's type.
  std::string Struct(std::string_view type, const Fields& members);

  /// Values that share memory have the name of one of them.
  void SetRoot(const Value* value, const Value* root) { roots_[value->position] = root; }
  const Value* Root(const Value* value) const { return roots_[value->position]; }
  /// The C name that a value has in the function: a pointer to bytes, or to floats.
  std::string Pointer(const Value* value);
  /// Appends a statement.
  void Call(std::string_view function, const Fields& arguments);
  void Comment(const std::string& text);

  /// What was written so far.
  const std::string& statements() const { return statements_; }
  /// Roots that were asked for, constants left out; the name of the n-th is vN.
  const std::vector<const Value*>& pointers() const { return pointers_; }
  /// The kernels, then the constants.
  std::string Definitions() const { return kernel_texts_ + "\n" + constants_; }
  size_t constant_bytes() const { return constant_bytes_; }

 private:
  /// The elements' texts one after another.
  class Elements;
  std::string Array(const char* type, size_t element, size_t count, const std::string& text);
  std::string Constant(std::string_view type, const std::string& rest);

  RequantizeMode requantize_;
  const std::map<std::string, std::string>* kernels_;
  std::vector<std::string> used_;
  std::string kernel_texts_, constants_, statements_;
  std::map<std::string, std::string> names_;  // of a constant by its type and value
  std::vector<const Value*> roots_;           // by the position of a value
  std::vector<const Value*> pointers_;
  size_t constant_bytes_ = 0;
};

}  // namespace requant
