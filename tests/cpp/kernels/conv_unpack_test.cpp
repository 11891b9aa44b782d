// Rows with an inverse unpack the codes that they packed, and the choice of a row by facts is that
// by the weights.
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>
#include <vector>

#include "base/aligned_buffer.h"
#include "kernels/conv/facts.h"
#include "kernels/conv_testing.h"

namespace requant {
namespace {

using namespace window_testing;

/// Calls f(case, name) for layers of every form with 8 bits and 7 bits, as the tensor and (for
/// windows of one pixel) as the matrix of a MatMul.
template <typename F>
void ForEachCase(const F& f) {
  std::mt19937 random(23);
  int variant = 0;
  for (const ConvGeometry& geometry : Geometries()) {
    for (const bool seven_bits : {false, true}) {
      Q8Case one(random, geometry, variant++, seven_bits);
      f(one, Describe(one.g));
      ConvWeightsLayout& layout = one.view.layout;
      if (layout.kernel_h * layout.kernel_w > 1 || layout.groups > 1) continue;
      layout.stride_o = 1;
      layout.stride_i = layout.out_c;
      f(one, Describe(one.g) + ", rows");
    }
  }
}

TEST(ConvUnpack, IsTheInverseOfPacking) {
  std::map<std::string, int> unpacked;
  ForEachCase([&](const Q8Case& one, const std::string& name) {
    for (const ConvQ8Kernel& row : ConvQ8Kernels()) {
      const conv::Q8Unpack unpack = row.unpack_weights();
      if (unpack == nullptr || !row.supports(one.view, one.g)) continue;
      AlignedBuffer packed(row.packed_size(one.view));
      row.pack_weights(one.view, packed.data());
      // The inverse reads no pointer but that of the zero points.
      ConvQ8Weights weights;
      weights.layout = one.view.layout;
      weights.is_signed = one.view.is_signed;
      weights.zero_points = one.view.zero_points;
      std::vector<uint8_t> made(one.weights.size());
      unpack(weights, packed.data(), made.data());
      EXPECT_EQ(made, one.weights) << row.name << " " << name;
      ++unpacked[row.name];
    }
  });
  for (const char* name : {"vector", "dot7", "dot8", "dot8_affine"}) {
    EXPECT_GT(unpacked[std::string("conv_q8_") + name], 50) << name;
  }
}

/// The weights have no data here, so that a function that reads them crashes.
TEST(ConvFacts, AnswerAsTheWeights) {
  ForEachCase([](const Q8Case& one, const std::string& name) {
    SCOPED_TRACE(name);
    AlignedBuffer facts(ConvQ8FactsSize(one.view));
    FindConvQ8Facts(one.view, facts.data());
    ConvQ8Weights known = one.view;
    known.data = nullptr;
    known.facts = reinterpret_cast<const ConvQ8Facts*>(facts.data());
    EXPECT_EQ(ConvQ8WeightBits(known), ConvQ8WeightBits(one.view));
    for (const ConvQ8Kernel& row : ConvQ8Kernels()) {
      const bool supports = row.supports(one.view, one.g);
      EXPECT_EQ(row.supports(known, one.g), supports) << row.name;
      if (!supports) continue;
      EXPECT_EQ(row.is_preferred(known, one.g), row.is_preferred(one.view, one.g)) << row.name;
    }
    for (const int32_t most : {1, 128, 255}) {
      std::vector<int64_t> given(static_cast<size_t>(one.g.out_c)), wanted(given.size());
      ConvQ8AccumulatorBounds(known, most, given.data());
      ConvQ8AccumulatorBounds(one.view, most, wanted.data());
      EXPECT_EQ(given, wanted);
    }
  });
}

}  // namespace
}  // namespace requant
