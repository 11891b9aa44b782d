#include "tensor/tensor.h"

#include <cmath>
#include <cstring>
#include <type_traits>

#include "base/error.h"
#include "base/str_cat.h"
#include "tensor/half.h"
#include "tensor/lean_bytes.h"

namespace requant {
namespace {

/// Element `index` of packed elements of 4 or 2 bits, the first in the lowest bits.
int Field(const uint8_t* bytes, int64_t index, int bits) {
  const int64_t per_byte = 8 / bits;
  return bytes[index / per_byte] >> (index % per_byte * bits) & ((1 << bits) - 1);
}

template <typename T>
T Element(const Tensor& tensor, int64_t index) {
  T out{};
  const void* raw = tensor.raw();
  const bool known = VisitDType(tensor.dtype(), [&](auto tag) {
    out = static_cast<T>(static_cast<const decltype(tag)*>(raw)[index]);
  });
  if (known) return out;
  const auto* bytes = static_cast<const uint8_t*>(raw);
  switch (tensor.dtype()) {
    case DType::kFloat16:
      return static_cast<T>(HalfToFloat(static_cast<const uint16_t*>(raw)[index]));
    case DType::kBfloat16:
      return static_cast<T>(BfloatToFloat(static_cast<const uint16_t*>(raw)[index]));
    case DType::kFloat8E4M3FN:
    case DType::kFloat8E4M3FNUZ:
    case DType::kFloat8E5M2:
    case DType::kFloat8E5M2FNUZ:
      return static_cast<T>(kFloat8ToFloat(tensor.dtype(), bytes[index]));
    case DType::kUint4:
      return static_cast<T>(Field(bytes, index, 4));
    case DType::kInt4:
      return static_cast<T>((Field(bytes, index, 4) ^ 8) - 8);
    case DType::kUint2:
      return static_cast<T>(Field(bytes, index, 2));
    case DType::kInt2:
      return static_cast<T>((Field(bytes, index, 2) ^ 2) - 2);
    default:
      Fail(ErrorCode::kTypeMismatch,
           StrCat("cannot read a ", DTypeName(tensor.dtype()), " tensor"));
  }
}

template <typename From, typename To>
void ConvertAll(const void* from, std::vector<To>& to) {
  const auto* source = static_cast<const From*>(from);
  To* out = to.data();
  for (size_t i = 0, count = to.size(); i < count; ++i) out[i] = source[i];
}

/// Scales and zero points, which every plan reads, take no call for each element.
template <typename T>
std::vector<T> Convert(const Tensor& tensor) {
  std::vector<T> out(static_cast<size_t>(tensor.count()));
  if (std::is_same_v<T, float> && tensor.dtype() == DType::kFloat32) {
    std::memcpy(out.data(), tensor.raw(), tensor.bytes());
    return out;
  }
  if constexpr (std::is_integral_v<T>) {
    if (tensor.dtype() == DType::kInt8) ConvertAll<int8_t>(tensor.raw(), out);
    if (tensor.dtype() == DType::kUint8) ConvertAll<uint8_t>(tensor.raw(), out);
    if (IsByte(tensor.dtype())) return out;
  }
  for (int64_t i = 0; i < tensor.count(); ++i) out[static_cast<size_t>(i)] = Element<T>(tensor, i);
  return out;
}

}  // namespace

Tensor::Tensor(DType dtype, Shape shape) : Tensor(dtype, std::move(shape), true) {}

Tensor Tensor::Unfilled(DType dtype, Shape shape) { return {dtype, std::move(shape), false}; }

Tensor::Tensor(DType dtype, Shape shape, bool zeros)
    : dtype_(dtype), shape_(std::move(shape)), count_(NumElements(shape_)) {
  auto buffer =
      std::make_shared<AlignedBuffer>(DTypeBytes(dtype, static_cast<size_t>(count_)), zeros);
  data_ = buffer->data();
  owner_ = std::move(buffer);
}

Tensor Tensor::View(DType dtype, Shape shape, std::span<const uint8_t> bytes,
                    std::shared_ptr<const void> owner) {
  const size_t needed = DTypeBytes(dtype, static_cast<size_t>(NumElements(shape)));
  if (needed != bytes.size()) {
    Fail(ErrorCode::kInvalidModel,
         StrCat("a ", DTypeName(dtype), ShapeToString(shape), " tensor needs ", needed,
                " bytes, but its data has ", bytes.size()));
  }
  const auto alignment = static_cast<size_t>(std::max(1, DTypeBits(dtype) / 8));
  if (reinterpret_cast<uintptr_t>(bytes.data()) % alignment != 0) {
    Tensor copy(dtype, std::move(shape));
    if (!bytes.empty()) std::memcpy(copy.data_, bytes.data(), bytes.size());
    return copy;
  }
  Tensor out;
  out.dtype_ = dtype;
  out.count_ = NumElements(shape);
  out.shape_ = std::move(shape);
  out.data_ = const_cast<uint8_t*>(bytes.data());
  out.owner_ = std::move(owner);
  return out;
}

Tensor Tensor::Unowned(DType dtype, Shape shape, void* data) {
  Tensor out;
  out.dtype_ = dtype;
  out.count_ = NumElements(shape);
  out.shape_ = std::move(shape);
  out.data_ = data;
  return out;
}

Tensor Tensor::Widened(const Tensor& half) {
  Tensor out;
  out.dtype_ = DType::kFloat32;
  out.count_ = half.count_;
  out.shape_ = half.shape_;
  out.half_ = std::make_shared<const Tensor>(half);
  return out;
}

void Tensor::Widen() const {
  auto buffer = std::make_shared<AlignedBuffer>(bytes());
  HalvesToFloats(half_->dtype_, static_cast<const uint16_t*>(half_->raw()),
                 static_cast<size_t>(count_), reinterpret_cast<float*>(buffer->data()));
  data_ = buffer->data();
  owner_ = std::move(buffer);
}

Tensor Tensor::Lean(const Tensor& bytes) {
  Tensor out;
  out.dtype_ = bytes.dtype_;
  out.count_ = bytes.count_;
  out.shape_ = bytes.shape_;
  out.owner_ = std::make_shared<LeanBytes>(bytes);
  return out;
}

LeanBytes* Tensor::lean() const {
  const bool unread = data_ == nullptr && count_ > 0 && !half_;
  return unread ? static_cast<LeanBytes*>(const_cast<void*>(owner_.get())) : nullptr;
}

void Tensor::Load() const {
  if (data_ != nullptr) return;
  if (half_) {
    Widen();
  } else if (LeanBytes* bytes = lean()) {
    const Tensor kept = bytes->Keep();
    data_ = const_cast<void*>(kept.raw());
    owner_ = kept.owner_;
  }
}

void* Tensor::raw() {
  Load();
  half_.reset();  // the caller may write
  return data_;
}

const void* Tensor::raw() const {
  Load();
  return data_;
}

bool Tensor::SharesBytes(const Tensor& other) const {
  if (lean() && other.lean()) return lean() == other.lean();
  return raw() == other.raw();
}

bool Tensor::Holds(const void* address) const {
  if (half_ && half_->Holds(address)) return true;
  if (const LeanBytes* bytes = lean()) return address == bytes || bytes->Holds(address);
  const auto* first = static_cast<const uint8_t*>(data_);
  return first != nullptr && address >= first && address < first + bytes();
}

double Tensor::AsDouble(int64_t index) const { return Element<double>(*this, index); }
int64_t Tensor::AsInt64(int64_t index) const { return Element<int64_t>(*this, index); }
std::vector<double> Tensor::ToDoubles() const { return Convert<double>(*this); }
std::vector<int64_t> Tensor::ToInts() const { return Convert<int64_t>(*this); }
std::vector<float> Tensor::ToFloats() const { return Convert<float>(*this); }

Tensor Tensor::Reshaped(Shape shape) const {
  if (NumElements(shape) != count_) {
    Fail(ErrorCode::kShapeMismatch,
         StrCat("cannot reshape ", ShapeToString(shape_), " to ", ShapeToString(shape)));
  }
  Tensor out = *this;
  out.shape_ = std::move(shape);
  return out;
}

Tensor Tensor::Clone() const {
  Tensor out(dtype_, shape_);
  if (bytes() > 0) std::memcpy(out.data_, raw(), bytes());
  return out;
}

bool Tensor::SameBits(const Tensor& other) const {
  return dtype_ == other.dtype_ && shape_ == other.shape_ &&
         (bytes() == 0 || (lean() && lean() == other.lean()) ||
          (half_ && other.half_ && half_->dtype_ == other.half_->dtype_
               ? std::memcmp(half_->raw(), other.half_->raw(), half_->bytes())
               : std::memcmp(raw(), other.raw(), bytes())) == 0);
}

void Tensor::CheckType(DType wanted) const {
  Load();
  if (data_ == nullptr && count_ > 0 && !empty()) {
    Fail(ErrorCode::kInternal, "the values of a constant were left out");
  }
  const bool bool_as_byte = dtype_ == DType::kBool && wanted == DType::kUint8;
  if (dtype_ != wanted && !bool_as_byte) {
    Fail(ErrorCode::kTypeMismatch,
         StrCat("a ", DTypeName(dtype_), " tensor where ", DTypeName(wanted), " is needed"));
  }
}

void Tensor::CheckCount(size_t count) const {
  if (static_cast<int64_t>(count) != count_) {
    Fail(ErrorCode::kShapeMismatch, StrCat(count, " values for shape ", ShapeToString(shape_)));
  }
}

}  // namespace requant
