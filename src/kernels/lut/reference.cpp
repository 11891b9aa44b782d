#include "kernels/lut/table.h"

namespace requant {

void LutReference(const LutParams* p) {
  for (size_t r = 0; r < p->rows; ++r) {
    const uint8_t* in = p->in + r * p->in_row_stride;
    uint8_t* out = p->out + r * p->out_row_stride;
    for (size_t c = 0; c < p->cols; ++c) out[c] = p->table[in[c]];
  }
}

}  // namespace requant
