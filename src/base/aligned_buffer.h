#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/checked_math.h"
#include "base/error.h"
#include "base/str_cat.h"

namespace requant {

/// Spare bytes behind buffers and saved blobs, which vector loads may read. Feeds and views of
/// files have none.
inline constexpr size_t kReadAhead = 64;

/// Owns a block of memory, aligned for SIMD, with kReadAhead spare bytes at the end. It is filled
/// with zeros, or only its spare bytes are. Throws kOutOfMemory.
class AlignedBuffer {
 public:
  static constexpr size_t kAlignment = 64;

  AlignedBuffer() = default;
  explicit AlignedBuffer(size_t size, bool zeros = true) : size_(size) {
    const size_t bytes = CheckedAlign(CheckedAdd(size, kReadAhead), kAlignment);
    data_ = static_cast<uint8_t*>(std::aligned_alloc(kAlignment, bytes));
    if (data_ == nullptr) {
      Fail(ErrorCode::kOutOfMemory, StrCat("cannot allocate ", bytes, " bytes"),
           {.hint = "release sessions and models that are no longer needed"});
    }
    const size_t first = zeros ? 0 : size;
    std::memset(data_ + first, 0, bytes - first);
  }
  ~AlignedBuffer() { std::free(data_); }
  AlignedBuffer(AlignedBuffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  AlignedBuffer& operator=(AlignedBuffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }

  uint8_t* data() { return data_; }
  const uint8_t* data() const { return data_; }
  size_t size() const { return size_; }

 private:
  uint8_t* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace requant
