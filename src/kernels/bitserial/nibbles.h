#pragma once
// Values of at most 16 neighbouring codes, two to a byte. Freestanding.
//
// The channels of an NHWC pixel lie in blocks of 8, four bytes each: byte i holds channel i in its
// low half and channel i + 4 in its high half, less the least code. So eight results of a
// convolution, whose packed weights have the channels in order, are packed by one shift and one or,
// and unpacked in whole vectors. The channels of a tensor, and of each group of a convolution that
// reads or writes it, must be a multiple of 8; the pixels follow each other.
#include <stddef.h>
#include <stdint.h>

#include "kernels/conv/kernel.h"
#include "kernels/import.h"

namespace requant {

/// Elements of a block, and what a caller counts in.
inline constexpr int32_t kNibbleBlock = 8;
/// Elements of an addition that are unpacked at a time.
inline constexpr int32_t kNibbleChunk = 512;
/// For a run: three chunks, and the parameters of the addition.
inline constexpr size_t kNibbleAddWorkspace = 3 * kNibbleChunk + 256;

}  // namespace requant

/// rq_conv_gather_bytes, and with `terms` rq_conv_gather_sums, from a packed input; `add` is added
/// to the codes themselves.
RQ_LOW_BITS_KERNEL(rq_conv_gather_nibbles)
void rq_conv_gather_nibbles(const requant::ConvQ8Params* params, int32_t first_channel, int32_t row,
                            int32_t count, int32_t add, int32_t zero_point, int32_t factor,
                            void* panel, ptrdiff_t stride, int32_t* terms);

/// Finish (kernels/conv/finish.h) and the residual's addition for eight channels, of which the
/// output, the residual or both are packed; `acc` is overwritten.
RQ_LOW_BITS_KERNEL(rq_conv_finish_nibbles)
void rq_conv_finish_nibbles(const requant::ConvQ8Params* params, int32_t* acc, int32_t row,
                            int32_t count, int32_t channel);
