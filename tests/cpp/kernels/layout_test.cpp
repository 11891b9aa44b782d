#include <gtest/gtest.h>

#include <cstring>

#include "kernels/layout/table.h"
#include "kernels/random_data.h"

namespace requant {
namespace {

using testing::kCanary;
using testing::Random;

TEST(Transpose, EveryRowMovesEveryElement) {
  Random random(1);
  for (const TransposeKernel& kernel : TransposeKernels()) {
    const size_t size = static_cast<size_t>(kernel.element_size);
    for (int round = 0; round < 120; ++round) {
      TransposeParams p{};
      p.batch = static_cast<size_t>(random.Int(1, 2));
      p.rows = static_cast<size_t>(random.Int(1, 40));
      p.cols = static_cast<size_t>(random.Int(1, 40));
      p.in_row_stride = p.cols + static_cast<size_t>(random.Int(0, 3));
      p.out_row_stride = p.rows + static_cast<size_t>(random.Int(0, 3));
      p.in_batch_stride = p.rows * p.in_row_stride;
      p.out_batch_stride = p.cols * p.out_row_stride;
      const size_t used = (p.batch - 1) * p.in_batch_stride + (p.rows - 1) * p.in_row_stride;
      const std::vector<uint8_t> in = random.Bytes((used + p.cols) * size);
      std::vector<uint8_t> out(p.batch * p.out_batch_stride * size + 16, kCanary);
      std::vector<uint8_t> expected = out;
      for (size_t b = 0; b < p.batch; ++b) {
        for (size_t r = 0; r < p.rows; ++r) {
          for (size_t c = 0; c < p.cols; ++c) {
            const size_t from = b * p.in_batch_stride + r * p.in_row_stride + c;
            const size_t to = b * p.out_batch_stride + c * p.out_row_stride + r;
            std::memcpy(&expected[to * size], &in[from * size], size);
          }
        }
      }
      p.in = in.data();
      p.out = out.data();
      kernel.run(&p);
      ASSERT_EQ(expected, out) << kernel.name << ", " << p.rows << " x " << p.cols;
    }
  }
}

TEST(CopyRows, EveryRowCopiesExactly) {
  Random random(2);
  for (const CopyRowsKernel& kernel : CopyRowsKernels()) {
    for (size_t bytes = 0; bytes <= 70; ++bytes) {
      const size_t in_stride = bytes + bytes % 3;
      const size_t out_stride = bytes + 1 + bytes % 4;
      const std::vector<uint8_t> in = random.Bytes(2 * in_stride + bytes);
      std::vector<uint8_t> out(3 * out_stride + 16, kCanary);
      std::vector<uint8_t> expected = out;
      for (size_t r = 0; r < 3; ++r) {
        for (size_t i = 0; i < bytes; ++i) expected[r * out_stride + i] = in[r * in_stride + i];
      }
      const CopyRowsParams p{in.data(), out.data(), 3, bytes, in_stride, out_stride};
      kernel.run(&p);
      ASSERT_EQ(expected, out) << kernel.name << ", " << bytes;
    }
  }
}

TEST(StridedCopy, PermutesSlicesBroadcastsAndReverses) {
  Random random(3);
  for (size_t size : {1, 2, 3, 4, 8}) {
    for (int round = 0; round < 100; ++round) {
      StridedCopyParams p{};
      p.element_size = size;
      p.rank = random.Int(0, kMaxCopyRank);
      // A dense output whose dimensions follow the input's strides in random order.
      size_t elements = 1;
      for (int i = 0; i < p.rank; ++i) {
        p.dims[i] = static_cast<size_t>(random.Int(1, 4));
        elements *= p.dims[i];
      }
      ptrdiff_t dense = 1;
      for (int i = p.rank - 1; i >= 0; --i) {
        p.out_strides[i] = dense;
        dense *= static_cast<ptrdiff_t>(p.dims[i]);
      }
      int order[kMaxCopyRank];
      for (int i = 0; i < p.rank; ++i) order[i] = i;
      for (int i = p.rank - 1; i > 0; --i) std::swap(order[i], order[random.Int(0, i)]);
      ptrdiff_t step = 1;
      ptrdiff_t start = 0;
      for (int i = 0; i < p.rank; ++i) {
        const int dim = round % 3 == 0 ? p.rank - 1 - i : order[i];
        const ptrdiff_t extent = static_cast<ptrdiff_t>(p.dims[dim]);
        const int kind = round % 3 == 0 ? 3 : random.Int(0, 5);
        if (kind == 0) {
          p.in_strides[dim] = 0;
          continue;
        }
        p.in_strides[dim] = kind == 1 ? -step : step;
        if (kind == 1) start += step * (extent - 1);
        step *= extent + (kind == 2 ? 1 : 0);
      }
      const std::vector<uint8_t> in = random.Bytes(static_cast<size_t>(step) * size);
      std::vector<uint8_t> out(elements * size + 16, kCanary);
      std::vector<uint8_t> expected = out;
      for (size_t flat = 0; flat < elements; ++flat) {
        ptrdiff_t from = start;
        size_t rest = flat;
        for (int i = p.rank - 1; i >= 0; --i) {
          from += static_cast<ptrdiff_t>(rest % p.dims[i]) * p.in_strides[i];
          rest /= p.dims[i];
        }
        std::memcpy(&expected[flat * size], &in[static_cast<size_t>(from) * size], size);
      }
      p.in = in.data() + static_cast<size_t>(start) * size;
      p.out = out.data();
      StridedCopy(&p);
      ASSERT_EQ(expected, out) << "round " << round << ", size " << size;
    }
  }
}

TEST(StridedCopy, EmptyDimensionCopiesNothing) {
  StridedCopyParams p{};
  p.element_size = 4;
  p.rank = 2;
  p.dims[0] = 3;
  StridedCopy(&p);  // null pointers are never touched
}

}  // namespace
}  // namespace requant
