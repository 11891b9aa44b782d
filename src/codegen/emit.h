// How operators become C. Adding one: a function in the file of its family and a row in table.cpp.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "codegen/c_file.h"
#include "ops/qlinear.h"
#include "ops/shape_rules.h"

namespace requant {

/// One node on its way to C.
struct EmitContext {
  const Graph& graph;
  const Node& node;
  CFile& file;

  /// Throws kUnsupported, naming the node.
  [[noreturn]] void Unsupported(std::string_view what) const;
  /// The constant in that slot; throws kUnsupported when it is none.
  const Tensor& Constant(size_t slot) const;
  bool has(size_t slot) const { return node.input(slot) != nullptr; }
  Shape ShapeOf(const Value* value) const { return value->type.StaticShape(); }
  Shape InputShape(size_t slot) const { return ShapeOf(node.input(slot)); }
  Shape OutputShape() const { return ShapeOf(node.output()); }
  DType InputType(size_t slot) const { return node.input(slot)->type.dtype; }
  DType OutputType() const { return node.output()->type.dtype; }
  std::string In(size_t slot) const { return file.Pointer(node.input(slot)); }
  std::string Out(size_t slot = 0) const { return file.Pointer(node.output(slot)); }
  /// Of int32 values, which pointers to bytes point to otherwise.
  std::string IntIn(size_t slot) const { return "(const int32_t *)(const void *)" + In(slot); }
  int64_t OutputCount() const { return NumElements(OutputShape()); }
  /// Throws kUnsupported unless that is the type of the slot's value.
  void RequireFloat(size_t slot) const;
  void RequireByte(size_t slot) const;

  /// kernel(input, output, &type{members}), with In(0) and Out().
  void Call(const char* kernel, const char* type, const Fields& members) const;

  /// Scales and zero points of an operand, all of them constant.
  QuantOperand Operand(size_t scale_slot, size_t zero_slot,
                       ScaleRule rule = ScaleRule::kPositive) const;
  /// Zero points alone; {0} where there are none.
  std::vector<int32_t> Zeros(size_t slot) const;
  /// The only one of an operand. Throws kUnsupported where there are more.
  int32_t Zero(size_t slot) const;
  /// One for each channel. Throws kUnsupported unless there is one, or as many.
  std::vector<int32_t> ForChannels(std::vector<int32_t> zeros, int64_t channels) const;
};

struct EmitRow {
  const char* op;
  const char* domain;
  void (*emit)(EmitContext& context);
};

std::span<const EmitRow> EmitTable();

// --- what the families share

/// How the kernels read 8-bit elements: rq_byte's `flip`, and a zero point that belongs to it.
struct ByteReading {
  int32_t flip, zero;
};
ByteReading ReadingOf(DType dtype, int32_t zero_point);

/// An rq_window.
Fields WindowFields(const Geometry& g, int64_t batch, int64_t in_channels, int64_t out_channels,
                    int64_t groups);
/// A constant's integers, which int32 holds.
std::vector<int32_t> IntsOf(const Tensor& tensor);
/// An rq_output: one multiplier, or one for each channel.
Fields OutputFields(EmitContext& context, const std::vector<double>& multipliers,
                    int32_t zero_point, DType dtype);
/// An rq_output that nobody reads.
Fields NoOutput();
/// An rq_weights of 8-bit codes, packed to as few bits as they need; `zeros` are one, or one for
/// each channel of the kernel that reads them.
Fields WeightsFields(EmitContext& context, const std::vector<int32_t>& codes,
                     const std::vector<int32_t>& zeros);
/// An rq_pairs of two shapes that broadcast to a third.
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
/// An operator that gives its input's elements other places, or leaves some out.
void EmitMove(EmitContext& context);
void EmitPad(EmitContext& context);
/// To floats.
void EmitCast(EmitContext& context);
/// Relu and Clip, of bytes or of floats.
void EmitClamp(EmitContext& context);
void EmitFloatConv(EmitContext& context);
void EmitFloatMatMul(EmitContext& context);
void EmitFloatGemm(EmitContext& context);
void EmitFloatArithmetic(EmitContext& context);
void EmitSoftmax(EmitContext& context);

/// Whether a node's output is its input's memory under another shape.
bool IsReshape(const Node& node);

}  // namespace requant
