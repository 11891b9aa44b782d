// Images with their channels last, and the padding of windows over them.
#pragma once

#include <cstdint>
#include <string>

#include "ops/shape_rules.h"
#include "tflite/write/writer.h"

namespace requant::tflite {

/// A value [N, C, W] or [N, C, H, W] as a tensor [N, H, W, C].
struct Image {
  int32_t tensor;
  Shape shape;
};

/// Throws kUnsupported, naming the node, for three spatial dimensions.
Image ImageOf(Writer& writer, const Value* value, Form form);
/// Finishes the tail with an image: one of H = 1 becomes [N, W, C] where the value has rank 3.
void FinishImage(Writer& writer, const Tail& tail, int32_t tensor, Form form);
/// The shape of a tail's value as an image [N, H, W, C].
Shape ImageShape(const Writer& writer, const Value* value);

/// How TFLite names the window's padding.
struct PaddedImage {
  Image image;
  Padding padding;
};
/// Chooses SAME or VALID where they are the padding of `geometry`, else pads the image:
/// with the least number (`least`), for a maximum, or with zeros.
PaddedImage Padded(Writer& writer, const Image& image, const Geometry& geometry, bool least);
/// Whether SAME is the padding of that geometry: ceil(input / stride) windows, the larger half of
/// the padding at the end (tensorflow/lite/kernels/padding.h).
bool IsSame(const Geometry& geometry);
/// Adds a PAD of the image.
Image PadImage(Writer& writer, const Image& image, int64_t top, int64_t left, int64_t bottom,
               int64_t right, bool least);

}  // namespace requant::tflite
