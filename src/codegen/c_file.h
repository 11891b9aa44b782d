// A C file under construction: constants, kernels and the statements of its function.
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
  /// Without `kernels` (codegen.h) the file contains no kernels and no constants: it only serves to
  /// find out whether C can be written.
  CFile(const Graph& graph, RequantizeMode requantize,
        const std::map<std::string, std::string>* kernels);

  RequantizeMode requantize() const { return requantize_; }

  /// Adds the kernel src/codegen/c/<name>.c and the files it includes, before its use.
  void Use(const std::string& kernel);

  /// Returns the name of a read-only array with these elements; equal arrays are stored once.
  std::string Bytes(std::span<const uint8_t> values);
  std::string Ints(std::span<const int32_t> values);
  std::string Longs(std::span<const int64_t> values);
  std::string Floats(std::span<const float> values);
  /// Returns the name of a read-only array of structures of this type, each with its members.
  std::string Table(const char* type, std::span<const Fields> rows);
  /// The first two members of an rq_output.
  Fields Scales(const PreparedRequantize& prepared);
  /// The address of a constant of a kernel's type.
  std::string Struct(std::string_view type, const Fields& members);

  /// Sets the value whose C name stands for all values in the same memory.
  void SetRoot(const Value* value, const Value* root) { roots_[value->position] = root; }
  const Value* Root(const Value* value) const { return roots_[value->position]; }
  /// The C name of the value in the function: a pointer to bytes, or to floats.
  std::string Pointer(const Value* value);
  /// Appends a statement.
  void Call(std::string_view function, const Fields& arguments);
  void Comment(const std::string& text);

  /// The statements so far.
  const std::string& statements() const { return statements_; }
  /// The roots whose pointer was requested, without constants; the n-th is named vN.
  const std::vector<const Value*>& pointers() const { return pointers_; }
  /// The kernels, then the constants.
  std::string Definitions() const { return kernel_texts_ + "\n" + constants_; }
  size_t constant_bytes() const { return constant_bytes_; }

 private:
  /// Joins the texts of the elements to lines.
  class Elements;
  std::string Array(const char* type, size_t element, size_t count, const std::string& text);
  std::string Constant(std::string_view type, const std::string& rest);

  RequantizeMode requantize_;
  const std::map<std::string, std::string>* kernels_;
  std::vector<std::string> used_;
  std::string kernel_texts_, constants_, statements_;
  std::map<std::string, std::string> names_;  // name of a constant, by its type and value
  std::vector<const Value*> roots_;           // by the position of a value
  std::vector<const Value*> pointers_;
  size_t constant_bytes_ = 0;
};

}  // namespace requant
