#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/aligned_buffer.h"
#include "tensor/dtype.h"
#include "tensor/shape.h"

namespace requant {

class LeanBytes;

/// A dense row-major tensor. Copies share the bytes, as with a shared_ptr. The bytes are owned, or
/// a view that keeps its owner (a file's buffer) alive. Write only to a tensor that you made; treat
/// tensors from elsewhere as constant.
class Tensor {
 public:
  Tensor() = default;
  /// Makes a tensor that owns zero-filled memory. Throws kOutOfMemory or kInvalidModel (size
  /// overflow).
  Tensor(DType dtype, Shape shape);
  /// Makes a tensor whose bytes are what the memory held before: the caller writes every element.
  /// Throws as the constructor does.
  static Tensor Unfilled(DType dtype, Shape shape);
  /// Makes a view of `bytes`, which `owner` keeps alive. Unaligned bytes are copied. Throws
  /// kInvalidModel when the byte count does not fit dtype and shape.
  static Tensor View(DType dtype, Shape shape, std::span<const uint8_t> bytes,
                     std::shared_ptr<const void> owner);
  /// Makes a view of memory that outlives the tensor (an arena). The caller checks the size.
  static Tensor Unowned(DType dtype, Shape shape, void* data);
  /// Makes a float32 tensor of the numbers of a float16 or bfloat16 tensor. It holds the 16 bits,
  /// and the floats from when they are first read; a copy made before that converts them again.
  static Tensor Widened(const Tensor& half);
  /// Makes a tensor of these bytes, which a kernel's form of them may replace
  /// (tensor/lean_bytes.h). Whoever reads them through the tensor or a copy makes them stay.
  static Tensor Lean(const Tensor& bytes);

  template <typename T>
  static Tensor FromVector(const std::vector<T>& values, Shape shape) {
    Tensor out(DTypeOf<T>::value, std::move(shape));
    out.CheckCount(values.size());
    for (size_t i = 0; i < values.size(); ++i) out.data<T>()[i] = values[i];
    return out;
  }
  /// Makes a 1-D tensor of all values.
  template <typename T>
  static Tensor Vector(const std::vector<T>& values) {
    return FromVector<T>(values, {static_cast<int64_t>(values.size())});
  }
  template <typename T>
  static Tensor Scalar(T value) {
    return FromVector<T>(std::vector<T>{value}, {});
  }

  bool empty() const { return dtype_ == DType::kUndefined; }
  /// False for a view of memory that the tensor does not keep alive (Unowned).
  bool is_owner() const { return owner_ != nullptr || half_ != nullptr; }
  /// The tensor of 16 bits whose numbers these are, in an order of its own shape; nullptr if there
  /// is none (Widened).
  const Tensor* half() const { return half_.get(); }
  /// The bytes that a Lean tensor shares with its copies; nullptr for other tensors, and for one
  /// that was read. Their address says which constant it is.
  LeanBytes* lean() const;
  /// Whether two tensors have their bytes in the same memory.
  bool SharesBytes(const Tensor& other) const;
  /// Whether the address is in the tensor's memory, in that of the 16 bits of a Widened tensor, or
  /// in or of the bytes of a Lean one.
  bool Holds(const void* address) const;
  DType dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  int64_t rank() const { return static_cast<int64_t>(shape_.size()); }
  int64_t dim(int64_t axis) const { return shape_[static_cast<size_t>(axis)]; }
  int64_t count() const { return count_; }
  size_t bytes() const { return DTypeBytes(dtype_, static_cast<size_t>(count_)); }

  void* raw();
  const void* raw() const;
  /// Typed access; kBool is read as bool or uint8_t. Throws kTypeMismatch for any other type.
  template <typename T>
  T* data() {
    CheckType(DTypeOf<T>::value);
    return static_cast<T*>(raw());
  }
  template <typename T>
  const T* data() const {
    CheckType(DTypeOf<T>::value);
    return static_cast<const T*>(data_);
  }
  template <typename T>
  std::span<const T> values() const {
    return {data<T>(), static_cast<size_t>(count_)};
  }

  /// An element as double or int64, whatever the dtype (float16 and 4-bit types included).
  double AsDouble(int64_t index) const;
  int64_t AsInt64(int64_t index) const;
  /// All elements converted. ToInts keeps 64-bit integers exact.
  std::vector<double> ToDoubles() const;
  std::vector<int64_t> ToInts() const;
  std::vector<float> ToFloats() const;

  /// A tensor of these bytes in another shape with the same count. Throws kShapeMismatch.
  Tensor Reshaped(Shape shape) const;
  /// A deep copy.
  Tensor Clone() const;
  /// Whether dtype, shape and bytes are equal bit for bit.
  bool SameBits(const Tensor& other) const;

 private:
  Tensor(DType dtype, Shape shape, bool zeros);
  void CheckType(DType wanted) const;
  void Widen() const;
  /// Sets data_ where it is still to be made.
  void Load() const;
  void CheckCount(size_t count) const;

  DType dtype_ = DType::kUndefined;
  Shape shape_;
  int64_t count_ = 0;
  // A Widened tensor has these two once its floats are read. A Lean tensor that was not read has
  // its LeanBytes as the owner, and no data.
  mutable void* data_ = nullptr;
  mutable std::shared_ptr<const void> owner_;
  std::shared_ptr<const Tensor> half_;
};

}  // namespace requant
