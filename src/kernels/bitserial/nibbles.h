#pragma once
// Tensors of at most 16 neighboring codes, two to a byte. Freestanding.
//
// The channels of an NHWC pixel lie in blocks of 8, four bytes each. A code is stored less the
// least code:
//
//              byte 0   byte 1   byte 2   byte 3
//   bits 7..4  c 4      c 5      c 6      c 7
//   bits 3..0  c 0      c 1      c 2      c 3
//
// Eight results of a convolution, whose packed weights have the channels in order, are therefore
// packed by one shift and one or, and unpacked in whole vectors. The channels of a tensor, and of
// each group of a convolution that reads or writes it, must be a multiple of 8; pixels follow each
// other without gaps.
#include <stddef.h>
#include <stdint.h>

#include "kernels/conv/kernel.h"
#include "kernels/import.h"

namespace requant {

/// Elements of a block, the unit in which callers count.
inline constexpr int32_t kNibbleBlock = 8;
/// Elements that an addition unpacks at a time.
inline constexpr int32_t kNibbleChunk = 512;
/// Workspace of one addition: three chunks, and its parameters.
inline constexpr size_t kNibbleAddWorkspace = 3 * kNibbleChunk + 256;

}  // namespace requant

/// rq_conv_gather_bytes from a packed input or, where `terms` is not null, rq_conv_gather_sums;
/// `add` is added to the codes themselves.
RQ_LOW_BITS_KERNEL(rq_conv_gather_nibbles)
void rq_conv_gather_nibbles(const requant::ConvQ8Params* params, int32_t first_channel, int32_t row,
                            int32_t count, int32_t add, int32_t zero_point, int32_t factor,
                            void* panel, ptrdiff_t stride, int32_t* terms);

/// Finish (kernels/conv/finish.h) and the residual's addition for eight channels, where the output,
/// the residual or both are packed. Overwrites `acc`.
RQ_LOW_BITS_KERNEL(rq_conv_finish_nibbles)
void rq_conv_finish_nibbles(const requant::ConvQ8Params* params, int32_t* acc, int32_t row,
                            int32_t count, int32_t channel);
