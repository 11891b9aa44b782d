// Attributes that are lists of strings.
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/error.h"
#include "base/late_text.h"
#include "base/str_cat.h"
#include "ir/attribute.h"
#include "tensor/text.h"

namespace requant {

/// The strings of the attribute as a tensor [count]; none where it is absent. Throws kInvalidModel
/// for an attribute of another kind.
inline Tensor TextList(const AttributeMap& attributes, std::string_view name) {
  const Attribute* found = attributes.Find(name);
  if (found == nullptr) return TextTensor({}, {0});
  const auto* list = std::get_if<std::vector<std::string>>(found);
  if (list == nullptr) {
    Fail(ErrorCode::kInvalidModel,
         StrCat(RQ_LATE_TEXT("attribute '"), name, RQ_LATE_TEXT("' is no list of strings")));
  }
  return TextTensor(*list, {static_cast<int64_t>(list->size())});
}

}  // namespace requant
