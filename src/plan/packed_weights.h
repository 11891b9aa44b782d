// Weights in the forms of kernels, each form held once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/aligned_buffer.h"
#include "ir/graph.h"
#include "kernels/conv/table.h"
#include "kernels/dwconv/table.h"
#include "kernels/matmul_nbits/table.h"

namespace requant {

/// Packed weights that several plans can hold. Nobody writes to them once they are packed.
using SharedWeights = std::shared_ptr<AlignedBuffer>;

/// Returns memory with the bytes of `made`: that of a living plan of any model if one holds them,
/// else `made` itself. So two sessions of a model, or a float model and its quantized form, hold
/// the layers they have in common once. Buffers of less than 1 KiB stay with their plan. Plans are
/// made and destroyed on one thread at a time.
SharedWeights HoldOnce(AlignedBuffer made);

/// Weights of 16 bits as floats, for a row that does not take them as they are.
AlignedBuffer FloatsOf(const HalfWeights& weights);

/// Everything that a packed form depends on: the addresses of the weights and the values of all
/// else; the planner adds the name of the kernel's row. Equal texts mean equal packed bytes as long
/// as the weights at these addresses do not change.
struct PackingKey {
  explicit PackingKey(const ConvF32Weights& weights);
  explicit PackingKey(const DwConvF32Weights& weights);
  explicit PackingKey(const ConvQ8Weights& weights);
  explicit PackingKey(const DwConvQ8Weights& weights);
  explicit PackingKey(const MatMulNBitsWeights& weights);
  /// Adds a lean constant, whose bytes may have no address.
  void Add(const LeanBytes* constant) { AddAddress(constant); }

  std::string text;
  /// The addresses in the text, which identify weights while these live.
  std::vector<const void*> addresses;

 private:
  friend class KeyWriter;
  void AddAddress(const void* address);
};

/// The packed constants of one model. All plans for the model's shapes take packed weights from
/// here, so that a new shape packs nothing and the memory for weights does not grow with the number
/// of shapes.
class PackedWeights {
 public:
  /// Keeps the constants of `graph`, those of its bodies included, alive and unchanged. `around`:
  /// those of the model that the graph is a part of, or nullptr.
  explicit PackedWeights(const Graph& graph, std::shared_ptr<PackedWeights> around = nullptr)
      : around_(std::move(around)) {
    Register(graph);
  }

  /// The entry for a key, empty if nothing has been packed for it; nullptr if an address of the key
  /// is in no constant of the model, so that it does not identify weights.
  SharedWeights* Find(PackingKey key);

 private:
  struct Entry {
    uint64_t hash;
    std::string key;
    SharedWeights weights;
  };

  void Register(const Graph& graph);
  bool Has(const void* address) const;

  std::shared_ptr<PackedWeights> around_;
  std::vector<Tensor> constants_;
  std::vector<std::unique_ptr<Entry>> entries_;
};

}  // namespace requant
