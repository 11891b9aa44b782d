#pragma once
// com.microsoft::MatMulNBits: weights of few bits, in blocks along k that share a scale.
#include <cstdint>
#include <memory>
#include <vector>

#include "ir/graph.h"

namespace requant {

/// B is [n, blocks, block * bits / 8] bytes, scales [n * blocks], zero points (optional) packed as
/// B or floats: ONNX Runtime docs/ContribOperators.md#com.microsoft.MatMulNBits.
struct PackedForm {
  int64_t k, n, bits, block;
  int64_t blocks() const { return (k + block - 1) / block; }
};

/// Codes, scales and zero points of a form. `zeros` is null where they are left out or floats.
/// The constructor throws kShapeMismatch when sizes do not fit; the tensors must outlive it.
struct BlockCodes {
  PackedForm form;
  const Tensor& codes;
  std::vector<float> scales;  // [n][blocks]
  const Tensor* zeros;        // uint8

  BlockCodes(const PackedForm& form, const Tensor& codes, const Tensor& scales,
             const Tensor* zeros);
  int Code(int64_t n, int64_t k) const {
    return Field(codes, n * form.blocks() + k / form.block, (form.block * form.bits + 7) / 8,
                 k % form.block);
  }
  int Zero(int64_t n, int64_t block) const {
    if (zeros == nullptr) return 1 << (form.bits - 1);
    return Field(*zeros, n, (form.blocks() * form.bits + 7) / 8, block);
  }

 private:
  /// Code i of a run of bytes. Codes of 3, 5, 6 and 7 bits lie across bytes.
  int Field(const Tensor& tensor, int64_t run, int64_t run_bytes, int64_t i) const {
    const uint8_t* bytes = tensor.data<uint8_t>() + run * run_bytes;
    const int64_t bit = i * form.bits;
    int word = bytes[bit / 8];
    if (bit % 8 + form.bits > 8) word |= bytes[bit / 8 + 1] << 8;
    return (word >> (bit % 8)) & ((1 << form.bits) - 1);
  }
};

/// g_idx: the block whose scale and zero point each of the k rows has. Throws when it names others.
std::vector<int64_t> GroupsOf(const Tensor& indices, const PackedForm& form);

/// The form in the attributes of MatMulNBits or UnpackBits; throws for forms that do not exist.
PackedForm PackedFormOf(const AttributeMap& attributes);
/// Whether the attributes allow eight bits on the left: accuracy_level 4. The other levels (none,
/// float32, half floats) compute with floats.
bool TakesInt8Activations(const AttributeMap& attributes);
/// Whether the kernels can multiply with these weights as they are packed, bias aside: 4 bits, or 8
/// with floats on the left; constant, blocks a power of two from 16 on, zero points packed or left
/// out, no g_idx. Throws when sizes do not fit.
bool IsPackedProduct(const Node& node);
/// Products of that kind which stand for one of 2 to 8 bits, with g_idx or without it. None where
/// weights, scales, zero points or g_idx are not constant, or zero points are floats, or blocks are
/// no power of two from 16 on: UnpackBits turns those into floats.
std::unique_ptr<Graph> RepackedProduct(const Node& node);

}  // namespace requant
