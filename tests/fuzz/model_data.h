// Code that the programs which run models share; each includes it once.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "interpret/interpreter.h"
#include "ir/graph.h"
#include "plan/plan.h"
#include "tensor/text.h"

namespace requant::fuzz {

/// Larger models only take longer, and so do loops.
inline constexpr int64_t kMostElements = 4096;

inline bool IsSmall(const Graph& graph) {
  for (const auto& node : graph.nodes()) {
    if (!IsPlannable(*node)) return false;
  }
  for (const auto& value : graph.values()) {
    if (!value->type.IsStatic()) return false;
    int64_t count = 1;
    for (const int64_t dim : value->type.StaticShape()) {
      if (dim > kMostElements) return false;
      count *= dim;
      if (count > kMostElements) return false;
    }
  }
  return true;
}

/// Strings of up to three of the file's bytes, from byte `at` on.
inline Tensor BytesAsText(const Shape& shape, const std::vector<uint8_t>& bytes, size_t& at) {
  std::vector<std::string> texts(static_cast<size_t>(NumElements(shape)));
  for (std::string& text : texts) {
    for (size_t left = bytes[at * 7 % bytes.size()] & 3; left > 0; --left) {
      text.push_back(static_cast<char>(bytes[++at * 7 % bytes.size()]));
    }
    ++at;
  }
  return TextTensor(texts, shape);
}

/// Feeds made of the file's bytes, repeated, with NaN, infinities and integers without bounds.
/// Releases the strings of earlier files.
inline TensorMap BytesAsFeeds(const Graph& graph, const std::vector<uint8_t>& bytes) {
  BeginTextRun();
  TensorMap feeds;
  size_t at = 0;
  for (const Value* input : graph.inputs()) {
    if (IsText(input->type.dtype)) {
      feeds.emplace(input->name, BytesAsText(input->type.StaticShape(), bytes, at));
      continue;
    }
    Tensor tensor(input->type.dtype, input->type.StaticShape());
    auto* out = static_cast<uint8_t*>(tensor.raw());
    for (size_t i = 0; i < tensor.bytes(); ++i) {
      const uint8_t byte = bytes[at++ * 7 % bytes.size()];
      out[i] = tensor.dtype() == DType::kBool ? byte & 1 : byte;
    }
    feeds.emplace(input->name, std::move(tensor));
  }
  return feeds;
}

inline void ExpectSame(const std::vector<Tensor>& got, const std::vector<Tensor>& wanted) {
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (!got[i].SameBits(wanted[i])) __builtin_trap();
  }
}

}  // namespace requant::fuzz

// Data may ask for any amount of memory. Allocations above this limit fail, as they do in a page;
// AddressSanitizer's own operator new would end the program instead of throwing.
inline constexpr size_t kMostBytes = size_t{256} << 20;

extern "C" const char* __asan_default_options() {  // NOLINT(bugprone-reserved-identifier)
  return "allocator_may_return_null=1:max_allocation_size_mb=256:alloc_dealloc_mismatch=0";
}
void* operator new(size_t bytes) {
  void* memory = bytes > kMostBytes ? nullptr : std::malloc(bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
