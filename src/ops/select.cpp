#include "ops/select.h"

#include <cstring>

#include "base/checked_math.h"
#include "base/error.h"
#include "base/str_cat.h"

namespace requant {
namespace {

struct Selection {
  const std::vector<std::vector<int64_t>>& indices;
  std::vector<size_t> in_bytes;   // of one step along each axis of the input
  std::vector<size_t> out_bytes;  // the same of the output
  size_t whole_from;              // the axes from here on are copied as they are
  size_t element;
  const uint8_t* fill;
};

void Fill(const Selection& s, uint8_t* out, size_t bytes) {
  if (s.fill == nullptr) return;  // fresh tensors are zero
  for (size_t i = 0; i < bytes; i += s.element) std::memcpy(out + i, s.fill, s.element);
}

void SelectAxis(const Selection& s, size_t axis, const uint8_t* source, uint8_t* out) {
  if (axis == s.indices.size()) {
    std::memcpy(out, source, s.element);
    return;
  }
  const std::vector<int64_t>& list = s.indices[axis];
  if (axis == s.whole_from) {
    const size_t bytes = list.size() * s.in_bytes[axis];
    if (bytes > 0) std::memcpy(out, source, bytes);
    return;
  }
  const size_t step = s.out_bytes[axis];
  const bool last = axis + 1 == s.indices.size();
  for (const int64_t index : list) {
    if (index < 0) {
      Fill(s, out, step);
    } else {
      const uint8_t* from = source + static_cast<size_t>(index) * s.in_bytes[axis];
      if (last) {
        std::memcpy(out, from, s.element);
      } else {
        SelectAxis(s, axis + 1, from, out);
      }
    }
    out += step;
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

void PermuteAxis(const Shape& shape, const std::vector<size_t>& steps, size_t element, size_t axis,
                 const uint8_t* source, uint8_t*& out) {
  const bool last = axis + 1 == shape.size();
  for (int64_t i = 0; i < shape[axis]; ++i) {
    if (last) {
      std::memcpy(out, source, element);
      out += element;
    } else {
      PermuteAxis(shape, steps, element, axis + 1, source, out);
    }
    source += steps[axis];
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
  const size_t element = ElementBytes(input.dtype());
  Tensor out(input.dtype(), shape);
  if (out.count() == 0) return out;
  size_t whole_from = indices.size();
  while (whole_from > 0 &&
         IsIdentity(indices[whole_from - 1], input.dim(static_cast<int64_t>(whole_from) - 1))) {
    --whole_from;
  }
  const Selection selection{
      indices, ByteStrides(input.shape(), element), ByteStrides(shape, element), whole_from,
      element, static_cast<const uint8_t*>(fill)};
  SelectAxis(selection, 0, static_cast<const uint8_t*>(input.raw()),
             static_cast<uint8_t*>(out.raw()));
  return out;
}

Tensor Permute(const Tensor& input, const std::vector<int64_t>& perm) {
  const size_t element = ElementBytes(input.dtype());
  const std::vector<size_t> in_steps = ByteStrides(input.shape(), element);
  Shape shape;
  std::vector<size_t> steps;
  for (const int64_t axis : perm) {
    shape.push_back(input.dim(axis));
    steps.push_back(in_steps[static_cast<size_t>(axis)]);
  }
  Tensor out(input.dtype(), shape);
  if (out.count() == 0) return out;
  auto* to = static_cast<uint8_t*>(out.raw());
  if (shape.empty()) {
    std::memcpy(to, input.raw(), element);
  } else {
    PermuteAxis(shape, steps, element, 0, static_cast<const uint8_t*>(input.raw()), to);
  }
  return out;
}

}  // namespace requant
