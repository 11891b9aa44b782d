#pragma once

#include <cstdint>
#include <memory>
#include <span>

namespace requant {

/// Bytes and the object that keeps them alive. Tensors read from them are views that share the
/// owner.
struct SharedBytes {
  std::shared_ptr<const void> owner;
  std::span<const uint8_t> bytes;
};

}  // namespace requant
