// Sequences and optional values: tensors of bytes that hold tensors. Every part of the engine that
// moves, keeps or frees tensors treats them as it treats any other.
//
// Little-endian int64 words: the number of items, then of each item its dtype (tensor/dtype.h), its
// rank, its dimensions, and its bytes, padded to whole words. The bytes of strings are a word with
// the size of each, then all their bytes in a row. An optional value is a sequence of at most one
// item. web/base/sequence.ts reads and writes the form, too.
#pragma once

#include <vector>

#include "ops/infer_util.h"
#include "ops/op.h"

namespace requant {

inline DType SequenceOf(DType element) {
  return static_cast<DType>(static_cast<uint8_t>(element) | kSequenceBit);
}
inline DType OptionalOf(DType element) {
  return static_cast<DType>(static_cast<uint8_t>(element) | kOptionalBit);
}
inline bool IsOptional(DType dtype) { return (static_cast<uint8_t>(dtype) & kOptionalBit) != 0; }
inline bool IsSequence(DType dtype) {
  return (static_cast<uint8_t>(dtype) & (kSequenceBit | kOptionalBit)) == kSequenceBit;
}
/// The dtype of an optional value's content, or of a sequence's items; unknown for a tensor.
DType ContentOf(DType dtype);

/// The type of a container: its size is open.
inline std::optional<SymbolicShape> ContainerShape() { return SymbolicShape{Dim()}; }

/// The items, as views of the bytes, or with strings of their own. Throws kInvalidArgument for
/// bytes of another form.
std::vector<Tensor> ItemsOf(const Tensor& container);
/// A container of that dtype (SequenceOf, OptionalOf). Throws kUnsupported for items of fewer than
/// 8 bits.
Tensor ContainerOf(DType dtype, const std::vector<Tensor>& items);

}  // namespace requant
