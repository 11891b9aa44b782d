#include "quant/sim/product_backward.h"

#include <algorithm>

#include "quant/sim/gemm.h"
#include "quant/sim/gradients.h"
#include "tensor/shape.h"

namespace requant {
namespace {

/// Layout of a matrix of a batch, transposed or not.
struct Layout {
  int64_t rows, columns;
  int64_t row_step, column_step;

  MatrixView At(const float* data) const { return {data, row_step, column_step}; }
  Layout Transposed() const { return {columns, rows, column_step, row_step}; }
};

Layout Plain(int64_t rows, int64_t columns) { return {rows, columns, columns, 1}; }

/// Computes to += a * b. One of the steps of `to` is 1.
void AddProduct(const Layout& a, const float* a_data, const Layout& b, const float* b_data,
                const Layout& to, float* to_data) {
  if (to.column_step == 1) {
    Gemm(a.rows, b.columns, a.columns, a.At(a_data), b.At(b_data), to_data, to.row_step, true);
  } else {
    const Layout left = b.Transposed(), right = a.Transposed();
    Gemm(left.rows, right.columns, left.columns, left.At(b_data), right.At(a_data), to_data,
         to.column_step, true);
  }
}

Shape BatchOf(const Tensor& tensor) {
  const auto& shape = tensor.shape();
  return shape.size() > 2 ? Shape(shape.begin(), shape.end() - 2) : Shape{};
}

void Scale(float factor, Tensor& tensor) {
  if (factor == 1) return;
  auto* data = tensor.data<float>();
  for (int64_t i = 0; i < tensor.count(); ++i) data[i] *= factor;
}

/// Gradient of Gemm's C, which is broadcast.
Tensor AddendBackward(const Tensor& c, const Tensor& dy, float beta) {
  Tensor out(DType::kFloat32, c.shape());
  auto* to = out.data<float>();
  const std::vector<int64_t> place = BroadcastIndex(c.shape(), dy.shape());
  for (size_t i = 0; i < place.size(); ++i) to[place[i]] += dy.data<float>()[i];
  Scale(beta, out);
  return out;
}

}  // namespace

bool IsProduct(const Node& node) { return node.Is(Op::kMatMul) || node.Is(Op::kGemm); }

std::vector<Tensor> ProductBackward(const Node& node, const std::vector<Tensor>& inputs,
                                    const Tensor& dy, const std::vector<bool>& wanted) {
  std::vector<Tensor> out(inputs.size());
  const Tensor &a = inputs[0], &b = inputs[1];
  const bool gemm = node.Is(Op::kGemm);
  // A vector on the left is a row, one on the right a column.
  Layout left = a.rank() > 1 ? Plain(a.dim(a.rank() - 2), a.dim(a.rank() - 1)) : Plain(1, a.dim(0));
  Layout right =
      b.rank() > 1 ? Plain(b.dim(b.rank() - 2), b.dim(b.rank() - 1)) : Plain(b.dim(0), 1);
  if (gemm && node.attributes.Int("transA", 0) != 0) left = left.Transposed();
  if (gemm && node.attributes.Int("transB", 0) != 0) right = right.Transposed();
  const Layout result = Plain(left.rows, right.columns);
  const Shape batch_a = BatchOf(a), batch_b = BatchOf(b);
  const Shape batch = BroadcastShapes(batch_a, batch_b);
  const std::vector<int64_t> from_a = BroadcastIndex(batch_a, batch);
  const std::vector<int64_t> from_b = BroadcastIndex(batch_b, batch);
  for (size_t slot = 0; slot < 2; ++slot) {
    if (wanted[slot]) out[slot] = Tensor(DType::kFloat32, inputs[slot].shape());
  }
  for (size_t i = 0; i < from_a.size(); ++i) {
    const int64_t at_a = from_a[i] * left.rows * left.columns;
    const int64_t at_b = from_b[i] * right.rows * right.columns;
    const float* gradient =
        dy.data<float>() + static_cast<int64_t>(i) * result.rows * result.columns;
    if (wanted[0]) {
      AddProduct(result, gradient, right.Transposed(), b.data<float>() + at_b, left,
                 out[0].data<float>() + at_a);
    }
    if (wanted[1]) {
      AddProduct(left.Transposed(), a.data<float>() + at_a, result, gradient, right,
                 out[1].data<float>() + at_b);
    }
  }
  if (!gemm) return out;
  for (size_t slot = 0; slot < 2; ++slot) {
    if (wanted[slot]) Scale(node.attributes.Float("alpha", 1), out[slot]);
  }
  if (inputs.size() > 2 && wanted[2]) {
    out[2] = AddendBackward(inputs[2], dy, node.attributes.Float("beta", 1));
  }
  return out;
}

}  // namespace requant
