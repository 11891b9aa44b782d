// Where a tensor lies in another file (TensorProto.external_data, onnx docs/ExternalData.md).
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "onnx/message.h"
#include "onnx/tags.h"

namespace requant {

struct ExternalRange {
  std::string location;  // the file
  std::string offset;    // decimal numbers of bytes; empty: 0
  std::string length;    // empty: what the tensor needs
};

/// Reads one entry of external_data into `range`; other keys change nothing.
inline void ReadExternalEntry(Message entry, ExternalRange& range) {
  using Entry = onnx_tags::StringStringEntryProto;
  std::string key;
  std::string value;
  while (entry.Next()) {
    switch (entry.tag<Entry>()) {
      case Entry::kKey:
        key = entry.String();
        break;
      case Entry::kValue:
        value = entry.String();
        break;
      default:
        entry.Skip();
    }
  }
  if (key == "location") range.location = value;
  if (key == "offset") range.offset = value;
  if (key == "length") range.length = value;
}

/// The number of a text of digits; nothing for other texts and for numbers above 2^64 - 1.
inline std::optional<uint64_t> ParseDecimal(const std::string& text) {
  uint64_t number = 0;
  bool valid = !text.empty();
  for (const char c : text) {
    valid = valid && c >= '0' && c <= '9' && !__builtin_mul_overflow(number, 10, &number) &&
            !__builtin_add_overflow(number, static_cast<uint64_t>(c - '0'), &number);
  }
  return valid ? std::optional(number) : std::nullopt;
}

}  // namespace requant
