#include "ir/attribute.h"

#include <algorithm>

#include "base/error.h"
#include "base/str_cat.h"

namespace requant {
namespace {

template <typename T>
const T* Get(const AttributeMap& map, std::string_view name, const char* kind) {
  const Attribute* attribute = map.Find(name);
  if (attribute == nullptr) return nullptr;
  const T* value = std::get_if<T>(attribute);
  if (value == nullptr) {
    Fail(ErrorCode::kInvalidModel, StrCat("attribute '", name, "' is not ", kind));
  }
  return value;
}

bool SameValue(const Attribute& a, const Attribute& b) {
  if (a.index() != b.index()) return false;
  if (const auto* tensor = std::get_if<Tensor>(&a)) return tensor->SameBits(std::get<Tensor>(b));
  return std::visit(
      [&b](const auto& value) {
        using T = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<T, Tensor>) {
          return false;  // handled above
        } else {
          return value == std::get<T>(b);
        }
      },
      a);
}

}  // namespace

const Attribute* AttributeMap::Find(std::string_view name) const {
  for (const Entry& entry : entries_) {
    if (entry.first == name) return &entry.second;
  }
  return nullptr;
}

void AttributeMap::Set(std::string name, Attribute value) {
  for (Entry& entry : entries_) {
    if (entry.first == name) {
      entry.second = std::move(value);
      return;
    }
  }
  entries_.emplace_back(std::move(name), std::move(value));
}

void AttributeMap::Remove(std::string_view name) {
  std::erase_if(entries_, [name](const Entry& entry) { return entry.first == name; });
}

int64_t AttributeMap::Int(std::string_view name, int64_t fallback) const {
  const auto* value = Get<int64_t>(*this, name, "an integer");
  return value ? *value : fallback;
}

float AttributeMap::Float(std::string_view name, float fallback) const {
  const auto* value = Get<float>(*this, name, "a float");
  return value ? *value : fallback;
}

std::string AttributeMap::String(std::string_view name, const std::string& fallback) const {
  const auto* value = Get<std::string>(*this, name, "a string");
  return value ? *value : fallback;
}

std::vector<int64_t> AttributeMap::Ints(std::string_view name,
                                        const std::vector<int64_t>& fallback) const {
  const auto* value = Get<std::vector<int64_t>>(*this, name, "a list of integers");
  return value ? *value : fallback;
}

std::vector<float> AttributeMap::Floats(std::string_view name,
                                        const std::vector<float>& fallback) const {
  const auto* value = Get<std::vector<float>>(*this, name, "a list of floats");
  return value ? *value : fallback;
}

const Tensor* AttributeMap::TensorValue(std::string_view name) const {
  return Get<Tensor>(*this, name, "a tensor");
}

const Graph* AttributeMap::GraphValue(std::string_view name) const {
  const auto* value = Get<Subgraph>(*this, name, "a graph");
  return value ? value->get() : nullptr;
}

bool SameAttributes(const AttributeMap& a, const AttributeMap& b) {
  if (a.entries().size() != b.entries().size()) return false;
  return std::all_of(a.entries().begin(), a.entries().end(),
                     [&b](const AttributeMap::Entry& entry) {
                       const Attribute* other = b.Find(entry.first);
                       return other != nullptr && SameValue(entry.second, *other);
                     });
}

}  // namespace requant
