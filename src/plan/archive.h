// The fields of a plan, written and read by the same functions: a class with state lists its fields
// once. Only the engine that wrote a plan reads it (plan/saved/save.h checks that), so plain
// structs are stored as their bytes; only pointers and kernels need functions of their own.
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

/// Throw the error of a plan whose bytes cannot be right, and of one that another engine wrote.
/// Both messages say what to do.
[[noreturn]] void DamagedPlan(const char* what);
[[noreturn]] void ForeignPlan(const std::string& why);

class PlanArchive {
 public:
  /// Makes an archive that writes: it appends to `out`.
  explicit PlanArchive(std::vector<uint8_t>* out) : out_(out) {}
  /// Makes an archive that reads `in`.
  explicit PlanArchive(std::span<const uint8_t> in) : in_(in) {}

  bool reading() const { return out_ == nullptr; }
  size_t left() const { return in_.size(); }

  /// Writes or reads the next fields, in order: numbers, enums, plain structs, strings, vectors of
  /// those. Pointers of a plain struct must be null or be set afterwards.
  template <typename... T>
  void Fields(T&... fields) {
    (One(fields), ...);
  }

  /// Writes or reads a pointer to weights, which is one of `blobs` or null.
  void Blob(const void*& pointer);
  template <typename T>
  void Blob(const T*& pointer) {
    const void* plain = pointer;
    Blob(plain);
    pointer = static_cast<const T*>(plain);
  }

  /// Sets `run` to the kernel of that name. Throws ForeignPlan when there is none, when this
  /// machine lacks what the kernel requires, or when its dot products have another form than the
  /// one that the weights were packed for.
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
        // Kernels for few bits are loaded after the plan that uses them.
        if (MissingForEver(row.missing) != nullptr) continue;
      }
      if (!reading()) return;
      run = row.run;
      return;
    }
    if (reading()) NoKernel(name);
  }

  /// Writes or reads how many elements of `bytes` bytes follow; when reading, at most as many as
  /// the rest can hold.
  uint32_t Count(size_t count, size_t bytes);

  std::vector<const void*> blobs;  // the pointers that Blob() can name
  const Graph* graph = nullptr;    // has the nodes that run by their reference
  bool operators = false;          // when reading: whether steps may be extended operators

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
