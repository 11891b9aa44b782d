#include "ops/container/container.h"

#include <cstring>

#include "base/checked_math.h"
#include "base/error.h"
#include "base/late_text.h"
#include "base/str_cat.h"

namespace requant {
namespace {

constexpr size_t kWord = sizeof(int64_t);
constexpr int64_t kMostRank = 64;

size_t Words(size_t bytes) { return CheckedAdd(bytes, kWord - 1) / kWord; }

/// Reads words one after the other.
class Reader {
 public:
  explicit Reader(const Tensor& container)
      : at_(static_cast<uint8_t*>(const_cast<void*>(container.raw()))), left_(container.bytes()) {}
  int64_t Next() {
    int64_t word = 0;
    std::memcpy(&word, Take(kWord), kWord);
    return word;
  }
  uint8_t* Take(size_t bytes) {
    Check(bytes <= left_);
    uint8_t* from = at_;
    at_ += bytes;
    left_ -= bytes;
    return from;
  }
  size_t left() const { return left_; }
  static void Check(bool right) {
    if (right) return;
    Fail(ErrorCode::kInvalidArgument, RQ_LATE_TEXT("the bytes are no sequence"),
         {.hint = RQ_LATE_TEXT("feed what packSequence() returns")});
  }

 private:
  uint8_t* at_;
  size_t left_;
};

}  // namespace

DType ContentOf(DType dtype) {
  const auto bits = static_cast<uint8_t>(dtype);
  if (IsOptional(dtype)) return static_cast<DType>(bits & ~kOptionalBit);
  return IsSequence(dtype) ? static_cast<DType>(bits & ~kSequenceBit) : DType::kUndefined;
}

std::vector<Tensor> ItemsOf(const Tensor& container) {
  std::vector<Tensor> items;
  Reader reader(container);
  const int64_t count = reader.Next();
  for (int64_t i = 0; i < count; ++i) {
    const int64_t number = reader.Next();
    Reader::Check(number > 0 && number < 256);
    const auto dtype = static_cast<DType>(number);
    const int64_t rank = reader.Next();
    Reader::Check(DTypeBits(dtype) >= 8 && rank >= 0 && rank <= kMostRank);
    Shape shape;
    size_t elements = 1;
    for (int64_t axis = 0; axis < rank; ++axis) {
      shape.push_back(reader.Next());
      Reader::Check(shape.back() >= 0);
      elements = CheckedMul(elements, static_cast<size_t>(shape.back()));
    }
    const size_t bytes = DTypeBytes(dtype, elements);
    Reader::Check(bytes <= reader.left());
    items.push_back(Tensor::Unowned(dtype, std::move(shape), reader.Take(Words(bytes) * kWord)));
  }
  return items;
}

Tensor ContainerOf(DType dtype, const std::vector<Tensor>& items) {
  size_t words = 1;
  for (const Tensor& item : items) {
    if (DTypeBits(item.dtype()) < 8) {
      Fail(
          ErrorCode::kUnsupported,
          StrCat(RQ_LATE_TEXT("a sequence of "), DTypeName(item.dtype()), RQ_LATE_TEXT(" tensors")),
          {.hint = RQ_LATE_TEXT("cast them to 8 bits before")});
    }
    words = CheckedAdd(words, CheckedAdd(item.shape().size() + 2, Words(item.bytes())));
  }
  Tensor out(dtype, {static_cast<int64_t>(CheckedMul(words, kWord))});
  auto* at = static_cast<uint8_t*>(out.raw());
  const auto put = [&at](int64_t word) {
    std::memcpy(at, &word, kWord);
    at += kWord;
  };
  put(static_cast<int64_t>(items.size()));
  for (const Tensor& item : items) {
    put(static_cast<int64_t>(item.dtype()));
    put(item.rank());
    for (const int64_t dim : item.shape()) put(dim);
    if (item.bytes() > 0) std::memcpy(at, item.raw(), item.bytes());
    at += Words(item.bytes()) * kWord;
  }
  return out;
}

}  // namespace requant
