// Bytes of a constant that can be dropped while something else can make them again.
#pragma once

#include <cstddef>
#include <memory>

#include "tensor/tensor.h"

namespace requant {

/// The bytes of a lean tensor (Tensor::Lean), which all of its copies share. Once a kernel has them
/// in its own form, these are dropped, and made again from that form where somebody asks. Used on
/// one thread at a time.
class LeanBytes {
 public:
  /// Makes the bytes of one or several constants again.
  class Source {
   public:
    virtual ~Source() = default;
    /// Writes the bytes of constant `part` into zeros.
    virtual void Restore(size_t part, void* to) const = 0;
  };

  explicit LeanBytes(const Tensor& bytes) : held_(bytes) {}

  /// The bytes, for a reader that is done with them before anybody drops them.
  Tensor Borrow() const;
  /// The bytes, which from now on stay where they are.
  Tensor Keep();
  /// Drops the bytes, unless they were asked to stay. `source` makes the same ones as its constant
  /// `part`. Does nothing where they are dropped already.
  void Drop(std::shared_ptr<const Source> source, size_t part);
  bool dropped() const { return dropped_; }
  /// Whether the address is in bytes that are not dropped.
  bool Holds(const void* address) const { return held_.Holds(address); }

 private:
  Tensor held_;                           // dropped: the type and the shape alone
  std::shared_ptr<const Source> source_;  // of dropped bytes
  size_t part_ = 0;
  bool dropped_ = false, kept_ = false;
};

}  // namespace requant
