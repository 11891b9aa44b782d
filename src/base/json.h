#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace requant {

/// Appends `text` in quotes, escaped.
void AppendJsonString(std::string& out, std::string_view text);

/// Writes JSON text piece by piece; commas and quotes come by themselves. Numbers that JSON has no
/// word for (NaN, infinities) become null.
class JsonWriter {
 public:
  JsonWriter& BeginObject() { return Open('{'); }
  JsonWriter& EndObject() { return Close('}'); }
  JsonWriter& BeginArray() { return Open('['); }
  JsonWriter& EndArray() { return Close(']'); }
  JsonWriter& Key(std::string_view key);
  JsonWriter& String(std::string_view text);
  JsonWriter& Number(double number);
  JsonWriter& Int(int64_t number);
  JsonWriter& Bool(bool value);
  JsonWriter& Null();
  /// Text that is JSON already.
  JsonWriter& Raw(std::string_view json);

  const std::string& text() const { return text_; }

 private:
  JsonWriter& Open(char bracket);
  JsonWriter& Close(char bracket);
  void Separate();

  std::string text_;
  bool needs_comma_ = false;
};

}  // namespace requant
