#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace requant {

/// Appends `text` in quotes, escaped.
void AppendJsonString(std::string& out, std::string_view text);

/// Writes JSON text piece by piece and inserts commas. Numbers that JSON cannot express (NaN,
/// infinities) become null.
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
  /// Writes text that is JSON already.
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
