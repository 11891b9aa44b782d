// The table of ONNX operators that have a form in TFLite.
#pragma once

#include "tflite/write/writer.h"

namespace requant::tflite {

/// A row of the table.
struct WriteRow {
  const char* op;
  const char* domain;
  void (*write)(Writer& writer);  ///< writes Writer::node()
};

/// The row of a node, or nullptr.
const WriteRow* FindWriteRow(const Node& node);

}  // namespace requant::tflite
