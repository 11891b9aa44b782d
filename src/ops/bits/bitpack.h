// Bit planes of small unsigned codes as tensors of words (bitpack.cpp), and the operators on them
// (bitserial.cpp), all of ai.requant.
#pragma once

#include "ops/op.h"

namespace requant {

/// How BitPack lays out the codes of a tensor: `axis` is packed, and the planes are dimension
/// `bit_axis` of the packed tensor; `bits` planes, 1 to 8; words of `width` bits: 8, 16, 32 or 64.
struct BitPacking {
  int64_t axis = 0, bit_axis = 0, bits = 1, width = 32;
};

/// The bits of a type of words: uint8, uint16, uint32 or uint64. Throws kTypeMismatch for others.
int64_t WordBits(DType dtype);

/// The codes of a packed tensor, uint8, with `length` elements along packing.axis. Throws
/// kShapeMismatch where the words do not hold that many, and for another number of planes.
Tensor UnpackBits(const Tensor& packed, const BitPacking& packing, int64_t length);

// bitserial.cpp
void InferBitSerial(InferContext& context);
void EvaluateBitSerial(EvalContext& context);
/// Makes ConvInteger and MatMulInteger of bit-serial operators.
bool RewriteBitSerial(Graph& graph);

}  // namespace requant
