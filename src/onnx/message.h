// Reads protobuf by protozero and trusts nothing: a known field with the wrong wire type is an
// error, not an assertion, and unknown fields are skipped.
#pragma once

#include <cstdint>
#include <protozero/pbf_reader.hpp>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/str_cat.h"

namespace requant {

/// One protobuf message. Malformed bytes throw protozero::exception (ReadOnnx turns it into
/// kInvalidModel) or kInvalidModel.
class Message {
 public:
  explicit Message(std::span<const uint8_t> bytes)
      : reader_(reinterpret_cast<const char*>(bytes.data()), bytes.size()) {}
  explicit Message(protozero::data_view view) : reader_(view) {}

  /// Moves to the next field; returns false at the end.
  bool Next() {
    if (!reader_.next()) return false;
    if (Packed()) CheckLength();
    return true;
  }
  template <typename Tag>
  Tag tag() const {
    return static_cast<Tag>(reader_.tag());
  }
  void Skip() { reader_.skip(); }

  protozero::data_view View() {
    Expect(protozero::pbf_wire_type::length_delimited);
    return reader_.get_view();
  }
  std::span<const uint8_t> Bytes() {
    const protozero::data_view view = View();
    return {reinterpret_cast<const uint8_t*>(view.data()), view.size()};
  }
  std::string String() {
    const protozero::data_view view = View();
    return {view.data(), view.size()};
  }
  Message Child() { return Message(View()); }
  int64_t Int64() {
    Expect(protozero::pbf_wire_type::varint);
    return reader_.get_int64();
  }
  int32_t Int32() {
    Expect(protozero::pbf_wire_type::varint);
    return reader_.get_int32();
  }
  float Float() {
    Expect(protozero::pbf_wire_type::fixed32);
    return reader_.get_float();
  }

  // Repeated scalars are stored packed or one by one, and a parser must take both
  // (protobuf.dev/programming-guides/encoding, "Packed Repeated Fields").
  void AppendInt64(std::vector<int64_t>& out) {
    if (!Packed()) return out.push_back(Int64());
    for (const int64_t value : reader_.get_packed_int64()) out.push_back(value);
  }
  void AppendUint64(std::vector<uint64_t>& out) {
    if (!Packed()) return out.push_back(static_cast<uint64_t>(Int64()));
    for (const uint64_t value : reader_.get_packed_uint64()) out.push_back(value);
  }
  void AppendInt32(std::vector<int32_t>& out) {
    if (!Packed()) return out.push_back(Int32());
    for (const int32_t value : reader_.get_packed_int32()) out.push_back(value);
  }
  void AppendFloat(std::vector<float>& out) {
    if (!Packed()) return out.push_back(Float());
    for (const float value : reader_.get_packed_float()) out.push_back(value);
  }
  void AppendDouble(std::vector<double>& out) {
    if (!Packed()) {
      Expect(protozero::pbf_wire_type::fixed64);
      return out.push_back(reader_.get_double());
    }
    for (const double value : reader_.get_packed_double()) out.push_back(value);
  }

 private:
  /// Refuses lengths beyond the message: on 32-bit machines protozero 1.7 takes a length of 2^31 or
  /// more for a negative one.
  void CheckLength() const {
    const protozero::data_view rest = reader_.data();
    const char* at = rest.data();
    const char* end = at + rest.size();
    const uint64_t length = protozero::decode_varint(&at, end);
    if (length > static_cast<uint64_t>(end - at)) throw protozero::end_of_buffer_exception{};
  }
  bool Packed() const { return reader_.wire_type() == protozero::pbf_wire_type::length_delimited; }
  void Expect(protozero::pbf_wire_type wanted) const {
    if (reader_.wire_type() == wanted) return;
    Fail(ErrorCode::kInvalidModel,
         StrCat("field ", reader_.tag(), " of a message has the wrong wire type"),
         {.hint = "the file is damaged or is no ONNX model"});
  }

  protozero::pbf_reader reader_;
};

}  // namespace requant
