#pragma once

#include "tflite/converter.h"

namespace requant::tflite {

/// Adds the nodes of an operator to the converter's graph. Throws kUnsupported for an operator that
/// the engine lacks, naming it, its output and a remedy, and kInvalidModel for one that breaks the
/// rules of TFLite.
void ConvertOperator(Converter& converter, const FileOperator& op);

/// Converts one operator. `onnx` is the name of an ONNX operator for functions that serve several
/// rows of operators.inc, and nullptr for the others.
using ConvertFunction = void(Context& context, const char* onnx);

#define OP(number, name, function, onnx) ConvertFunction function;
#define LACK(number, name, remedy)
#include "tflite/operators.inc"
#undef OP
#undef LACK

ConvertFunction ConvertTransposeConvBias;

}  // namespace requant::tflite
