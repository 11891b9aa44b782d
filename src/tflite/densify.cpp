// Sparse tensors: the format of TACO, dimension by dimension, with blocks behind the dimensions
// (schema.fbs, SparsityParameters; Kjolstad et al., "The Tensor Algebra Compiler", 2017).
#include "base/checked_math.h"
#include "base/error.h"
#include "base/late_text.h"
#include "base/str_cat.h"
#include "tflite/file.h"

namespace requant::tflite {
namespace {

constexpr size_t kMostDenseBytes = size_t{1} << 30;

struct Level {
  bool dense = true;
  int64_t size = 0;               // of a dense level
  std::vector<int64_t> segments;  // of a sparse level: where the elements of each parent begin
  std::vector<int64_t> indices;
};

template <typename T>
std::vector<int64_t> Widened(const TableView& table) {
  const std::vector<T> values = table.List<T>(field::SparseIndexVector::kValues);
  return {values.begin(), values.end()};
}

std::vector<int64_t> ReadIndices(uint8_t type, const TableView& table) {
  switch (static_cast<SparseIndexType>(type)) {
    case SparseIndexType::kInt32:
      return Widened<int32_t>(table);
    case SparseIndexType::kUint16:
      return Widened<uint16_t>(table);
    case SparseIndexType::kUint8:
      return Widened<uint8_t>(table);
    default:
      return {};
  }
}

class Walk {
 public:
  Walk(const std::string& name, std::vector<Level> levels, std::vector<int64_t> order,
       std::vector<int64_t> block_map, std::vector<int64_t> block_sizes, const Shape& shape,
       size_t element, std::span<const uint8_t> values, uint8_t* out)
      : name_(name),
        levels_(std::move(levels)),
        order_(std::move(order)),
        block_map_(std::move(block_map)),
        block_sizes_(std::move(block_sizes)),
        shape_(shape),
        element_(element),
        values_(values),
        out_(out),
        at_(levels_.size()) {}

  /// Visits the elements of level `depth` whose parent is element `parent` of the level before.
  void Visit(size_t depth, int64_t parent) {
    if (depth == levels_.size()) {
      Store(parent);
      return;
    }
    const Level& level = levels_[depth];
    if (level.dense) {
      for (int64_t i = 0; i < level.size; ++i) {
        at_[depth] = i;
        Visit(depth + 1, CheckedAdd64(CheckedMul64(parent, level.size), i));
      }
      return;
    }
    const auto p = static_cast<size_t>(parent);
    if (p + 1 >= level.segments.size()) Invalid();
    const int64_t begin = level.segments[p];
    const int64_t end = level.segments[p + 1];
    if (begin < 0 || end < begin || end > static_cast<int64_t>(level.indices.size())) Invalid();
    for (int64_t i = begin; i < end; ++i) {
      at_[depth] = level.indices[static_cast<size_t>(i)];
      Visit(depth + 1, i);
    }
  }

  [[noreturn]] void Invalid() const {
    InvalidTflite(StrCat(RQ_LATE_TEXT("the positions of sparse tensor '"), name_,
                         RQ_LATE_TEXT("' do not fit its shape")),
                  {.value = name_});
  }

 private:
  void Store(int64_t index) {
    const size_t rank = shape_.size();
    Shape position(rank, 0);
    for (size_t level = 0; level < order_.size(); ++level) {
      const auto axis = static_cast<size_t>(order_[level]);
      if (axis < rank) position[axis] += at_[level] * BlockOf(axis);
    }
    for (size_t level = 0; level < order_.size(); ++level) {
      const auto axis = static_cast<size_t>(order_[level]);
      if (axis >= rank) position[static_cast<size_t>(block_map_[axis - rank])] += at_[level];
    }
    int64_t to = 0;
    for (size_t axis = 0; axis < rank; ++axis) {
      if (position[axis] < 0 || position[axis] >= shape_[axis]) Invalid();
      to = to * shape_[axis] + position[axis];
    }
    const auto from = static_cast<size_t>(index);
    if (from >= values_.size() / element_) Invalid();
    std::memcpy(out_ + static_cast<size_t>(to) * element_, values_.data() + from * element_,
                element_);
  }

  int64_t BlockOf(size_t axis) const {
    for (size_t i = 0; i < block_map_.size(); ++i) {
      if (block_map_[i] == static_cast<int64_t>(axis)) return block_sizes_[i];
    }
    return 1;
  }

