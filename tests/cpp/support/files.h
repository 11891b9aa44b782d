#pragma once

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "onnx/read.h"

namespace requant::testing {

inline std::vector<uint8_t> ReadBytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot open " + path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

inline SharedBytes Share(std::vector<uint8_t> bytes) {
  auto owner = std::make_shared<std::vector<uint8_t>>(std::move(bytes));
  return {owner, {owner->data(), owner->size()}};
}

inline Graph ReadModelFile(const std::string& path) { return ReadOnnx(Share(ReadBytes(path))); }

/// Whether inputs or outputs are sequences or optional values. ONNX records these in files that
/// only tests/node/conformance.mjs reads.
inline bool HasContainers(const Graph& graph) {
  const auto is_one = [](const Value* value) {
    return static_cast<uint8_t>(value->type.dtype) >= kOptionalBit;
  };
  return std::any_of(graph.inputs().begin(), graph.inputs().end(), is_one) ||
         std::any_of(graph.outputs().begin(), graph.outputs().end(), is_one);
}

/// Images of an IDX3 file (16 header bytes, big-endian sizes) as float tensors [1, 1, h, w] in [0,
/// 1].
inline std::vector<Tensor> ReadIdxImages(const std::string& path, size_t count) {
  const std::vector<uint8_t> bytes = ReadBytes(path);
  const auto size = [&bytes](size_t at) {
    return (int64_t{bytes[at]} << 24) | (bytes[at + 1] << 16) | (bytes[at + 2] << 8) |
           bytes[at + 3];
  };
  const int64_t height = size(8);
  const int64_t width = size(12);
  std::vector<Tensor> images;
  for (size_t i = 0; i < count; ++i) {
    Tensor image(DType::kFloat32, {1, 1, height, width});
    for (int64_t p = 0; p < height * width; ++p) {
      image.data<float>()[p] =
          bytes[16 + i * static_cast<size_t>(height * width) + static_cast<size_t>(p)] / 255.0F;
    }
    images.push_back(std::move(image));
  }
  return images;
}

}  // namespace requant::testing
