// The functions that write operators as C. To add one, write a function in the file of its family
// and a row in table.cpp.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "codegen/c_file.h"
#include "ops/quantized/qlinear.h"
#include "ops/shape_rules.h"

namespace requant {

/// One node that is written as C.
struct EmitContext {
  const Graph& graph;
  const Node& node;
  CFile& file;

  /// Throws kUnsupported with the node's name.
  [[noreturn]] void Unsupported(std::string_view what) const;
  /// The constant in that slot; throws kUnsupported if it is computed.
  const Tensor& Constant(size_t slot) const;
  bool has(size_t slot) const { return node.input(slot) != nullptr; }
  Shape ShapeOf(const Value* value) const { return value->type.StaticShape(); }
  Shape InputShape(size_t slot) const { return ShapeOf(node.input(slot)); }
  Shape OutputShape() const { return ShapeOf(node.output()); }
  DType InputType(size_t slot) const { return node.input(slot)->type.dtype; }
  DType OutputType() const { return node.output()->type.dtype; }
  std::string In(size_t slot) const { return file.Pointer(node.input(slot)); }
  std::string Out(size_t slot = 0) const { return file.Pointer(node.output(slot)); }
  /// The pointer of an int32 value, as pointers otherwise point to bytes.
  std::string IntIn(size_t slot) const { return "(const int32_t *)(const void *)" + In(slot); }
  int64_t OutputCount() const { return NumElements(OutputShape()); }
  /// Throws kUnsupported unless the value in the slot has that type.
  void RequireFloat(size_t slot) const;
  void RequireByte(size_t slot) const;

  /// Writes kernel(input, output, &type{members}), with In(0) and Out().
  void Call(const char* kernel, const char* type, const Fields& members) const;

  /// Scales and zero points of an operand, which must be constant.
  QuantOperand Operand(size_t scale_slot, size_t zero_slot,
                       ScaleRule rule = ScaleRule::kPositive) const;
  /// The zero points; {0} without any.
  std::vector<int32_t> Zeros(size_t slot) const;
  /// The single zero point of an operand. Throws kUnsupported if it has several.
  int32_t Zero(size_t slot) const;
  /// One zero point for each channel. Throws kUnsupported unless `zeros` has one element, or one
  /// per channel.
  std::vector<int32_t> ForChannels(std::vector<int32_t> zeros, int64_t channels) const;
};

struct EmitRow {
  const char* op;
  const char* domain;
  void (*emit)(EmitContext& context);
};

std::span<const EmitRow> EmitTable();

// --- shared by the families

/// How kernels read 8-bit elements: rq_byte's `flip`, and the zero point that matches it.
struct ByteReading {
  int32_t flip, zero;
};
ByteReading ReadingOf(DType dtype, int32_t zero_point);

/// The members of an rq_window.
Fields WindowFields(const Geometry& g, int64_t batch, int64_t in_channels, int64_t out_channels,
                    int64_t groups);
/// The integers of a constant, which must fit int32.
std::vector<int32_t> IntsOf(const Tensor& tensor);
/// The members of an rq_output with one multiplier, or one for each channel.
Fields OutputFields(EmitContext& context, const std::vector<double>& multipliers,
                    int32_t zero_point, DType dtype);
/// The members of an rq_output that nobody reads.
Fields NoOutput();
/// The members of an rq_weights of 8-bit codes, packed to as few bits as they need. `zeros` has one
/// element, or one for each channel of the kernel.
Fields WeightsFields(EmitContext& context, const std::vector<int32_t>& codes,
                     const std::vector<int32_t>& zeros);
/// The members of an rq_pairs of two shapes that broadcast to a third.
Fields PairsFields(EmitContext& context, const Shape& a, const Shape& b, const Shape& out);

// --- the families, one file each

void EmitQLinearConv(EmitContext& context);
void EmitConvInteger(EmitContext& context);
void EmitQLinearConvTranspose(EmitContext& context);
void EmitQLinearMatMul(EmitContext& context);
void EmitMatMulInteger(EmitContext& context);
void EmitQGemm(EmitContext& context);
void EmitQLinearAdd(EmitContext& context);
void EmitQLinearMul(EmitContext& context);
void EmitQLinearAveragePool(EmitContext& context);
void EmitQLinearGlobalAveragePool(EmitContext& context);
void EmitMaxPool(EmitContext& context);
void EmitFloatAveragePool(EmitContext& context);
void EmitFloatGlobalAveragePool(EmitContext& context);
void EmitLut(EmitContext& context);
void EmitQLinearConcat(EmitContext& context);
void EmitConcat(EmitContext& context);
void EmitQuantizeLinear(EmitContext& context);
void EmitDequantizeLinear(EmitContext& context);
/// An operator that moves its input's elements to other positions, or drops some.
void EmitMove(EmitContext& context);
void EmitPad(EmitContext& context);
/// A Cast to float.
void EmitCast(EmitContext& context);
/// Relu and Clip of bytes or of floats.
void EmitClamp(EmitContext& context);
void EmitFloatConv(EmitContext& context);
void EmitFloatMatMul(EmitContext& context);
void EmitFloatGemm(EmitContext& context);
void EmitFloatArithmetic(EmitContext& context);
void EmitSoftmax(EmitContext& context);

/// Whether a node's output is its input's memory under another shape.
bool IsReshape(const Node& node);

}  // namespace requant
