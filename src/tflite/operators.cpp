#include "tflite/operators.h"

#include "base/late_text.h"
#include "base/str_cat.h"

namespace requant::tflite {
namespace {

constexpr char kInline[] RQ_LATE_SECTION = "convert the model with its functions inlined";
constexpr char kJavaScript[] RQ_LATE_SECTION =
    "cut the model before it, and compute the rest in JavaScript";
constexpr char kLookUp[] RQ_LATE_SECTION =
    "look the input up in JavaScript, and feed the model what follows";
constexpr char kOnnx[] RQ_LATE_SECTION = "export the model as ONNX where it was made";
constexpr char kOriginal[] RQ_LATE_SECTION =
    "take the file from before a delegate was applied to it";
constexpr char kVariables[] RQ_LATE_SECTION = "make the model's states inputs and outputs of it";

[[noreturn]] void Lack(Converter& converter, const FileOperator& op, const char* name,
                       const char* remedy) {
  Context(converter, op, name).Refuse(RQ_LATE_TEXT("is no operator of this engine"), remedy);
}

}  // namespace

void ConvertOperator(Converter& converter, const FileOperator& op) {
  switch (op.code) {
#define OP(number, name, function, onnx)                 \
  case number: {                                         \
    Context context(converter, op, RQ_LATE_TEXT(#name)); \
    return function(context, onnx);                      \
  }
#define LACK(number, name, remedy) \
  case number:                     \
    Lack(converter, op, RQ_LATE_TEXT(#name), remedy);
#include "tflite/operators.inc"
#undef OP
#undef LACK
    case kCustomOperator:
      break;
    default: {
      const std::string name = StrCat(RQ_LATE_TEXT("operator "), op.code);
      Lack(converter, op, name.c_str(), kOnnx);
    }
  }
  Context context(converter, op, op.custom.c_str());
  if (op.custom == "Convolution2DTransposeBias") return ConvertTransposeConvBias(context, nullptr);
  context.Refuse(RQ_LATE_TEXT("is a custom operator"), kJavaScript);
}

}  // namespace requant::tflite
