#pragma once
// Tensors of few neighboring codes as bit planes. A convolution on bits or a max pool writes them,
// the next convolution reads them: any number of planes if it counts bits, one if it looks up
// tables. A residual may be one plane, too. Freestanding.
//
// Planes are spread where only every other code occurs: plane i then is bit i + 1 of (code - least
// code). So signs, -1 and 1, are one plane, and a convolution pads them with 0, which is no sign.
//
// An NHWC pixel is a sequence of planes, the lowest bit of (code - least code) first. Bit i of byte
// b of a plane is channel 8 * b + i:
//
//   pixel:   | plane 0: channels 0..C-1 | plane 1: channels 0..C-1 | ...
//   a plane: | c7 c6 c5 c4 c3 c2 c1 c0 | c15 ... c8 | ...          (each byte, high bit first)
//
// The channels of a tensor, and of each group of a convolution that reads or writes it, must be a
// multiple of 32, a word of popcount.h; pixels follow each other without gaps.
#include <stdint.h>

#include "kernels/conv/kernel.h"
#include "kernels/import.h"

namespace requant {

inline constexpr int32_t kPlaneBlock = 32;

}  // namespace requant

/// Gathers the words of all planes under the window of one output row, plane after plane; before
/// spread planes comes the one of bit 0. Padding has the code `zero` (less the least code). Returns
/// the sum of the codes.
RQ_LOW_BITS_KERNEL(rq_conv_gather_planes)
int32_t rq_conv_gather_planes(const requant::ConvQ8Params* params, int32_t first_channel,
                              int32_t row, int32_t zero, uint8_t* bits);

/// Finish (kernels/conv/finish.h) of eight channels to bit planes. Overwrites `acc`.
RQ_LOW_BITS_KERNEL(rq_conv_finish_planes)
void rq_conv_finish_planes(const requant::ConvQ8Params* params, int32_t* acc, int32_t row,
                           int32_t count, int32_t channel);
