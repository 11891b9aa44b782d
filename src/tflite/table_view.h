// Tables of a flatbuffer, whose every field is verified before it is read.
#pragma once

#include <flatbuffers/table.h>
#include <flatbuffers/vector.h>
#include <flatbuffers/verifier.h>

#include <cstring>
#include <span>
#include <string>
#include <vector>

namespace requant::tflite {

/// Throws kInvalidModel for bytes that flatbuffers' verifier refuses.
[[noreturn]] void FailDamaged();

/// A table of a file, or the absence of one: all fields have their defaults then. Every function
/// throws kInvalidModel for offsets that leave the file, and for fields that are misaligned.
class TableView {
 public:
  TableView() = default;
  /// The table at `table`, a position in the verifier's buffer.
  TableView(flatbuffers::Verifier& verifier, const uint8_t* table);

  explicit operator bool() const { return table_ != nullptr; }

  /// The scalar in that field, or its default in the schema.
  template <typename T, typename Field>
  T Get(Field field, T fallback) const {
    if (table_ == nullptr) return fallback;
    if (!table_->VerifyField<T>(*verifier_, Slot(field), sizeof(T))) FailDamaged();
    return table_->GetField<T>(Slot(field), fallback);
  }
  template <typename Field>
  bool Flag(Field field, bool fallback = false) const {
    return Get<uint8_t>(field, fallback ? 1 : 0) != 0;
  }
  template <typename Field>
  std::string Text(Field field) const {
    return TextAt(Slot(field));
  }
  /// The elements of a vector of numbers; empty where the field is absent.
  template <typename T, typename Field>
  std::vector<T> List(Field field) const {
    const std::span<const uint8_t> bytes = VectorAt(Slot(field), sizeof(T));
    std::vector<T> out(bytes.size() / sizeof(T));
    if (!out.empty()) std::memcpy(out.data(), bytes.data(), bytes.size());
    return out;
  }
  template <typename Field>
  std::span<const uint8_t> Bytes(Field field) const {
    return VectorAt(Slot(field), 1);
  }
  /// The table in that field; none where it is absent.
  template <typename Field>
  TableView Child(Field field) const {
    return ChildAt(Slot(field));
  }
  /// The tables of a vector of tables.
  template <typename Field>
  std::vector<TableView> Children(Field field) const {
    return ChildrenAt(Slot(field));
  }

 private:
  template <typename Field>
  static flatbuffers::voffset_t Slot(Field field) {
    // The first two entries of a table's list of offsets are the list's size and the table's.
    return static_cast<flatbuffers::voffset_t>(4 + 2 * static_cast<unsigned>(field));
  }
  /// The address that an offset in that slot leads to; nullptr where the field is absent.
  const uint8_t* Target(flatbuffers::voffset_t slot) const;
  std::string TextAt(flatbuffers::voffset_t slot) const;
  std::span<const uint8_t> VectorAt(flatbuffers::voffset_t slot, size_t element) const;
  TableView ChildAt(flatbuffers::voffset_t slot) const;
  std::vector<TableView> ChildrenAt(flatbuffers::voffset_t slot) const;

  flatbuffers::Verifier* verifier_ = nullptr;
  const flatbuffers::Table* table_ = nullptr;
};

}  // namespace requant::tflite
