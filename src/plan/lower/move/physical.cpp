#include "plan/lower/move/physical.h"

namespace requant {

std::vector<size_t> PhysicalOrder(size_t rank, Layout layout) {
  std::vector<size_t> order;
  const bool last = layout == Layout::kChannelsLast && rank >= 3 && rank <= 5;
  for (size_t axis = 0; axis < rank; ++axis) {
    if (!(last && axis == 1)) order.push_back(axis);
  }
  if (last) order.push_back(1);
  return order;
}

std::vector<ptrdiff_t> PhysicalStrides(const Shape& shape, Layout layout) {
  std::vector<ptrdiff_t> strides(shape.size());
  const std::vector<size_t> order = PhysicalOrder(shape.size(), layout);
  ptrdiff_t stride = 1;
  for (size_t i = order.size(); i-- > 0;) {
    strides[order[i]] = stride;
    stride *= static_cast<ptrdiff_t>(shape[order[i]]);
  }
  return strides;
}

StridedCopyParams CopyBetween(DType dtype, const Shape& shape, Layout from, Layout to) {
  StridedCopyParams params{};
  params.element_size = static_cast<size_t>(DTypeBits(dtype) / 8);
  params.rank = static_cast<int32_t>(shape.size());
  const std::vector<ptrdiff_t> in = PhysicalStrides(shape, from);
  const std::vector<ptrdiff_t> out = PhysicalStrides(shape, to);
  const std::vector<size_t> order = PhysicalOrder(shape.size(), to);
  for (size_t i = 0; i < order.size(); ++i) {
    params.dims[i] = static_cast<size_t>(shape[order[i]]);
    params.in_strides[i] = in[order[i]];
    params.out_strides[i] = out[order[i]];
  }
  return params;
}

}  // namespace requant
