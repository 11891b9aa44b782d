#include "tflite/read.h"

namespace requant {

const LateFunction<decltype(ReadTflite)> kReadTflite{ReadTflite, "ReadTflite"};

}  // namespace requant
