#pragma once
// Convolutions of 3 x 3 windows by Winograd's minimal filtering (Lavin and Gray, arXiv 1509.09308),
// in float32, forward and backward: F(2 x 2, 3 x 3) or F(4 x 4, 3 x 3), which take 16 instead of 36
// multiplications for four outputs, or 36 instead of 144 for sixteen.
//
//   outputs          Y = A^T [(G g G^T) . (B^T d B)] A       for tiles d of the inputs
//   input gradient   the same convolution of dY, with the weights turned around
//   weight gradient  dg = G^T [sum over tiles of (B^T d B) . (A dY A^T)] G
//
// Freestanding.
#include "base/simd.h"
#include "gradient/gemm.h"
#include "gradient/windows.h"

namespace requant::gradient {

/// Whether the convolution has 3 x 3 windows without stride and dilation, and enough channels.
bool FitsWinograd(const Windows& windows, int64_t rows, int64_t channels);

/// The form of a convolution with outputs of this size: 4 where its tiles take fewer products,
/// else 2.
Size FormOf(Size height, Size width);

/// Floats that the functions below need as scratch for a convolution of `from` to `to` channels
/// with outputs of this size.
int64_t WinogradScratch(Size height, Size width, int64_t from, int64_t to);

/// Floats from one point of transformed weights, or of their sums, to the next: they are
/// [points][to][from]. The points of a weight would lie in the same set of the cache if the
/// distance were a large power of two.
inline int64_t WeightStep(int64_t to, int64_t from) { return to * from + 16; }
/// The floats of the weights of a form.
int64_t WeightFloats(Size form, int64_t to, int64_t from);
/// Transforms weights [to][from][3][3].
void TransformWeights(Size form, const float* weights, Size to, Size from, float* transformed);
/// Transforms weights [from][to][3][3], turned around for the input gradient.
void TransformTurned(Size form, const float* weights, Size to, Size from, float* transformed);

/// Convolves an image with weights in the form of the outputs' size. The first window begins `top`
/// lines above the image and `left` pixels left of it. bias may be null.
void WinogradOutputs(Size in_channels, Size in_height, Size in_width, Size out_channels,
                     Size out_height, Size out_width, Size top, Size left, const float* image,
                     const float* weights, const float* bias, float* to, float* scratch);

/// Adds the sums over the tiles of an image to `sums`, in the form of the outputs' size.
void WinogradSums(Size in_channels, Size in_height, Size in_width, Size out_channels,
                  Size out_height, Size out_width, Size top, Size left, const float* image,
                  const float* gradient, float* sums, float* scratch);
/// Adds the gradient of the sums to dw, whose rows are `dw_step` floats apart.
void AddWeightGradient(Size form, const float* sums, Size to, Size from, float* dw, Size dw_step);

}  // namespace requant::gradient
