// Means and scales of the columns of keys and values.
#pragma once

#include <cstdint>

namespace requant {

/// `count` rows of `width` floats, `stride` floats apart.
struct FloatRows {
  const float* data = nullptr;
  int64_t count = 0, stride = 0, width = 0;
};

/// mean[width] of the rows.
void MeanOfRows(const FloatRows& rows, float* mean);

/// scales[width] = max|x| / 127 of the columns; NaN for a column that has NaN or infinity.
void ScalesOfColumns(const FloatRows& rows, float* scales);

}  // namespace requant
