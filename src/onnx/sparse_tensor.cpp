// SparseTensorProto (onnx/onnx.proto): the values that differ from zero, and their positions.
#include <algorithm>
#include <cstring>

#include "base/checked_math.h"
#include "base/error.h"
#include "base/str_cat.h"
#include "onnx/local_functions.h"
#include "onnx/read_parts.h"
#include "onnx/tags.h"

namespace requant {
namespace {

constexpr size_t kMostDenseBytes = size_t{1} << 30;

/// The position of an element from one or `rank` indices; the next index of the list is `at`.
/// Throws kInvalidModel.
int64_t PositionOf(const std::vector<int64_t>& indices, size_t& at, const Shape& limits,
                   const std::string& name) {
  int64_t position = 0;
  for (const int64_t limit : limits) {
    const int64_t index = indices[at++];
    if (index < 0 || index >= limit) {
      InvalidFile(
          StrCat("sparse tensor '", name, "' has an element at ", index, ", beyond ", limit),
          {.value = name});
    }
    position = position * limit + index;
  }
  return position;
}

}  // namespace

NamedTensor ReadSparseTensor(Message message, const SharedBytes& file,
                             const ExternalFiles& external, const std::string& what) {
  using Tag = onnx_tags::SparseTensorProto;
  std::optional<NamedTensor> values;
  std::optional<NamedTensor> indices;
  Shape dims;
  while (message.Next()) {
    switch (message.tag<Tag>()) {
      case Tag::kValues:
        values = ReadTensorMessage(message.Child(), file, external, what);
        break;
      case Tag::kIndices:
        indices = ReadTensorMessage(message.Child(), file, external, what);
        break;
      case Tag::kDims:
        message.AppendInt64(dims);
        break;
      default:
        message.Skip();
    }
  }
  const std::string name = values ? values->name : what;
  if (!values || !indices || indices->tensor.dtype() != DType::kInt64) {
    InvalidFile(StrCat("sparse tensor '", name, "' lacks values or indices of int64"),
                {.value = name});
  }
  const Tensor& given = values->tensor;
  const DType dtype = given.dtype();
  const int bits = DTypeBits(dtype);
  if (bits < 8) {
    Fail(ErrorCode::kUnsupported, StrCat("sparse tensor '", name, "' of ", DTypeName(dtype)),
         {.value = name, .hint = "save the model with dense tensors"});
  }
  const int64_t count = NumElements(dims);
  if (DTypeBytes(dtype, static_cast<size_t>(count)) > kMostDenseBytes) {
    Fail(ErrorCode::kOutOfMemory,
         StrCat("sparse tensor '", name, "' would take more than ", kMostDenseBytes,
                " bytes as a dense one"),
         {.value = name, .hint = "split it, or gather its rows before the product"});
  }
  const auto rank = static_cast<int64_t>(dims.size());
  const Shape& listed = indices->tensor.shape();
  const bool by_axis = listed == Shape{given.count(), rank};
  if (given.rank() != 1 || (!by_axis && listed != Shape{given.count()})) {
    InvalidFile(StrCat("sparse tensor '", name, "' has ", ShapeToString(given.shape()),
                       " values at indices of ", ShapeToString(listed)),
                {.value = name});
  }
  const Shape limits = by_axis ? dims : Shape{count};
  const std::vector<int64_t> list = indices->tensor.ToInts();
  Tensor dense(dtype, dims);
  const auto bytes = static_cast<size_t>(bits / 8);
  const auto* from = static_cast<const uint8_t*>(given.raw());
  auto* to = static_cast<uint8_t*>(dense.raw());
  int64_t last = -1;
  size_t at = 0;
  for (int64_t i = 0; i < given.count(); ++i) {
    const int64_t position = PositionOf(list, at, limits, name);
    if (position <= last) {
      InvalidFile(StrCat("the indices of sparse tensor '", name, "' do not ascend"),
                  {.value = name});
    }
    last = position;
    std::memcpy(to + static_cast<size_t>(position) * bytes, from + static_cast<size_t>(i) * bytes,
                bytes);
  }
  return {name, std::move(dense)};
}

}  // namespace requant
