/* A stand-in for the library of a chip's vendor: a function for the operator QLinearConv of bytes,
   with one scale for all channels or one for each. It reads everything from what generated C gives
   it. */
#include <math.h>
#include <string.h>

#include "clothes.h"

/* The attribute of that name, or the fallback for lists of up to four numbers. */
static int64_t ints(const requant_node* node, const char* name, int at, int64_t fallback) {
  for (int32_t i = 0; i < node->attribute_count; ++i) {
    const requant_attribute* attribute = &node->attributes[i];
    if (strcmp(attribute->name, name) == 0 && at < attribute->count) return attribute->ints[at];
  }
  return fallback;
}

static int32_t code(const requant_tensor* tensor, int64_t at) {
  return tensor->type == 3 ? ((const int8_t*)tensor->data)[at] : ((const uint8_t*)tensor->data)[at];
}

static int64_t count(const requant_tensor* tensor) {
  int64_t product = 1;
  for (int32_t i = 0; i < tensor->rank; ++i) product *= tensor->dims[i];
  return product;
}

/* The element of a tensor that has one, or one for each channel. */
static int64_t element(const requant_tensor* tensor, int32_t channel) {
  return count(tensor) == 1 ? 0 : channel;
}

int vendor_calls = 0;

void vendor_conv(void* result, const requant_tensor* tensors, int32_t tensor_count,
                 const requant_node* nodes, int32_t node_count) {
  /* The slots of QLinearConv. */
  enum { X, X_SCALE, X_ZERO, W, W_SCALE, W_ZERO, Y_SCALE, Y_ZERO, BIAS };
  const requant_node* node = &nodes[0];
  const requant_tensor* slot[9];
  for (int i = 0; i < 9; ++i) {
    slot[i] = i < node->input_count && node->inputs[i] >= 0 ? &tensors[node->inputs[i]] : NULL;
  }
  const requant_tensor* y = &tensors[node->outputs[0]];
  const int32_t *in = slot[X]->dims, *out = y->dims, *kernel = slot[W]->dims;
  const int64_t groups = ints(node, "group", 0, 1);
  const int32_t per_group = out[1] / (int32_t)groups;
  const int32_t lowest = y->type == 3 ? -128 : 0;
  (void)tensor_count;
  (void)node_count;
  ++vendor_calls;
  for (int32_t n = 0; n < out[0]; ++n)
    for (int32_t o = 0; o < out[1]; ++o)
      for (int32_t row = 0; row < out[2]; ++row)
        for (int32_t column = 0; column < out[3]; ++column) {
          const int32_t w_zero = slot[W_ZERO] ? code(slot[W_ZERO], element(slot[W_ZERO], o)) : 0;
          const int32_t x_zero = code(slot[X_ZERO], 0), y_zero = code(slot[Y_ZERO], 0);
          int32_t sum = slot[BIAS] ? ((const int32_t*)slot[BIAS]->data)[o] : 0;
          for (int32_t c = 0; c < kernel[1]; ++c)
            for (int32_t i = 0; i < kernel[2]; ++i)
              for (int32_t j = 0; j < kernel[3]; ++j) {
                const int64_t at_row = row * ints(node, "strides", 0, 1) +
                                       i * ints(node, "dilations", 0, 1) - ints(node, "pads", 0, 0);
                const int64_t at_column = column * ints(node, "strides", 1, 1) +
                                          j * ints(node, "dilations", 1, 1) -
                                          ints(node, "pads", 1, 0);
                if (at_row < 0 || at_row >= in[2] || at_column < 0 || at_column >= in[3]) continue;
                const int32_t channel = o / per_group * kernel[1] + c;
                const int64_t x =
                    ((n * in[1] + channel) * in[2] + at_row) * (int64_t)in[3] + at_column;
                const int64_t w = ((o * kernel[1] + c) * kernel[2] + i) * (int64_t)kernel[3] + j;
                sum += (code(slot[X], x) - x_zero) * (code(slot[W], w) - w_zero);
              }
          const float* w_scale = slot[W_SCALE]->data;
          const double scale = (double)((const float*)slot[X_SCALE]->data)[0] *
                               w_scale[element(slot[W_SCALE], o)] /
                               ((const float*)slot[Y_SCALE]->data)[0];
          int32_t value = (int32_t)rintf((float)sum * (float)scale) + y_zero;
          value = value < lowest ? lowest : value > lowest + 255 ? lowest + 255 : value;
          ((uint8_t*)result)[((n * out[1] + o) * out[2] + row) * (int64_t)out[3] + column] =
              (uint8_t)value;
        }
}
