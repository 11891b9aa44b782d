// What a plan consists of, written and read by the same functions: whoever has state lists its
// fields once. Only the engine that wrote them reads them (plan/save.h checks that), so plain
// structs are their bytes; pointers and kernels are what needs care.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "base/error.h"
#include "ir/graph.h"
#include "kernels/variant/missing.h"

namespace requant {

/// The error of a plan whose bytes cannot be right, and of one that is not for this engine. Both
/// say what to do about it.
[[noreturn]] void DamagedPlan(const char* what);
[[noreturn]] void ForeignPlan(const std::string& why);

class PlanArchive {
 public:
  /// Writes: appends to `out`.
  explicit PlanArchive(std::vector<uint8_t>* out) : out_(out) {}
  /// Reads.
  explicit PlanArchive(std::span<const uint8_t> in) : in_(in) {}

  bool reading() const { return out_ == nullptr; }
  size_t left() const { return in_.size(); }

  /// The next fields, in order: numbers, enums, plain structs, strings, vectors of those. A plain
  /// struct's pointers must be null or given their value afterwards.
  template <typename... T>
  void Fields(T&... fields) {
    (One(fields), ...);
  }

  /// A pointer to weights: one of `blobs`, or null.
  void Blob(const void*& pointer);
  template <typename T>
  void Blob(const T*& pointer) {
    const void* plain = pointer;
    Blob(plain);
    pointer = static_cast<const T*>(plain);
  }

  /// `run` is the kernel of that name. Throws ForeignPlan when there is none or this machine lacks
  /// what it needs, or has it in another form than the one that the weights were packed for.
  template <typename Rows, typename Run>
  void Kernel(const Rows& rows, const std::string& name, Run& run) {
    for (const auto& row : rows) {
      if (name != row.name) continue;
      if constexpr (requires { row.missing; }) {
        if (IsDot8(row.missing)) {
          int32_t form = Dot8Form();
          Fields(form);
          if (form != Dot8Form()) continue;
        }
        // Kernels for few bits are loaded after the plan that needs them.
        if (MissingForEver(row.missing) != nullptr) continue;
      }
      if (!reading()) return;
      run = row.run;
      return;
    }
    if (reading()) NoKernel(name);
  }

  /// How many elements of `bytes` follow: never more than there can be.
  uint32_t Count(size_t count, size_t bytes);

  std::vector<const void*> blobs;  // what Blob() can name
  const Graph* graph = nullptr;    // holds the nodes that run by their reference
  bool operators = false;          // reading: whether there may be steps of the rarer operators

 private:
  void Bytes(void* data, size_t size);
  [[noreturn]] static void NoKernel(const std::string& name);

  template <typename T>
  void One(T& field) {
    static_assert(std::is_trivially_copyable_v<T>);
    Bytes(&field, sizeof(T));
  }
  void One(std::string& text);
  template <typename T>
  void One(std::vector<T>& list) {
    const size_t count = Count(list.size(), sizeof(T));
    if (reading()) list.resize(count);
    if (count > 0) Bytes(list.data(), count * sizeof(T));
  }

  std::vector<uint8_t>* out_ = nullptr;
  std::span<const uint8_t> in_;
};

}  // namespace requant
