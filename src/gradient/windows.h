#pragma once
// The windows of a convolution over channels-first images, for the forward and backward passes of
// the quantizer and of training. Freestanding.
#include <stddef.h>
#include <stdint.h>

namespace requant::gradient {

/// The windows of one image and one group in three spatial dimensions (missing ones are 1).
/// Channels follow each other, `plane()` floats each in an image, `pixels()` in an output. Columns
/// are [channel][tap][pixel], weights [channel][tap].
struct Windows {
  int64_t in[3] = {1, 1, 1}, out[3] = {1, 1, 1}, kernel[3] = {1, 1, 1};
  int64_t stride[3] = {1, 1, 1}, dilation[3] = {1, 1, 1}, begin[3] = {0, 0, 0};
  int64_t channels = 1;  // channels of the layer's input in one group
  int64_t batch = 1;
  bool pointwise = false;
  int64_t plane() const { return in[0] * in[1] * in[2]; }
  int64_t pixels() const { return out[0] * out[1] * out[2]; }
  int64_t taps() const { return kernel[0] * kernel[1] * kernel[2]; }
};

/// Writes the windows of an image as columns, with zeros outside the image.
void Unfold(const Windows& windows, int64_t channels, const float* image, float* columns);
/// Adds every element of the columns to the pixel it came from.
void Fold(const Windows& windows, int64_t channels, const float* columns, float* image);

/// Convolves to one output channel, without columns: y += w * x.
void AddSingleOutput(const Windows& windows, const float* x, const float* w, float* y);
/// Add the gradients of that convolution: by the weights of the first `channels` channels, and by
/// the input.
void AddSingleWeightGradient(const Windows& windows, int64_t channels, const float* x,
                             const float* dy, float* dw);
void AddSingleInputGradient(const Windows& windows, const float* w, const float* dy, float* dx);

}  // namespace requant::gradient