  const std::string& name_;
  std::vector<Level> levels_;
  std::vector<int64_t> order_;
  std::vector<int64_t> block_map_;
  std::vector<int64_t> block_sizes_;
  const Shape& shape_;
  size_t element_;
  std::span<const uint8_t> values_;
  uint8_t* out_;
  std::vector<int64_t> at_;
};

}  // namespace

Tensor Densify(const TableView& sparsity, const std::string& name, DType dtype, const Shape& shape,
               std::span<const uint8_t> values) {
  using Field = field::DimensionMetadata;
  const int bits = DTypeBits(dtype);
  if (bits < 8) {
    Fail(ErrorCode::kUnsupported,
         StrCat(RQ_LATE_TEXT("sparse tensor '"), name, RQ_LATE_TEXT("' of "), DTypeName(dtype)),
         {.value = name, .hint = RQ_LATE_TEXT("convert the model without sparsity")});
  }
  const auto order = sparsity.List<int32_t>(field::SparsityParameters::kTraversalOrder);
  const auto blocks = sparsity.List<int32_t>(field::SparsityParameters::kBlockMap);
  const size_t rank = shape.size();
  std::vector<Level> levels;
  std::vector<int64_t> block_sizes(blocks.size(), 1);
  const std::vector<TableView> tables = sparsity.Children(field::SparsityParameters::kDimMetadata);
  const auto invalid = [&name](bool wrong) {
    if (!wrong) return;
    InvalidTflite(StrCat(RQ_LATE_TEXT("the sparsity of tensor '"), name,
                         RQ_LATE_TEXT("' does not fit its shape")),
                  {.value = name});
  };
  invalid(order.size() != rank + blocks.size() || tables.size() != order.size());
  std::vector<bool> seen(order.size());
  for (const int32_t axis : blocks) invalid(axis < 0 || static_cast<size_t>(axis) >= rank);
  for (size_t i = 0; i < order.size(); ++i) {
    const auto axis = static_cast<size_t>(order[i]);
    invalid(axis >= order.size() || seen[axis]);
    seen[axis] = true;
    const TableView& table = tables[i];
    Level level;
    level.dense =
        static_cast<DimensionType>(table.Get<int8_t>(Field::kFormat, 0)) == DimensionType::kDense;
    level.size = table.Get<int32_t>(Field::kDenseSize, 0);
    // A level has no more elements than the tensor has in that dimension.
    invalid(level.dense && (level.size < 0 || (axis < rank && level.size > shape[axis])));
    if (!level.dense) {
      level.segments = ReadIndices(table.Get<uint8_t>(Field::kArraySegmentsType, 0),
                                   table.Child(Field::kArraySegments));
      level.indices = ReadIndices(table.Get<uint8_t>(Field::kArrayIndicesType, 0),
                                  table.Child(Field::kArrayIndices));
    }
    if (axis >= rank) {
      invalid(!level.dense || level.size < 1 ||
              level.size > shape[static_cast<size_t>(blocks[axis - rank])]);
      block_sizes[axis - rank] = level.size;
    }
    levels.push_back(std::move(level));
  }
  for (size_t i = 0; i < order.size(); ++i) {
    const auto axis = static_cast<size_t>(order[i]);
    if (axis >= rank || !levels[i].dense) continue;
    int64_t size = levels[i].size;
    for (size_t b = 0; b < blocks.size(); ++b) {
      if (static_cast<size_t>(blocks[b]) == axis) size = CheckedMul64(size, block_sizes[b]);
    }
    invalid(size != shape[axis]);
  }
  if (DTypeBytes(dtype, static_cast<size_t>(NumElements(shape))) > kMostDenseBytes) {
    Fail(ErrorCode::kOutOfMemory,
         StrCat(RQ_LATE_TEXT("sparse tensor '"), name, RQ_LATE_TEXT("' would take more than "),
                kMostDenseBytes, RQ_LATE_TEXT(" bytes as a dense one")),
         {.value = name, .hint = RQ_LATE_TEXT("convert the model without sparsity")});
  }
  Tensor out(dtype, shape);
  Walk walk(name, std::move(levels), {order.begin(), order.end()}, {blocks.begin(), blocks.end()},
            std::move(block_sizes), shape, static_cast<size_t>(bits / 8), values,
            static_cast<uint8_t*>(out.raw()));
  walk.Visit(0, 0);
  return out;
}

}  // namespace requant::tflite
