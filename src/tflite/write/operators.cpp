#include "tflite/write/operators.h"

namespace requant::tflite {

#define WRITE(op, domain, function) void function(Writer& writer);
#include "tflite/write/operators.inc"
#undef WRITE

namespace {

constexpr WriteRow kRows[] = {
#define WRITE(op, domain, function) {op, domain, function},
#include "tflite/write/operators.inc"
#undef WRITE
};

}  // namespace

const WriteRow* FindWriteRow(const Node& node) {
  for (const WriteRow& row : kRows) {
    if (node.Is(row.op, row.domain)) return &row;
  }
  return nullptr;
}

}  // namespace requant::tflite
