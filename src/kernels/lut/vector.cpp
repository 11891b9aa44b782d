// Table lookups, unrolled by eight. In V8 on x86 this runs at 3.9 bytes per nanosecond, against 2.6
// for sixteen i8x16.swizzle (3.6 relaxed) over a table in registers and 2.9 for gathering eight
// results in one 64-bit word: only the two loads of a lookup count, and the swizzles need 48
// instructions for 16 bytes.
#include "base/simd.h"
#include "kernels/lut/kernel.h"

using requant::LutParams;

void rq_lut(const LutParams* p) {
  const uint8_t* table = p->table;
  const size_t n = p->cols;
  for (size_t r = 0; r < p->rows; ++r) {
    const uint8_t* in = p->in + r * p->in_row_stride;
    uint8_t* out = p->out + r * p->out_row_stride;
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
      out[i] = table[in[i]];
      out[i + 1] = table[in[i + 1]];
      out[i + 2] = table[in[i + 2]];
      out[i + 3] = table[in[i + 3]];
      out[i + 4] = table[in[i + 4]];
      out[i + 5] = table[in[i + 5]];
      out[i + 6] = table[in[i + 6]];
      out[i + 7] = table[in[i + 7]];
    }
    for (; i < n; ++i) out[i] = table[in[i]];
  }
}
