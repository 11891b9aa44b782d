#include "quant/weights/blocks.h"

#include <algorithm>
#include <span>

#include "base/squares.h"
#include "quant/grid/block_grid.h"

namespace requant {
namespace {

/// Columns whose weights are read together: where rows lie behind one another, a line of the cache
/// holds 16 floats of as many columns.
constexpr int64_t kColumns = 16;

/// The weights of some columns in the rows of one block; zeros follow the last row.
class Tile {
 public:
  explicit Tile(int64_t block) : block_(block), weights_(static_cast<size_t>(kColumns * block)) {}

  /// Reads `rows` rows from `row` on of `columns` columns from `column` on.
  void Read(const Product& p, int64_t column, int64_t columns, int64_t row, int64_t rows) {
    if (rows < block_) std::fill(weights_.begin(), weights_.end(), 0.0F);
    for (int64_t k = 0; k < rows; ++k) {
      const float* from = p.weights + column * p.n_step + (row + k) * p.k_step;
      for (int64_t i = 0; i < columns; ++i) {
        weights_[static_cast<size_t>(i * block_ + k)] = from[i * p.n_step];
      }
    }
  }
  std::span<const float> Column(int64_t i) const {
    return std::span(weights_).subspan(static_cast<size_t>(i * block_),
                                       static_cast<size_t>(block_));
  }

