#include "tflite/read.h"

#include "tflite/converter.h"

namespace requant {

Graph ReadTflite(const SharedBytes& file, bool float_layers) {
  const tflite::File parsed(file, float_layers);
  Graph graph = tflite::Converter(parsed, 0).ConvertModel();
  if (!parsed.description().empty()) graph.metadata["description"] = parsed.description();
  return graph;
}

}  // namespace requant
