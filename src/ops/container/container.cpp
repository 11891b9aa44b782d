#include "ops/container/container.h"

#include <cstring>

#include "base/checked_math.h"
#include "base/error.h"
#include "base/late_text.h"
#include "base/str_cat.h"
#include "tensor/text.h"

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

Tensor TextItem(Reader& reader, const Shape& shape, size_t elements) {
  Reader::Check(elements <= reader.left() / kWord);
  std::vector<size_t> sizes;
  size_t all = 0;
  for (size_t i = 0; i < elements; ++i) {
    const int64_t size = reader.Next();
    Reader::Check(size >= 0 && static_cast<uint64_t>(size) <= reader.left());
    sizes.push_back(static_cast<size_t>(size));
    all = CheckedAdd(all, sizes.back());
  }
  Reader::Check(all <= reader.left());
  const auto* from = reinterpret_cast<const char*>(reader.Take(CheckedMul(Words(all), kWord)));
  std::vector<std::string> texts;
  for (const size_t size : sizes) {
    texts.emplace_back(from, size);
    from += size;
  }
  return TextTensor(texts, shape);
}

/// The bytes of an item's elements in a container.
std::string TextBytes(const Tensor& item) {
  std::string sizes;
  std::string all;
  for (const std::string_view text : TextsOf(item)) {
    const auto size = static_cast<int64_t>(text.size());
    sizes.append(reinterpret_cast<const char*>(&size), kWord);
    all += text;
  }
  return sizes + all;
}

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
    if (IsText(dtype)) {
      items.push_back(TextItem(reader, shape, elements));
      continue;
    }
    const size_t bytes = DTypeBytes(dtype, elements);
    Reader::Check(bytes <= reader.left());
    items.push_back(Tensor::Unowned(dtype, std::move(shape), reader.Take(Words(bytes) * kWord)));
  }
  return items;
}

Tensor ContainerOf(DType dtype, const std::vector<Tensor>& items) {
  size_t words = 1;
  std::vector<std::string> texts(items.size());
  size_t index = 0;
  for (const Tensor& item : items) {
    if (DTypeBits(item.dtype()) < 8) {
      Fail(
          ErrorCode::kUnsupported,
          StrCat(RQ_LATE_TEXT("a sequence of "), DTypeName(item.dtype()), RQ_LATE_TEXT(" tensors")),
          {.hint = RQ_LATE_TEXT("cast them to 8 bits before")});
    }
    std::string& text = texts[index++];
    if (IsText(item.dtype())) text = TextBytes(item);
    const size_t bytes = IsText(item.dtype()) ? text.size() : item.bytes();
    words = CheckedAdd(words, CheckedAdd(item.shape().size() + 2, Words(bytes)));
  }
  Tensor out(dtype, {static_cast<int64_t>(CheckedMul(words, kWord))});
  auto* at = static_cast<uint8_t*>(out.raw());
  const auto put = [&at](int64_t word) {
    std::memcpy(at, &word, kWord);
    at += kWord;
  };
  put(static_cast<int64_t>(items.size()));
  index = 0;
  for (const Tensor& item : items) {
    const std::string& text = texts[index++];
    put(static_cast<int64_t>(item.dtype()));
    put(item.rank());
    for (const int64_t dim : item.shape()) put(dim);
    const size_t bytes = IsText(item.dtype()) ? text.size() : item.bytes();
    const void* from = IsText(item.dtype()) ? text.data() : item.raw();
    if (bytes > 0) std::memcpy(at, from, bytes);
    at += Words(bytes) * kWord;
  }
  return out;
}

}  // namespace requant
