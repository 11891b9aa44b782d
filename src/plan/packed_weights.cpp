#include "plan/packed_weights.h"

#include <algorithm>
#include <cstring>
#include <list>
#include <utility>
#include <variant>

#include "base/checked_math.h"
#include "tensor/half.h"

namespace requant {
namespace {

constexpr size_t kLeastShared = 1024;

/// FNV-1a on words of eight bytes; the bytes behind the last word are left to a comparison.
uint64_t HashOf(const void* bytes, size_t count) {
  uint64_t hash = 14695981039346656037u ^ count;
  for (size_t at = 0; at + 8 <= count; at += 8) {
    uint64_t word;
    std::memcpy(&word, static_cast<const uint8_t*>(bytes) + at, 8);
    hash = (hash ^ word) * 1099511628211u;
  }
  return hash;
}

struct Held {
  uint64_t hash;
  std::weak_ptr<AlignedBuffer> weights;
};

/// The packed weights of all living plans. Never destroyed, since plans may be destroyed after all
/// static objects.
std::list<Held>& AllHeld() {
  static auto& all = *new std::list<Held>;
  return all;
}

struct Release {
  void operator()(AlignedBuffer* weights) const {
    delete weights;
    std::erase_if(AllHeld(), [](const Held& held) { return held.weights.expired(); });
  }
};

}  // namespace

/// Writes numbers, addresses and arrays to a key.
class KeyWriter {
 public:
  explicit KeyWriter(PackingKey& key) : key_(key) {}

  void Bytes(const void* bytes, size_t count) {
    key_.text.append(static_cast<const char*>(bytes), count);
  }
  void Address(const void* address) { key_.AddAddress(address); }
  /// Adds `count` numbers of four bytes, or that there are none.
  void Numbers(const void* numbers, int32_t count) {
    key_.text.push_back(numbers ? 'n' : '-');
    if (numbers) Bytes(numbers, static_cast<size_t>(count) * 4);
  }
  void Layout(const ConvWeightsLayout& layout) {
    Bytes(&layout.out_c, 5 * sizeof(layout.out_c));
    Bytes(&layout.stride_o, 4 * sizeof(layout.stride_o));
  }
  void Layout(const DwConvWeightsLayout& layout) {
    Bytes(&layout.channels, 3 * sizeof(layout.channels));
    Bytes(&layout.stride_c, 3 * sizeof(layout.stride_c));
  }
  template <typename Weights>
  void Codes(const Weights& weights, int32_t channels) {
    Address(weights.data);
    Layout(weights.layout);
    const int32_t numbers[] = {weights.is_signed, weights.input_lo, weights.input_hi};
    Bytes(numbers, sizeof(numbers));
    Numbers(weights.zero_points, channels);
    Numbers(weights.bias, channels);
  }

 private:
  PackingKey& key_;
};

// KeyWriter::Layout writes the members from the first to the last of a type at once.
static_assert(offsetof(ConvWeightsLayout, groups) == 4 * sizeof(int32_t));
static_assert(offsetof(ConvWeightsLayout, stride_w) ==
              offsetof(ConvWeightsLayout, stride_o) + 3 * sizeof(int64_t));
static_assert(offsetof(DwConvWeightsLayout, kernel_w) == 2 * sizeof(int32_t));
static_assert(offsetof(DwConvWeightsLayout, stride_w) ==
              offsetof(DwConvWeightsLayout, stride_c) + 2 * sizeof(int64_t));

void PackingKey::AddAddress(const void* address) {
  text.append(reinterpret_cast<const char*>(&address), sizeof(address));
  if (address) addresses.push_back(address);
}

SharedWeights HoldOnce(AlignedBuffer made) {
  if (made.size() < kLeastShared) return std::make_shared<AlignedBuffer>(std::move(made));
  const uint64_t hash = HashOf(made.data(), made.size());
  SharedWeights own(new AlignedBuffer(std::move(made)), Release());
  for (const Held& held : AllHeld()) {
    if (held.hash != hash) continue;
    SharedWeights other = held.weights.lock();
    if (other && other->size() == own->size() &&
        std::memcmp(other->data(), own->data(), own->size()) == 0) {
      return other;
    }
  }
  AllHeld().push_back({hash, own});
  return own;
}

AlignedBuffer FloatsOf(const HalfWeights& weights) {
  AlignedBuffer floats(CheckedMul(weights.count, sizeof(float)));
  HalvesToFloats(weights.bfloat ? DType::kBfloat16 : DType::kFloat16, weights.data, weights.count,
                 reinterpret_cast<float*>(floats.data()));
  return floats;
}

PackingKey::PackingKey(const ConvF32Weights& weights) {
  KeyWriter writer(*this);
  writer.Address(weights.half.data ? weights.half.data : static_cast<const void*>(weights.data));
  writer.Layout(weights.layout);
  writer.Numbers(weights.bias, weights.layout.out_c);
}

PackingKey::PackingKey(const DwConvF32Weights& weights) {
  KeyWriter writer(*this);
  writer.Address(weights.half.data ? weights.half.data : static_cast<const void*>(weights.data));
  writer.Layout(weights.layout);
  writer.Numbers(weights.bias, weights.layout.channels);
}

PackingKey::PackingKey(const ConvQ8Weights& weights) {
  text.push_back(weights.dynamic ? 'd' : '-');
  KeyWriter(*this).Codes(weights, weights.layout.out_c);
}

PackingKey::PackingKey(const DwConvQ8Weights& weights) {
  KeyWriter(*this).Codes(weights, weights.layout.channels);
}

PackingKey::PackingKey(const MatMulNBitsWeights& weights) {
  KeyWriter writer(*this);
  writer.Address(weights.codes);
  writer.Address(weights.scales);
  writer.Address(weights.zero_points);
  writer.Bytes(&weights.k, sizeof(weights.k));
  writer.Bytes(&weights.n, sizeof(weights.n));
  writer.Bytes(&weights.block, sizeof(weights.block));
  writer.Bytes(&weights.bits, sizeof(weights.bits));
}

void PackedWeights::Register(const Graph& graph) {
  for (const auto& value : graph.values()) {
    if (value->constant.bytes() > 0) constants_.push_back(value->constant);
  }
  for (const auto& node : graph.nodes()) {
    for (const auto& [name, attribute] : node->attributes.entries()) {
      if (const auto* body = std::get_if<Subgraph>(&attribute)) Register(**body);
    }
  }
}

bool PackedWeights::Has(const void* address) const {
  return std::any_of(constants_.begin(), constants_.end(),
                     [address](const Tensor& tensor) { return tensor.Holds(address); });
}

SharedWeights* PackedWeights::Find(PackingKey key) {
  if (SharedWeights* entry = around_ ? around_->Find(key) : nullptr) return entry;
  const uint64_t hash = HashOf(key.text.data(), key.text.size());
  for (const auto& entry : entries_) {
    if (entry->hash == hash && entry->key == key.text) return &entry->weights;
  }
  for (const void* address : key.addresses) {
    if (!Has(address)) return nullptr;
  }
  entries_.push_back(std::make_unique<Entry>(Entry{hash, std::move(key.text), nullptr}));
  return &entries_.back()->weights;
}

}  // namespace requant
