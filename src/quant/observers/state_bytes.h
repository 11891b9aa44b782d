// The state of a calibration or of a training as bytes, so that it can move between workers and
// machines. One function writes and reads the same fields in the same order. Little-endian, as
// every target is.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "base/error.h"

namespace requant {

class StateBytes {
 public:
  StateBytes() = default;  // makes an object that writes
  explicit StateBytes(std::span<const uint8_t> from) : reading_(true), from_(from) {}

  bool reading() const { return reading_; }
  std::vector<uint8_t> Take() { return std::move(bytes_); }

  void Raw(void* data, size_t size) {
    if (!reading_) {
      const auto* begin = static_cast<const uint8_t*>(data);
      bytes_.insert(bytes_.end(), begin, begin + size);
      return;
    }
    if (size > from_.size()) {
      Fail(ErrorCode::kInvalidArgument, "the state ends too early",
           {.hint = "give the bytes as they were saved"});
    }
    if (size > 0) std::memcpy(data, from_.data(), size);
    from_ = from_.subspan(size);
  }
  void Flag(bool& value) {
    uint8_t byte = value ? 1 : 0;
    Value(byte);
    value = byte != 0;
  }
  template <typename T>
  void Value(T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    Raw(&value, sizeof value);
  }
  template <typename T>
  void List(std::vector<T>& values) {
    uint64_t count = values.size();
    Value(count);
    if (reading_) {
      if (count > from_.size() / sizeof(T)) {
        Fail(ErrorCode::kInvalidArgument, "the state ends too early",
             {.hint = "give the bytes as they were saved"});
      }
      values.resize(static_cast<size_t>(count));
    }
    Raw(values.data(), values.size() * sizeof(T));
  }
  /// A list whose length the object knows already. Throws kInvalidArgument if the state has another
  /// one.
  template <typename T>
  void SameList(std::vector<T>& values) {
    const size_t wanted = values.size();
    List(values);
    if (values.size() == wanted) return;
    Fail(ErrorCode::kInvalidArgument, "the state is of another model or of other options",
         {.hint = "give the model and the options with which it was saved"});
  }
  /// Whether everything was read.
  bool at_end() const { return from_.empty(); }

 private:
  bool reading_ = false;
  std::vector<uint8_t> bytes_;
  std::span<const uint8_t> from_;
};

}  // namespace requant
