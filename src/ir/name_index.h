#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace requant {

/// Finds items by name: a hash table with open addressing that keeps no copies of the names. A
/// graph looks every name up several times while it is read, copied and changed.
class NameIndex {
 public:
  /// The item of that name, or nullptr.
  void* Find(std::string_view name) const;
  /// Adds an item. `name` must not be in the index yet, and must neither move nor change until it
  /// is erased.
  void Insert(const std::string& name, void* item);
  void Erase(std::string_view name);
  /// Makes room for so many names without growing.
  void Reserve(size_t count);

 private:
  struct Slot {
    const std::string* name = nullptr;  // nullptr: the slot is free
    void* item = nullptr;               // nullptr beside a name: the item was erased
    size_t hash = 0;
  };

  size_t Position(std::string_view name, size_t hash) const;
  void Resize(size_t slots);

  std::vector<Slot> slots_;  // a power of two, or none
  size_t used_ = 0;          // slots with names, erased ones included
};

}  // namespace requant
