#pragma once
// Values of few neighbouring codes as planes of bits, from a convolution of bits or a max pool to
// the next convolution: by counting any number of planes, by lookup one, which may be a residual as
// well. Freestanding.
//
// An NHWC pixel is its planes, lowest bit of (code - least code) first, each the bits of its
// channels in order: bit i of byte b is channel 8 * b + i. The channels of a tensor, and of each
// group of a convolution that reads or writes it, must be a multiple of 32, a word of popcount.h;
// the pixels follow each other.
#include <stdint.h>

#include "kernels/conv/kernel.h"
#include "kernels/import.h"

namespace requant {

inline constexpr int32_t kPlaneBlock = 32;

}  // namespace requant

/// The words of all planes under the window of one output row, plane after plane; padding has the
/// code `zero` (less the least one). Returns the sum of the codes.
RQ_LOW_BITS_KERNEL(rq_conv_gather_planes)
int32_t rq_conv_gather_planes(const requant::ConvQ8Params* params, int32_t first_channel,
                              int32_t row, int32_t zero, uint8_t* bits);

/// Finish (kernels/conv/finish.h) of eight channels to planes; `acc` is overwritten.
RQ_LOW_BITS_KERNEL(rq_conv_finish_planes)
void rq_conv_finish_planes(const requant::ConvQ8Params* params, int32_t* acc, int32_t row,
                           int32_t count, int32_t channel);
