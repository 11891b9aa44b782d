#include "tflite/read.h"

#include "tflite/converter.h"

namespace requant {

Graph ReadTflite(const SharedBytes& file) {
  const tflite::File parsed(file);
  Graph graph = tflite::Converter(parsed, 0).ConvertModel();
  if (!parsed.description().empty()) graph.metadata["description"] = parsed.description();
  return graph;
}

}  // namespace requant
