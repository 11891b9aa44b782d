#include "ops/shape/select.h"

#include <algorithm>
#include <cstring>

#include "base/checked_math.h"
#include "base/error.h"
#include "base/str_cat.h"

namespace requant {
namespace {

struct Selection {
  const std::vector<std::vector<int64_t>>& indices;
  std::vector<size_t> in_bytes;   // bytes of one step along each axis of the input
  std::vector<size_t> out_bytes;  // bytes of one step along each axis of the output
  size_t whole_from;              // axes from here on are copied whole
  size_t element;
  const uint8_t* fill;
};

void Fill(const Selection& s, uint8_t* out, size_t bytes) {
  if (s.fill == nullptr) return;  // new tensors are zero
  for (size_t i = 0; i < bytes; i += s.element) std::memcpy(out + i, s.fill, s.element);
}

/// Whether all indices are the same, as where Expand repeats an element.
bool IsRepeated(const int64_t* list, size_t count) {
  for (size_t i = 1; i < count; ++i) {
    if (list[i] != list[0]) return false;
  }
  return true;
}

/// Copies from `axis` on, which is below whole_from.
void SelectAxis(const Selection& s, size_t axis, const uint8_t* source, uint8_t* out) {
  // Pointers avoid calls of operator[], which would take most of the time.
  const int64_t* list = s.indices[axis].data();
  const size_t count = s.indices[axis].size();
  const size_t step = s.out_bytes[axis];
  const bool whole = axis + 1 >= s.whole_from;  // whether each index names something copied whole
  if (whole && step == 4 && count > 1 && list[0] >= 0 && IsRepeated(list, count)) {
    uint32_t element = 0;
    std::memcpy(&element, source + static_cast<size_t>(list[0]) * s.in_bytes[axis], 4);
    auto* to = reinterpret_cast<uint32_t*>(out);  // aligned, as each element of the output is
    for (size_t i = 0; i < count; ++i) to[i] = element;
    return;
  }
  for (size_t i = 0; i < count;) {
    const int64_t index = list[i];
    size_t run = 1;  // ascending indices whose elements are copied at once
    if (index < 0) {
      Fill(s, out, step);
    } else {
      const uint8_t* from = source + static_cast<size_t>(index) * s.in_bytes[axis];
      if (whole) {
        while (i + run < count && list[i + run] == index + static_cast<int64_t>(run)) ++run;
        // A copy of constant size is two instructions, any other a call.
        if (run * step == 4) {
          std::memcpy(out, from, 4);
        } else {
          std::memcpy(out, from, run * step);
        }
      } else {
        SelectAxis(s, axis + 1, from, out);
      }
    }
    out += run * step;
    i += run;
  }
}

bool IsIdentity(const std::vector<int64_t>& list, int64_t dim) {
  if (static_cast<int64_t>(list.size()) != dim) return false;
  for (size_t i = 0; i < list.size(); ++i) {
    if (list[i] != static_cast<int64_t>(i)) return false;
  }
  return true;
}

std::vector<size_t> ByteStrides(const Shape& shape, size_t element) {
  std::vector<size_t> out;
  for (const int64_t stride : RowMajorStrides(shape)) {
    out.push_back(static_cast<size_t>(stride) * element);
  }
  return out;
}

/// SelectByAxis into a tensor of zeros, or into any where no entry is -1.
void Select(const Tensor& input, const std::vector<std::vector<int64_t>>& indices, const void* fill,
            Tensor& out) {
  const size_t element = ElementBytes(input.dtype());
  if (out.count() == 0) return;
  size_t whole_from = indices.size();
  while (whole_from > 0 &&
         IsIdentity(indices[whole_from - 1], input.dim(static_cast<int64_t>(whole_from) - 1))) {
    --whole_from;
  }
  const Selection selection{
      indices, ByteStrides(input.shape(), element), ByteStrides(out.shape(), element), whole_from,
      element, static_cast<const uint8_t*>(fill)};
  const auto* from = static_cast<const uint8_t*>(input.raw());
  auto* to = static_cast<uint8_t*>(out.raw());
  if (whole_from == 0) {
    std::memcpy(to, from, out.bytes());
  } else {
    SelectAxis(selection, 0, from, to);
  }
}

/// An axis of a copy between two orders: its size, and the bytes of one step in either.
struct CopiedAxis {
  int64_t size;
  size_t in_bytes, out_bytes;
};

void CopyAxes(const CopiedAxis* axis, const CopiedAxis* innermost, size_t element,
              const uint8_t* from, uint8_t* to) {
  for (int64_t i = 0; i < axis->size; ++i) {
    if (axis != innermost) {
      CopyAxes(axis + 1, innermost, element, from, to);
    } else if (element == 4) {
      std::memcpy(to, from, 4);  // a constant size takes two instructions instead of a call
    } else {
      std::memcpy(to, from, element);
    }
    from += axis->in_bytes;
    to += axis->out_bytes;
  }
}

}  // namespace

size_t ElementBytes(DType dtype) {
  const int bits = DTypeBits(dtype);
  if (bits < 8) {
    Fail(ErrorCode::kUnsupported, StrCat(DTypeName(dtype), " elements cannot be moved one by one"),
         {.hint = "dequantize or cast the tensor first"});
  }
  return static_cast<size_t>(bits) / 8;
}

Shape RowMajorStrides(const Shape& shape) {
  Shape strides(shape.size(), 1);
  for (size_t axis = shape.size(); axis-- > 1;) {
    strides[axis - 1] = CheckedMul64(strides[axis], shape[axis]);
  }
  return strides;
}

int64_t ResolveIndex(int64_t index, int64_t dim, const char* op) {
  if (index < -dim || index >= dim) {
    Fail(ErrorCode::kInvalidArgument,
         StrCat("index ", index, " of ", op, " is outside of a dimension of ", dim));
  }
  return index < 0 ? index + dim : index;
}

std::vector<int64_t> Sequence(int64_t count, int64_t start, int64_t step) {
  std::vector<int64_t> out(static_cast<size_t>(NumElements({count})));
  for (size_t i = 0; i < out.size(); ++i) out[i] = start + static_cast<int64_t>(i) * step;
  return out;
}

Tensor SelectByAxis(const Tensor& input, const std::vector<std::vector<int64_t>>& indices,
                    const void* fill) {
  Shape shape;
  for (const std::vector<int64_t>& list : indices) {
    shape.push_back(static_cast<int64_t>(list.size()));
  }
  Tensor out(input.dtype(), shape);
  Select(input, indices, fill, out);
  return out;
}

void SelectInto(const Tensor& input, const std::vector<std::vector<int64_t>>& indices,
                Tensor& out) {
  Select(input, indices, nullptr, out);
}

Tensor Permute(const Tensor& input, const std::vector<int64_t>& perm) {
  const size_t element = ElementBytes(input.dtype());
  Shape shape;
  for (const int64_t axis : perm) shape.push_back(input.dim(axis));
  Tensor out(input.dtype(), shape);
  if (out.count() == 0) return out;
  const std::vector<size_t> in_bytes = ByteStrides(input.shape(), element);
  const std::vector<size_t> out_bytes = ByteStrides(shape, element);
  // The copy goes in the order of the output, or of the input where that has the longer rows.
  const bool by_input = !shape.empty() && shape.back() < input.shape().back();
  std::vector<CopiedAxis> axes(std::max<size_t>(shape.size(), 1), {1, 0, 0});
  for (size_t i = 0; i < shape.size(); ++i) {
    const auto from = static_cast<size_t>(perm[i]);
    axes[by_input ? from : i] = {shape[i], in_bytes[from], out_bytes[i]};
  }
  CopyAxes(axes.data(), &axes.back(), element, static_cast<const uint8_t*>(input.raw()),
           static_cast<uint8_t*>(out.raw()));
  return out;
}

}  // namespace requant
