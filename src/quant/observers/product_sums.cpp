// A symmetric rank-k update in 16-bit integers. Vectors are collected in interleaved pairs, until
// there are enough that adding a tile's 32-bit sums to doubles costs little. Doubles add integers
// exactly while the sum stays below 2^53.
#include "quant/observers/product_sums.h"

#include <algorithm>
#include <cmath>

#include "base/checked_math.h"
#include "base/error.h"
#include "base/simd.h"

namespace requant {
namespace {

constexpr size_t kPanel = 4;
constexpr size_t kPairs = 64;  // pairs that are collected at most
/// Depthwise layers and other groups of few panels collect fewer pairs: there are many groups, and
/// the collected vectors should stay in the cache.
constexpr size_t kPairsOfFewPanels = 16, kFewPanels = 8;
constexpr float kLargestShort = 32767;
constexpr float kLargestExact = 2097152;  // 2^21: doubles add 2^11 products of 2^42 exactly

v128_t Load(const int16_t* at, size_t pair) { return wasm_v128_load(at + pair * 2 * kPanel); }

/// Adds four int32: to[0..3] += ints.
void AddInts(double* to, v128_t ints) {
  const v128_t high = wasm_i32x4_shuffle(ints, ints, 2, 3, 2, 3);
  wasm_v128_store(to, wasm_f64x2_add(wasm_v128_load(to), wasm_f64x2_convert_low_i32x4(ints)));
  wasm_v128_store(to + 2,
                  wasm_f64x2_add(wasm_v128_load(to + 2), wasm_f64x2_convert_low_i32x4(high)));
}

/// Computes the tiles of one panel of rows and kColumns (1 or 2) neighboring panels of columns. The
/// tiles lie side by side.
template <size_t kColumns>
void Tiles(const int16_t* rows, const int16_t* columns, size_t column_step, size_t pairs,
           double* to) {
  v128_t sums[4 * kColumns];
  RQ_UNROLL
  for (size_t i = 0; i < 4 * kColumns; ++i) sums[i] = wasm_i32x4_splat(0);
  for (size_t pair = 0; pair < pairs; ++pair) {
    const v128_t row = Load(rows, pair);
    const v128_t splats[4] = {
        wasm_i32x4_shuffle(row, row, 0, 0, 0, 0), wasm_i32x4_shuffle(row, row, 1, 1, 1, 1),
        wasm_i32x4_shuffle(row, row, 2, 2, 2, 2), wasm_i32x4_shuffle(row, row, 3, 3, 3, 3)};
    RQ_UNROLL
    for (size_t c = 0; c < kColumns; ++c) {
      const v128_t column = Load(columns + c * column_step, pair);
      RQ_UNROLL
      for (size_t r = 0; r < 4; ++r) {
        sums[c * 4 + r] = wasm_i32x4_add(sums[c * 4 + r], wasm_i32x4_dot_i16x8(splats[r], column));
      }
    }
  }
  RQ_UNROLL
  for (size_t i = 0; i < 4 * kColumns; ++i) AddInts(to + i * kPanel, sums[i]);
}

}  // namespace

ProductSums::ProductSums(int64_t groups, int64_t k, bool products)
    : groups_(static_cast<size_t>(groups)),
      k_(static_cast<size_t>(k)),
      panels_((k_ + kPanel - 1) / kPanel),
      capacity_(panels_ < kFewPanels ? kPairsOfFewPanels : kPairs),
      products_(products) {
  sums_.assign(CheckedMul(CheckedMul(groups_, panels_), kPanel), 0);
  tiles_.assign(products_ ? CheckedMul(groups_, TilesOfGroup()) : sums_.size(), 0);
  block_.resize(CheckedMul(sums_.size(), 2 * capacity_));
}

/// The offset of a tile. The upper triangle of tiles is stored row by row.
size_t ProductSums::TileAt(size_t row_panel, size_t column_panel) const {
  const size_t before = row_panel * panels_ - row_panel * (row_panel + 1) / 2;
  return (before + column_panel) * kPanel * kPanel;
}

size_t ProductSums::TilesOfGroup() const {
  return CheckedMul(CheckedMul(panels_, panels_ + 1) / 2, kPanel * kPanel);
}

void ProductSums::Add(std::span<float> quad, int count, float per_unit) {
  const v128_t factor = wasm_f32x4_splat(per_unit);
  v128_t largest = wasm_f32x4_splat(0);
  for (size_t i = 0; i < quad.size(); i += 4) {
    const v128_t x = wasm_f32x4_nearest(wasm_f32x4_mul(wasm_v128_load(&quad[i]), factor));
    largest = wasm_f32x4_pmax(largest, wasm_f32x4_abs(x));
    wasm_v128_store(&quad[i], x);
  }
  float by_vector[4];
  wasm_v128_store(by_vector, largest);
  count_ += count;
  for (size_t lane = 0; lane < 4; ++lane) {
    if (by_vector[lane] <= kLargestShort) {
      largest_ = std::max(largest_, by_vector[lane]);
      continue;
    }
    if (by_vector[lane] <= kLargestExact) {
      AddLarge(quad, lane);
    } else {
      --count_;
    }
    for (size_t i = lane; i < quad.size(); i += 4) quad[i] = 0;
  }
  for (size_t group = 0; group < groups_; ++group) {
    const float* from = quad.data() + group * k_ * 4;
    for (size_t i = 0; i < k_; ++i) {
      const v128_t ints = wasm_i32x4_trunc_sat_f32x4(wasm_v128_load(from + i * 4));
      const v128_t shorts = wasm_i16x8_narrow_i32x4(ints, ints);
      const size_t panel = group * panels_ + i / kPanel;
      int16_t* to = block_.data() + ((panel * capacity_ + waiting_) * kPanel + i % kPanel) * 2;
      wasm_v128_store32_lane(to, shorts, 0);
      wasm_v128_store32_lane(to + 2 * kPanel, shorts, 1);
    }
  }
  waiting_ += 2;
  if (waiting_ == capacity_) Settle();
}

/// Adds a vector with numbers that 16 bits cannot hold. This is rare, and not optimized.
void ProductSums::AddLarge(std::span<const float> quad, size_t lane) {
  for (size_t group = 0; group < groups_; ++group) {
    const float* x = quad.data() + group * k_ * 4 + lane;
    double* tiles = tiles_.data() + group * (products_ ? TilesOfGroup() : panels_ * kPanel);
    for (size_t i = 0; i < k_; ++i) {
      const auto a = static_cast<double>(x[i * 4]);
      sums_[group * panels_ * kPanel + i] += a;
      if (!products_) tiles[i] += a * a;
      for (size_t j = i; j < k_ && products_; ++j) {
        tiles[TileAt(i / kPanel, j / kPanel) + j % kPanel + 4 * (i % kPanel)] +=
            a * static_cast<double>(x[j * 4]);
      }
    }
  }
}

void ProductSums::Settle() const {
  if (waiting_ == 0) return;
  // The largest number of pairs whose products fit 32 bits.
  const double pair = 2 * static_cast<double>(largest_) * static_cast<double>(largest_);
  const size_t most =
      pair > 0 ? static_cast<size_t>(std::min(2147483647.0 / pair, 1e6)) : capacity_;
  for (size_t group = 0; group < groups_; ++group) {
    for (size_t first = 0; first < waiting_; first += most) {
      SettleGroup(group, first, std::min(most, waiting_ - first));
    }
  }
  waiting_ = 0;
  largest_ = 0;
}

void ProductSums::SettleGroup(size_t group, size_t first, size_t pairs) const {
  const size_t step = capacity_ * 2 * kPanel;
  const int16_t* block = block_.data() + group * panels_ * step + first * 2 * kPanel;
  double* tiles = tiles_.data() + group * (products_ ? TilesOfGroup() : panels_ * kPanel);
  const v128_t ones = wasm_i16x8_splat(1);
  for (size_t panel = 0; panel < panels_; ++panel) {
    const int16_t* rows = block + panel * step;
    v128_t sum = wasm_i32x4_splat(0);
    v128_t squares = wasm_i32x4_splat(0);
    for (size_t i = 0; i < pairs; ++i) {
      const v128_t x = Load(rows, i);
      sum = wasm_i32x4_add(sum, wasm_i32x4_dot_i16x8(x, ones));
      squares = wasm_i32x4_add(squares, wasm_i32x4_dot_i16x8(x, x));
    }
    AddInts(sums_.data() + (group * panels_ + panel) * kPanel, sum);
    if (!products_) {
      AddInts(tiles + panel * kPanel, squares);
      continue;
    }
    double* to = tiles + TileAt(panel, panel);
    size_t column = panel;
    for (; column + 2 <= panels_; column += 2, to += 2 * kPanel * kPanel) {
      Tiles<2>(rows, block + column * step, step, pairs, to);
    }
    if (column < panels_) Tiles<1>(rows, block + column * step, step, pairs, to);
  }
}

void ProductSums::Add(const ProductSums& other) {
  Settle();
  other.Settle();
  count_ += other.count_;
  for (size_t i = 0; i < sums_.size(); ++i) sums_[i] += other.sums_[i];
  for (size_t i = 0; i < tiles_.size(); ++i) tiles_[i] += other.tiles_[i];
}

void ProductSums::Fields(StateBytes& state) {
  Settle();
  const size_t sums = sums_.size();
  const size_t tiles = tiles_.size();
  state.Value(count_);
  state.List(sums_);
  state.List(tiles_);
  if (sums_.size() != sums || tiles_.size() != tiles) {
    Fail(ErrorCode::kInvalidArgument, "the calibration state is that of another network");
  }
}

double ProductSums::Sum(int64_t group, int64_t i) const {
  Settle();
  return sums_[static_cast<size_t>(group) * panels_ * kPanel + static_cast<size_t>(i)];
}

double ProductSums::Square(int64_t group, int64_t i) const {
  if (products_) return Product(group, i, i);
  Settle();
  return tiles_[static_cast<size_t>(group) * panels_ * kPanel + static_cast<size_t>(i)];
}

double ProductSums::Product(int64_t group, int64_t i, int64_t j) const {
  Settle();
  const auto row = static_cast<size_t>(std::min(i, j));
  const auto column = static_cast<size_t>(std::max(i, j));
  return tiles_[static_cast<size_t>(group) * TilesOfGroup() +
                TileAt(row / kPanel, column / kPanel) + row % kPanel * kPanel + column % kPanel];
}

}  // namespace requant
