#pragma once
// Convolutions of 3 x 3 windows by Winograd's F(2 x 2, 3 x 3) (Lavin and Gray, arXiv 1509.09308),
// in float32, forward and backward: 16 multiplications for four outputs instead of 36.
//
//   outputs          Y = A^T [(G g G^T) . (B^T d B)] A       for tiles d of 4 x 4 inputs
//   input gradient   the same convolution of dY, with the weights turned around
//   weight gradient  dg = G^T [sum over tiles of (B^T d B) . (A dY A^T)] G
//
// Freestanding.
#include "base/simd.h"
#include "gradient/gemm.h"
#include "gradient/windows.h"

namespace requant::gradient {

/// The tiles of a convolution's output, in bands of whole lines of tiles.
struct Tiles {
  Size lines, columns;  ///< tiles of 2 x 2 outputs; columns are a multiple of 4
  Size band;            ///< lines of tiles in a band
  Size count() const { return band * columns; }
  Size width() const { return 2 * columns + 4; }  ///< of a line of inputs, with what is read beyond
};
RQ_INLINE Tiles TilesOf(Size height, Size width) {
  constexpr Size kTilesOfBand = 256;  // their transforms stay in the second cache
  const Size lines = (height + 1) / 2, columns = ((width + 1) / 2 + 3) / 4 * 4;
  const Size most = kTilesOfBand / (columns < 1 ? 1 : columns);
  return {lines, columns, most < 1 ? 1 : most < lines ? most : lines};
}

/// Whether the convolution has 3 x 3 windows without stride and dilation, and enough channels.
bool FitsWinograd(const Windows& windows, int64_t rows, int64_t channels);

/// Floats that the functions below need as scratch for a convolution of `from` to `to` channels
/// with outputs of this size.
int64_t WinogradScratch(Size height, Size width, int64_t from, int64_t to);

/// Floats from one point of [16][to][from] transformed weights, or of their sums, to the next. The
/// points of a weight would lie in the same set of the cache if the distance were a large power of
/// two.
inline int64_t WeightStep(int64_t to, int64_t from) { return to * from + 16; }
/// Transforms weights [to][from][3][3] to [16][to][from].
void TransformWeights(const float* weights, Size to, Size from, float* transformed);
/// Transforms weights [from][to][3][3], turned around for the input gradient, to [16][to][from].
void TransformTurned(const float* weights, Size to, Size from, float* transformed);

/// Convolves an image with `weights` of TransformWeights(). The first window begins `top` lines
/// above the image and `left` pixels left of it. bias may be null.
void WinogradOutputs(Size in_channels, Size in_height, Size in_width, Size out_channels,
                     Size out_height, Size out_width, Size top, Size left, const float* image,
                     const float* weights, const float* bias, float* to, float* scratch);

/// Adds the sums over the tiles of an image to `sums` [16][out channels][in channels].
void WinogradSums(Size in_channels, Size in_height, Size in_width, Size out_channels,
                  Size out_height, Size out_width, Size top, Size left, const float* image,
                  const float* gradient, float* sums, float* scratch);
/// Adds the gradient of the sums to dw, whose rows are `dw_step` floats apart.
void AddWeightGradient(const float* sums, Size to, Size from, float* dw, Size dw_step);

}  // namespace requant::gradient
