#include "plan/lower/sequence/column_ranges.h"

#include <algorithm>
#include <cmath>

namespace requant {

void MeanOfRows(const FloatRows& rows, float* mean) {
  const int64_t width = rows.width;
  std::fill_n(mean, width, 0.0F);
  const float* row = rows.data;
  for (int64_t r = 0; r < rows.count; ++r, row += rows.stride) {
    for (int64_t i = 0; i < width; ++i) mean[i] += row[i];
  }
  const float share = 1.0F / static_cast<float>(rows.count);
  for (int64_t i = 0; i < width; ++i) mean[i] *= share;
}

void ScalesOfColumns(const FloatRows& rows, float* scales) {
  const int64_t width = rows.width;
  std::fill_n(scales, width, 0.0F);
  const float* row = rows.data;
  for (int64_t r = 0; r < rows.count; ++r, row += rows.stride) {
    for (int64_t i = 0; i < width; ++i) {
      const float size = std::fabs(row[i]);
      // A NaN is taken, since it is not <= the scale, and kept, since it is not equal to itself.
      scales[i] = size <= scales[i] || scales[i] != scales[i] ? scales[i] : size;
    }
  }
  for (int64_t i = 0; i < width; ++i) scales[i] = (scales[i] - scales[i]) + scales[i] / 127.0F;
}

}  // namespace requant
