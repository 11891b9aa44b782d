// The integer graph in operators that ONNX Runtime has. Which codes of their bytes the parameters
// use is said beside them, as in Q/DQ files.
#include "base/str_cat.h"
#include "ops/qonnx.h"
#include "quant/file/spell_pairs.h"
#include "quant/grid_writer.h"
#include "quant/quantizer.h"

namespace requant {

Graph ToQOperator(const QuantizedModel& model) {
  RefuseSimulated(model.float_graph, model.record, "integer operators");
  Graph graph = LowerToInteger(model, {.use_lut = false});
  SpellPairs(graph, "QLinearConvTranspose");  // of our own
  for (const TensorQuantizationConfig& config : model.record.configs) {
    if (config.baked.empty() || !IsByte(config.dtype)) continue;
    graph.metadata[kCodesKey] +=
        StrCat(config.value, " ", config.quant_min, " ", config.quant_max, "\n");
  }
  return graph;
}

}  // namespace requant
