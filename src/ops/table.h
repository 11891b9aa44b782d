// One array of rows per family file; table.cpp strings them together. Adding an operator is one
// row in its family's array; adding a family is one line in each of these two files.
#pragma once

#include <span>

#include "ops/op.h"

namespace requant {

std::span<const OpDef> ConvOps();         // conv.cpp: Conv
std::span<const OpDef> MatMulOps();       // matmul.cpp: Gemm, MatMul
std::span<const OpDef> PoolOps();         // pool.cpp: MaxPool, AveragePool, Global*
std::span<const OpDef> NormalizeOps();    // normalize.cpp: BatchNormalization, Softmax, LRN ...
std::span<const OpDef> UnaryOps();        // unary.cpp: Relu, Sigmoid, Clip, Exp ...
std::span<const OpDef> BinaryOps();       // binary.cpp: Add, Mul, Where, comparisons ...
std::span<const OpDef> ReduceOps();       // reduce.cpp: ReduceMean ..., ArgMax
std::span<const OpDef> ShapeOps();        // shape.cpp: Shape, Reshape, Flatten, Squeeze, Cast ...
std::span<const OpDef> MovementOps();     // movement.cpp: Transpose, Concat, Slice, Split, Gather
std::span<const OpDef> ResizeOps();       // resize.cpp: Resize, Upsample
std::span<const OpDef> QuantizeOps();     // quantize.cpp: QuantizeLinear, DequantizeLinear
std::span<const OpDef> IntegerOps();      // integer.cpp: QLinearConv, QLinearMatMul, QLinearAdd ...

}  // namespace requant
