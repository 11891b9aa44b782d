// Strings cross the boundary in the form that they have in sequences
// (src/ops/container/container.h): a word of 8 bytes with the size of each, then all their bytes in
// a row.
#include "texts.h"

#include <cstring>
#include <string>
#include <vector>

#include "handles.h"

namespace requant::bindings {
namespace {

using emscripten::val;

/// Writes the handles of `count` strings, which are in `size` bytes at `packed`.
val PutTexts(double packed, double size, double count, double handles) {
  return Guard([&] {
    const auto strings = static_cast<size_t>(count);
    const auto bytes = static_cast<size_t>(size);
    const uint8_t* sizes = Pointer(packed);
    size_t at = strings * sizeof(uint64_t);
    for (size_t i = 0; i < strings; ++i) {
      uint64_t length = 0;
      if (at <= bytes) std::memcpy(&length, sizes + i * sizeof length, sizeof length);
      if (at > bytes || length > bytes - at) {
        Fail(ErrorCode::kInternal, "strings do not fit their bytes");
      }
      const uint64_t handle =
          TextHandle({reinterpret_cast<const char*>(sizes) + at, static_cast<size_t>(length)});
      std::memcpy(Pointer(handles) + i * sizeof handle, &handle, sizeof handle);
      at += static_cast<size_t>(length);
    }
    return val::undefined();
  });
}

/// The strings of `count` handles.
val GetTexts(double handles, double count) {
  return Guard([&] {
    std::vector<uint8_t> sizes;
    std::string all;
    for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
      uint64_t handle = 0;
      std::memcpy(&handle, Pointer(handles) + i * sizeof handle, sizeof handle);
      const std::string_view text = TextOf(handle);
      const uint64_t length = text.size();
      const auto* bytes = reinterpret_cast<const uint8_t*>(&length);
      sizes.insert(sizes.end(), bytes, bytes + sizeof length);
      all += text;
    }
    sizes.insert(sizes.end(), all.begin(), all.end());
    return val(std::make_shared<Blob>(std::move(sizes)));
  });
}

}  // namespace

void BindTexts() {
  emscripten::function("putTexts", &PutTexts);
  emscripten::function("getTexts", &GetTexts);
}

}  // namespace requant::bindings
