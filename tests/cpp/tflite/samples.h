// Files that several tests read.
#pragma once

#include "tflite/file_builder.h"

namespace requant::tflite {

/// y = relu(conv(x) + b), 2x2 pixels of two channels, a 1x1 kernel [[1, 2], [3, 4]].
inline GraphSpec ConvGraph() {
  using K = OptionSpec;
  return {
      {{"x", TensorType::kFloat32, {1, 2, 2, 2}},
       {"w", TensorType::kFloat32, {2, 1, 1, 2}, BytesOf<float>({1, 2, 3, 4})},
       {"b", TensorType::kFloat32, {2}, BytesOf<float>({-1, -100})},
       {"y", TensorType::kFloat32, {1, 2, 2, 2}}},
      {{3, {0, 1, 2}, {3}, {{0, K::kByte, 1}, {1, K::kInt, 1}, {2, K::kInt, 1}, {3, K::kByte, 1}}}},
      {0},
      {3}};
}

/// The same in codes of eight bits: int8 weights per channel, an int32 bias.
inline GraphSpec QuantizedConvGraph() {
  GraphSpec graph = ConvGraph();
  graph.tensors[0] = {"x", TensorType::kInt8, {1, 2, 2, 2}, {}, {0.5F}, {-3}};
  graph.tensors[1] = {"w", TensorType::kInt8, {2, 1, 1, 2}, {1, 2, 3, 4}, {1.0F, 0.5F}, {0, 0}};
  graph.tensors[2] = {"b",   TensorType::kInt32, {2}, BytesOf<int32_t>({-2, -8}), {0.5F, 0.25F},
                      {0, 0}};
  graph.tensors[3] = {"y", TensorType::kInt8, {1, 2, 2, 2}, {}, {0.25F}, {-10}};
  return graph;
}

/// y = x * dense(w): a matrix [[0, 7], [5, 0]] of which the file has two numbers.
inline GraphSpec SparseGraph() {
  TensorSpec sparse{"w", TensorType::kFloat32, {2, 2}, BytesOf<float>({7, 5})};
  sparse.segments = {0, 1, 2};
  sparse.indices = {1, 0};
  return {{{"x", TensorType::kFloat32, {1, 2}},
           sparse,
           {"dense", TensorType::kFloat32, {2, 2}},
           {"y", TensorType::kFloat32, {1, 2}}},
          {{124, {1}, {2}}, {9, {0, 2, -1}, {3}}},
          {0},
          {3}};
}

/// Images through several operators: SPLIT, PAD, STRIDED_SLICE, MEAN, RESHAPE, SOFTMAX.
inline GraphSpec MixedGraph() {
  using K = OptionSpec;
  return {{{"x", TensorType::kFloat32, {1, 4, 4, 4}},
           {"axis", TensorType::kInt32, {}, BytesOf<int32_t>({3})},
           {"left", TensorType::kFloat32, {1, 4, 4, 2}},
           {"right", TensorType::kFloat32, {1, 4, 4, 2}},
           {"pads", TensorType::kInt32, {4, 2}, BytesOf<int32_t>({0, 0, 1, 1, 1, 1, 0, 0})},
           {"padded", TensorType::kFloat32, {1, 6, 6, 2}},
           {"begin", TensorType::kInt32, {4}, BytesOf<int32_t>({0, 0, 0, 0})},
           {"end", TensorType::kInt32, {4}, BytesOf<int32_t>({1, 4, 4, 2})},
           {"steps", TensorType::kInt32, {4}, BytesOf<int32_t>({1, 1, 1, 1})},
           {"part", TensorType::kFloat32, {1, 4, 4, 2}},
           {"sum", TensorType::kFloat32, {1, 4, 4, 2}},
           {"axes", TensorType::kInt32, {2}, BytesOf<int32_t>({1, 2})},
           {"mean", TensorType::kFloat32, {1, 2}},
           {"shape", TensorType::kInt32, {1}, BytesOf<int32_t>({2})},
           {"flat", TensorType::kFloat32, {2}},
           {"y", TensorType::kFloat32, {2}}},
          {{49, {1, 0}, {2, 3}, {{0, K::kInt, 2}}},
           {34, {2, 4}, {5}},
           {45, {5, 6, 7, 8}, {9}, {{0, K::kInt, 0}}},
           {0, {9, 3}, {10}, {{0, K::kByte, 3}}},
           {40, {10, 11}, {12}, {{0, K::kByte, 0}}},
           {22, {12, 13}, {14}, {{0, K::kInts, 0, {2}}}},
           {25, {14}, {15}, {{0, K::kFloat, 1}}}},
          {0},
          {15}};
}

/// y = c ? x + w : x, in bodies that get w as a constant.
inline std::vector<GraphSpec> BranchGraphs() {
  using K = OptionSpec;
  const TensorSpec x{"x", TensorType::kFloat32, {2}};
  const TensorSpec y{"y", TensorType::kFloat32, {2}};
  const GraphSpec main{{{"c", TensorType::kBool, {1}},
                        x,
                        {"w", TensorType::kFloat32, {2}, BytesOf<float>({10, 20})},
                        y},
                       {{118, {0, 1, 2}, {3}, {{0, K::kInt, 1}, {1, K::kInt, 2}}}},
                       {0, 1},
                       {3}};
  const TensorSpec w{"w", TensorType::kFloat32, {2}};
  const GraphSpec then{{x, w, {"sum", TensorType::kFloat32, {2}}}, {{0, {0, 1}, {2}}}, {0, 1}, {2}};
  const GraphSpec otherwise{{x, w}, {}, {0, 1}, {0}};
  return {main, then, otherwise};
}

}  // namespace requant::tflite
