#include "tflite/table_view.h"

#include "base/error.h"
#include "base/late_text.h"

namespace requant::tflite {

void FailDamaged() {
  Fail(ErrorCode::kInvalidModel, RQ_LATE_TEXT("the bytes are no sound TFLite flatbuffer"),
       {.hint = RQ_LATE_TEXT("the file is damaged or cut off")});
}

TableView::TableView(flatbuffers::Verifier& verifier, const uint8_t* table)
    : verifier_(&verifier), table_(reinterpret_cast<const flatbuffers::Table*>(table)) {
  if (!verifier.VerifyTableStart(table)) FailDamaged();
  // Nothing here recurses, so the verifier need not count how deep tables are.
  verifier.EndTable();
}

const uint8_t* TableView::Target(flatbuffers::voffset_t slot) const {
  if (table_ == nullptr) return nullptr;
  if (!table_->VerifyOffset(*verifier_, slot)) FailDamaged();
  return table_->GetPointer<const uint8_t*>(slot);
}

std::string TableView::TextAt(flatbuffers::voffset_t slot) const {
  const std::span<const uint8_t> bytes = VectorAt(slot, 1);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::span<const uint8_t> TableView::VectorAt(flatbuffers::voffset_t slot, size_t element) const {
  const uint8_t* vector = Target(slot);
  if (vector == nullptr) return {};
  if (!verifier_->VerifyVectorOrString(vector, element)) FailDamaged();
  const size_t count = flatbuffers::ReadScalar<flatbuffers::uoffset_t>(vector);
  return {vector + sizeof(flatbuffers::uoffset_t), count * element};
}

TableView TableView::ChildAt(flatbuffers::voffset_t slot) const {
  const uint8_t* child = Target(slot);
  return child ? TableView(*verifier_, child) : TableView();
}

std::vector<TableView> TableView::ChildrenAt(flatbuffers::voffset_t slot) const {
  constexpr size_t kSize = sizeof(flatbuffers::uoffset_t);
  const std::span<const uint8_t> offsets = VectorAt(slot, kSize);
  std::vector<TableView> out;
  out.reserve(offsets.size() / kSize);
  for (size_t i = 0; i < offsets.size(); i += kSize) {
    const flatbuffers::uoffset_t offset = verifier_->VerifyOffset(offsets.data() + i, 0);
    if (offset == 0) FailDamaged();
    out.emplace_back(*verifier_, offsets.data() + i + offset);
  }
  return out;
}

}  // namespace requant::tflite
