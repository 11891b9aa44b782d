#include "ir/name_index.h"

#include <cstdint>

namespace requant {
namespace {

const std::string kErased;

/// FNV-1a (Fowler, Noll, Vo), with the high bits folded down for small tables.
size_t HashOf(std::string_view name) {
  uint32_t hash = 2166136261U;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619U;
  return hash ^ (hash >> 15);
}

}  // namespace

/// The slot of that name, or the free one where the search for it ends.
size_t NameIndex::Position(std::string_view name, size_t hash) const {
  const size_t mask = slots_.size() - 1;
  size_t at = hash & mask;
  for (; slots_[at].name != nullptr; at = (at + 1) & mask) {
    const Slot& slot = slots_[at];
    if (slot.item != nullptr && slot.hash == hash && *slot.name == name) break;
  }
  return at;
}

void* NameIndex::Find(std::string_view name) const {
  if (slots_.empty()) return nullptr;
  return slots_[Position(name, HashOf(name))].item;
}

void NameIndex::Insert(const std::string& name, void* item) {
  if ((used_ + 1) * 2 > slots_.size()) Resize(slots_.size() < 16 ? 32 : slots_.size() * 2);
  const size_t hash = HashOf(name);
  slots_[Position(name, hash)] = {&name, item, hash};
  ++used_;
}

void NameIndex::Erase(std::string_view name) {
  if (slots_.empty()) return;
  Slot& slot = slots_[Position(name, HashOf(name))];
  if (slot.name == nullptr) return;
  slot = {&kErased, nullptr, 0};
}

void NameIndex::Reserve(size_t count) {
  size_t slots = 32;
  while (slots < 2 * count + 2) slots *= 2;
  if (slots > slots_.size()) Resize(slots);
}

void NameIndex::Resize(size_t slots) {
  std::vector<Slot> old(slots);
  old.swap(slots_);
  used_ = 0;
  for (const Slot& slot : old) {
    if (slot.item == nullptr) continue;
    slots_[Position(*slot.name, slot.hash)] = slot;
    ++used_;
  }
}

}  // namespace requant
