// The kernels that threads can run: every vector kernel that computes a range, by the name it is
// exported under.
#include "kernels/entry.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "kernels/conv/table.h"
#include "kernels/dwconv/table.h"
#include "kernels/elementwise/table.h"
#include "kernels/layer_norm/table.h"
#include "kernels/layout/table.h"
#include "kernels/lut/table.h"
#include "kernels/matmul_nbits/table.h"
#include "kernels/pool/table.h"
#include "kernels/quantize/table.h"
#include "kernels/reduce/table.h"
#include "kernels/resize/table.h"
#include "kernels/softmax/table.h"

namespace requant {
namespace {

template <typename Rows>
void ExpectEntries(const Rows& rows) {
  for (const auto& row : rows) {
    const bool scalar = std::string(row.isa) == "scalar";
    EXPECT_EQ(KernelEntryOf(row.run) < 0, scalar) << row.name;
  }
}

TEST(KernelEntries, AreAllVectorKernelsOfTheTables) {
  ExpectEntries(ConvF32Kernels());
  ExpectEntries(ConvQ8Kernels());
  ExpectEntries(DwConvF32Kernels());
  ExpectEntries(DwConvQ8Kernels());
  ExpectEntries(BinaryF32Kernels());
  ExpectEntries(UnaryF32Kernels());
  ExpectEntries(QAddKernels());
  ExpectEntries(QMulKernels());
  ExpectEntries(QAddNibblesKernels());
  ExpectEntries(LutKernels());
  ExpectEntries(QuantizeKernels());
  ExpectEntries(QuantizePlanesKernels());
  ExpectEntries(DequantizeKernels());
  ExpectEntries(MaxPoolF32Kernels());
  ExpectEntries(MaxPoolQ8Kernels());
  ExpectEntries(AvgPoolF32Kernels());
  ExpectEntries(AvgPoolQ8Kernels());
  ExpectEntries(SoftmaxF32Kernels());
  ExpectEntries(LayerNormF32Kernels());
  ExpectEntries(ReduceF32Kernels());
  ExpectEntries(MatMulNBitsKernels());
  ExpectEntries(ResizeLinearF32Kernels());
  ExpectEntries(TransposeKernels());
}

TEST(KernelEntries, HaveNamesOfTheirOwn) {
  std::set<std::string> names;
  for (const KernelEntry& entry : KernelEntries()) {
    EXPECT_TRUE(names.insert(entry.name).second) << entry.name;
    EXPECT_EQ(std::string(entry.name).rfind("rq_", 0), 0U) << entry.name;
  }
}

}  // namespace
}  // namespace requant