 private:
  int64_t block_;
  std::vector<float> weights_;
};

/// The powers of all rows by the largest of them, and zeros up to `size`.
std::vector<float> RelativePower(const std::vector<double>& power, int64_t size) {
  std::vector<float> out;
  if (power.empty()) return out;
  const double largest = *std::max_element(power.begin(), power.end());
  if (!(largest > 0)) return out;
  out.resize(static_cast<size_t>(size));
  std::transform(power.begin(), power.end(), out.begin(),
                 [&](double x) { return static_cast<float>(x / largest); });
  return out;
}

}  // namespace

BlockedWeights RoundToBlocks(const Product& p, const WeightOnlyOptions& options,
                             const std::vector<double>& power) {
  BlockedWeights out;
  out.k = p.k;
  out.n = p.n;
  out.block = options.block;
  out.bits = options.bits;
  out.codes.resize(static_cast<size_t>(p.k * p.n));
  out.scales.resize(static_cast<size_t>(p.n * out.blocks()));
  out.zeros.resize(out.scales.size());
  Tile tile(out.block);
  BlockSearch search(out.bits, options.symmetric);
  std::vector<uint8_t> codes(static_cast<size_t>(out.block));
  const std::vector<float> relative = RelativePower(power, out.blocks() * out.block);
  for (int64_t column = 0; column < p.n; column += kColumns) {
    const int64_t columns = std::min(kColumns, p.n - column);
    for (int64_t row = 0; row < p.k; row += out.block) {
      const int64_t rows = std::min(out.block, p.k - row);
      tile.Read(p, column, columns, row, rows);
      std::span<const float> weighed;
      if (!relative.empty()) {
        weighed =
            std::span(relative).subspan(static_cast<size_t>(row), static_cast<size_t>(out.block));
      }
      for (int64_t i = 0; i < columns; ++i) {
        const BlockGrid grid = search.Find(tile.Column(i), weighed);
        const size_t at = out.BlockOf(column + i, row);
        out.scales[at] = grid.scale;
        out.zeros[at] = grid.zero;
        RoundToGrid(tile.Column(i), grid, out.bits, codes.data());
        std::copy_n(codes.begin(), rows, out.codes.begin() + (column + i) * p.k + row);
      }
    }
  }
  return out;
}

Tensor DequantizeCodes(const Product& p, const BlockedWeights& weights, bool symmetric) {
  const bool bytes = weights.bits == 8;
  const DType dtype =
      symmetric ? (bytes ? DType::kInt8 : DType::kInt4) : (bytes ? DType::kUint8 : DType::kUint4);
  Tensor codes(dtype, p.tensor->shape());
  auto* to = static_cast<uint8_t*>(codes.raw());
  const int zero = symmetric ? 1 << (weights.bits - 1) : 0;
  VisitInSquares(p.k, p.n, [&](int64_t k, int64_t column) {
    const int64_t at = column * p.n_step + k * p.k_step;
    const int code = weights.codes[static_cast<size_t>(column * p.k + k)] - zero;
    if (bytes) {
      to[at] = static_cast<uint8_t>(code);
    } else {
      to[at / 2] |= static_cast<uint8_t>((code & 15) << (at % 2 * 4));
    }
  });
  return codes;
}

namespace {

Shape ShapeOfBlocks(const Product& p, const BlockedWeights& weights) {
  Shape shape = p.tensor->shape();
  shape[static_cast<size_t>(p.axis)] = weights.blocks();
  return shape;
}

/// The place of a column's block among the scales of a DequantizeLinear.
int64_t PlaceOf(const Product& p, const BlockedWeights& weights, int64_t column, int64_t block) {
  return p.axis == 0 ? block * p.n + column : column * weights.blocks() + block;
}

/// Writes a code of few bits behind others without gaps.
void PutBits(uint8_t* to, int64_t index, int bits, int code) {
  const int64_t bit = index * bits;
  const int shifted = code << (bit % 8);
  to[bit / 8] |= static_cast<uint8_t>(shifted);
  if (bit % 8 + bits > 8) to[bit / 8 + 1] |= static_cast<uint8_t>(shifted >> 8);
}

/// Packs codes of `bits` bits without gaps from the lowest bits on into bytes that are 0.
void PackBits(const uint8_t* codes, int64_t count, int bits, uint8_t* to) {
  if (bits == 8) {
    std::copy_n(codes, count, to);
    return;
  }
  int64_t i = 0;
  if (bits == 4) {
    for (; i + 2 <= count; i += 2) to[i / 2] = static_cast<uint8_t>(codes[i] | codes[i + 1] << 4);
  }
  for (; i < count; ++i) PutBits(to, i, bits, codes[i]);
}

}  // namespace

Tensor DequantizeScales(const Product& p, const BlockedWeights& weights) {
  Tensor scales(DType::kFloat32, ShapeOfBlocks(p, weights));
  for (int64_t column = 0; column < p.n; ++column) {
    for (int64_t block = 0; block < weights.blocks(); ++block) {
      scales.data<float>()[PlaceOf(p, weights, column, block)] =
          weights.scales[static_cast<size_t>(column * weights.blocks() + block)];
    }
  }
  return scales;
}

Tensor DequantizeZeros(const Product& p, const BlockedWeights& weights) {
  const bool bytes = weights.bits == 8;
  Tensor zeros(bytes ? DType::kUint8 : DType::kUint4, ShapeOfBlocks(p, weights));
  auto* to = static_cast<uint8_t*>(zeros.raw());
  for (int64_t column = 0; column < p.n; ++column) {
    for (int64_t block = 0; block < weights.blocks(); ++block) {
      const int64_t at = PlaceOf(p, weights, column, block);
      const int zero = weights.zeros[static_cast<size_t>(column * weights.blocks() + block)];
      if (bytes) {
        to[at] = static_cast<uint8_t>(zero);
      } else {
        to[at / 2] |= static_cast<uint8_t>(zero << (at % 2 * 4));
      }
    }
  }
  return zeros;
}

Tensor PackedCodes(const BlockedWeights& weights) {
  const int64_t blob = weights.block * weights.bits / 8;
  const int64_t blocks = weights.blocks();
  Tensor codes(DType::kUint8, {weights.n, blocks, blob});
  for (int64_t column = 0; column < weights.n; ++column) {
    for (int64_t block = 0; block < blocks; ++block) {
      const int64_t first = block * weights.block;
      const int64_t rows = std::min(weights.block, weights.k - first);
      uint8_t* to = codes.data<uint8_t>() + (column * blocks + block) * blob;
      const uint8_t* from = weights.codes.data() + column * weights.k + first;
      PackBits(from, rows, weights.bits, to);
      // Codes behind the last row stand for 0.
      const int zero = weights.zeros[static_cast<size_t>(column * blocks + block)];
      for (int64_t i = rows; i < weights.block; ++i) PutBits(to, i, weights.bits, zero);
    }
  }
  return codes;
}

Tensor PackedScales(const BlockedWeights& weights) {
  Tensor scales(DType::kFloat32, {weights.n * weights.blocks()});
  std::copy(weights.scales.begin(), weights.scales.end(), scales.data<float>());
  return scales;
}

Tensor PackedZeros(const BlockedWeights& weights) {
  const int64_t bytes = (weights.blocks() * weights.bits + 7) / 8;
  Tensor zeros(DType::kUint8, {weights.n * bytes});
  for (int64_t column = 0; column < weights.n; ++column) {
    for (int64_t block = 0; block < weights.blocks(); ++block) {
      PutBits(zeros.data<uint8_t>() + column * bytes, block, weights.bits,
              weights.zeros[static_cast<size_t>(column * weights.blocks() + block)]);
    }
  }
  return zeros;
}

}  // namespace requant
