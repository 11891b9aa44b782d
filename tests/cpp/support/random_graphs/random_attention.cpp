// Fragments of random graphs: attention, RMS normalization, Einsum and 4-bit weights in blocks.
#include <string>

#include "support/random_graphs/random_graph.h"

namespace requant {

/// Projects a value of rank 3 to [B, S, columns], as exported layers do.
Value* GraphMaker::Projection(Value* x, int64_t columns) {
  Value* y = Add("MatMul", {x, Floats({ShapeOf(x)[2], columns}, -0.5F, 0.5F)});
  if (y && dice_.Chance(70)) y = Add("Add", {y, Floats({columns})});
  return y;
}

/// Attention as one operator, with many queries.
Value* GraphMaker::WholeAttention(Value* x) {
  const int64_t heads = dice_.In(1, 3);
  const int64_t columns = heads * dice_.In(1, 3);
  Value* keys = Projection(x, columns);
  if (keys == nullptr || ShapeOf(keys)[1] == 0) return nullptr;
  const int64_t copies = 16 / ShapeOf(keys)[1] + dice_.In(0, 1);
  const std::vector<Value*> parts(static_cast<size_t>(copies), Projection(x, columns));
  Value* queries = parts[0] ? Add("Concat", parts, With({{"axis", int64_t{1}}})) : nullptr;
  Value* values = Projection(x, columns);
  if (queries == nullptr || values == nullptr) return nullptr;
  AttributeMap attributes = With({{"num_heads", heads}});
  if (dice_.Chance(50)) attributes.Set("scale", 0.5F);
  std::vector<Value*> inputs = {queries, keys, values};
  if (dice_.Chance(50)) {
    inputs.resize(6);
    inputs[5] = Floats({1, 1, ShapeOf(queries)[1], ShapeOf(keys)[1]}, -3, 1);
  }
  return Add("MultiHeadAttention", inputs, std::move(attributes), 1, kMicrosoftDomain);
}

/// Decomposed attention, or sometimes something similar.
Value* GraphMaker::Attention() {
  Value* x = Pick(3);
  if (x == nullptr) return nullptr;
  if (dice_.Chance(15)) return WholeAttention(x);
  const int64_t heads = dice_.In(1, 3);
  const int64_t width = dice_.In(1, 3);
  const int64_t columns = heads * width;
  const bool right = dice_.Chance(85);
  const auto turn = [&](Value* value, std::vector<int64_t> perm) {
    return value ? Add("Transpose", {value}, With({{"perm", std::move(perm)}})) : nullptr;
  };
  const auto scaled = [&](Value* value) {
    if (value == nullptr) return value;
    return dice_.Chance(50) ? Add("Mul", {value, Scalar(0.5F)}) : Add("Div", {value, Scalar(2.0F)});
  };
  Value* parts[3] = {};
  if (dice_.Chance(30)) {
    Value* all = Projection(x, 3 * columns);
    if (all) all = Add("Reshape", {all, Ints({0, 0, 3, heads, width})});
    all = turn(all, {2, 0, 3, 1, 4});
    for (int64_t i = 0; all && i < 3; ++i) {
      parts[i] = Add("Gather", {all, Constant(Tensor::Scalar<int64_t>(right ? i : 2 - i))});
    }
    parts[1] = turn(parts[1], {0, 1, 3, 2});
  } else {
    for (int64_t i = 0; i < 3; ++i) {
      Value* flat = Projection(x, columns);
      if (flat) flat = Add("Reshape", {flat, Ints({0, dice_.Chance(70) ? 0 : -1, heads, width})});
      if (i == 0 && dice_.Chance(20)) flat = scaled(flat);
      parts[i] =
          turn(flat, i == 1 ? std::vector<int64_t>{0, 2, 3, 1} : std::vector<int64_t>{0, 2, 1, 3});
    }
  }
  if (dice_.Chance(20)) parts[1] = scaled(parts[1]);
  if (parts[0] == nullptr || parts[1] == nullptr || parts[2] == nullptr) return nullptr;
  Value* scores = Add("MatMul", {parts[0], parts[1]});
  if (dice_.Chance(80)) scores = scaled(scores);
  if (scores == nullptr) return nullptr;
  const Shape whole = ShapeOf(scores);
  if (dice_.Chance(50)) {
    const int64_t rows = dice_.Chance(50) ? whole[2] : 1;
    Value* mask = Floats({1, dice_.Chance(50) ? 1 : heads, rows, whole[3]}, -3, 1);
    scores = dice_.Chance(50) ? Add("Add", {scores, mask}) : Add("Add", {mask, scores});
    if (!right) scores = scaled(scores);
  }
  if (scores == nullptr) return nullptr;
  const int64_t axis = right || opset_ < 13 ? 3 : 2;
  Value* p = Add("Softmax", {scores}, With({{"axis", axis}}));
  Value* mixed = p ? Add("MatMul", {p, parts[2]}) : nullptr;
  if (dice_.Chance(20)) return mixed;
  mixed = turn(mixed, {0, 2, 1, 3});
  return mixed ? Add("Reshape", {mixed, Ints({0, 0, columns})}) : nullptr;
}

Value* GraphMaker::RmsNorm() {
  Value* x = Pick();
  if (ShapeOf(x).empty()) return nullptr;
  const int64_t width = ShapeOf(x).back();
  Value* square = dice_.Chance(50) ? Add("Pow", {x, Scalar(2)}) : Add("Mul", {x, x});
  if (square == nullptr) return nullptr;
  const int64_t axis = dice_.Chance(85) ? -1 : 0;
  Value* mean = opset_ >= 18
                    ? Add("ReduceMean", {square, Ints({axis})})
                    : Add("ReduceMean", {square}, With({{"axes", std::vector<int64_t>{axis}}}));
  Value* shifted = mean ? Add("Add", {mean, Scalar(0.125F)}) : nullptr;
  if (shifted == nullptr) return nullptr;
  Value* normal = nullptr;
  if (dice_.Chance(25)) {
    Value* inverse = Add("Pow", {shifted, Scalar(-0.5F)});
    normal = inverse ? Add("Mul", {x, inverse}) : nullptr;
  } else {
    Value* root = Add("Sqrt", {shifted});
    const int64_t form = dice_.In(0, 2);
    if (root == nullptr) return nullptr;
    if (form == 0) normal = Add("Div", {x, root});
    if (form > 0) {
      Value* inverse = form == 1 ? Add("Reciprocal", {root}) : Add("Div", {Scalar(1), root});
      normal = inverse ? Add("Mul", {x, inverse}) : nullptr;
    }
  }
  if (normal == nullptr || dice_.Chance(15)) return normal;
  return Add("Mul", {Floats({width}), normal});
}

Value* GraphMaker::Einsum() {
  if (opset_ < 12) return nullptr;
  static constexpr const char* kEquations[] = {
      "ij,jk->ik",     "ij,kj->ki",       "ij->ji",          "ij->j",           "ij,ij->i",
      "ij,j->ij",      "abc,cd->abd",     "abc,cde->abde",   "abc,adc->abd",    "abc,abd->acd",
      "abc->cab",      "abc->b",          "abc,c->bac",      "...c,cd->...d",   "abc,abc->abc",
      "abcd,cde->abe", "aecd,abcd->acbe", "abcd,aecd->acbe", "abcd,abce->abde", "abcd,cd->ba",
      "abcd,abcd->a",  "abcd->dbca",      "abcd,abed->abce", "aab->ab",
  };
  const std::string equation =
      kEquations[dice_.In(0, static_cast<int64_t>(std::size(kEquations)) - 1)];
  const size_t comma = equation.find(',');
  const size_t arrow = equation.find("->");
  const std::string first = equation.substr(0, std::min(comma, arrow));
  const bool dots = first[0] == '.';
  Value* x = Pick(dots ? -1 : static_cast<int64_t>(first.size()));
  if (x == nullptr || ShapeOf(x).empty()) return nullptr;
  std::vector<Value*> inputs = {x};
  if (comma != std::string::npos) {
    int64_t sizes[128] = {};
    if (dots) {
      sizes['c'] = ShapeOf(x).back();
    } else {
      for (size_t i = 0; i < first.size(); ++i) {
        sizes[static_cast<size_t>(first[i])] = ShapeOf(x)[i];
      }
    }
    Shape shape;
    for (const char letter : equation.substr(comma + 1, arrow - comma - 1)) {
      int64_t& size = sizes[static_cast<size_t>(letter)];
      if (size == 0) size = dice_.In(1, 3);
      shape.push_back(size);
    }
    // Use a dynamic operand if its shape fits.
    inputs.push_back(shape == ShapeOf(x) && dice_.Chance(70) ? x : Floats(shape));
  }
  return Add("Einsum", inputs, With({{"equation", equation}}));
}

/// Rows of a table of codes. Almost all are the first row, so that rounding chooses no other.
Value* GraphMaker::TableOfCodes() {
  Value* x = Pick();
  if (opset_ < 13 || NumElements(ShapeOf(x)) > 16) return nullptr;
  Value* large = Add("Greater", {x, Constant(Tensor::Scalar(1e6F))});
  Value* index = large ? Add("Cast", {large}, With({{"to", int64_t{7}}})) : nullptr;
  if (index == nullptr) return nullptr;
  const bool by_row = dice_.Chance(50);
  Tensor codes(dice_.Chance(50) ? DType::kInt8 : DType::kUint8, {32, 8});
  auto* bytes = static_cast<uint8_t*>(codes.raw());
  for (size_t i = 0; i < codes.bytes(); ++i) bytes[i] = static_cast<uint8_t>(dice_.In(0, 255));
  Value* floats =
      Add("DequantizeLinear",
          {Constant(std::move(codes)), Floats(by_row ? Shape{32} : Shape{}, 0.01F, 0.1F)},
          With({{"axis", int64_t{0}}}));
  return floats ? Add("Gather", {floats, index}) : nullptr;
}

/// A product with 4-bit weights that have a scale for every block.
Value* GraphMaker::BlockedWeights() {
  if (opset_ < 21) return TableOfCodes();
  Value* x = Pick();
  if (ShapeOf(x).size() < 2) return nullptr;
  const int64_t from = ShapeOf(x).back();
  const int64_t block = dice_.Chance(80) ? 16 : 8;
  const int64_t k = block * dice_.In(1, 2);
  const int64_t n = dice_.In(1, 3);
  // A value as wide as the blocks.
  Value* wide = Add("MatMul", {x, Floats({from, k}, -0.5F, 0.5F)});
  if (wide == nullptr) return nullptr;
  const DType dtype = dice_.Chance(50) ? DType::kInt4 : DType::kUint4;
  const bool gemm = ShapeOf(wide).size() == 2 && dice_.Chance(50);
  const auto shaped = [&](int64_t rows) { return gemm ? Shape{n, rows} : Shape{rows, n}; };
  const auto codes = [&](const Shape& shape) {
    Tensor tensor(dtype, shape);
    auto* bytes = static_cast<uint8_t*>(tensor.raw());
    for (size_t i = 0; i < tensor.bytes(); ++i) bytes[i] = static_cast<uint8_t>(dice_.In(0, 255));
    if (tensor.count() % 2 != 0) bytes[tensor.bytes() - 1] &= 15;
    return Constant(std::move(tensor));
  };
  std::vector<Value*> inputs = {codes(shaped(k)), Floats(shaped(k / block), 0.01F, 0.1F)};
  if (dice_.Chance(50)) inputs.push_back(codes(shaped(k / block)));
  Value* floats = Add("DequantizeLinear", inputs,
                      With({{"axis", int64_t{gemm ? 1 : 0}}, {"block_size", block}}));
  if (floats == nullptr) return nullptr;
  if (!gemm) return Add("MatMul", {wide, floats});
  std::vector<Value*> operands = {wide, floats};
  if (dice_.Chance(50)) operands.push_back(Floats({n}));
  return Add("Gemm", operands, With({{"transB", int64_t{1}}}));
}

}  // namespace requant
