// Removes a file's Q/DQ pairs and records the grid with which each slot was read or written.
#include <algorithm>
#include <cmath>
#include <utility>

#include "ops/quantized/wide.h"
#include "quant/file/file_quantization.h"
#include "quant/grid/affine.h"

namespace requant {
namespace {

bool IsSigned(DType dtype) {
  return dtype == DType::kInt2 || dtype == DType::kInt4 || dtype == DType::kInt8 ||
         dtype == DType::kInt16;
}

/// Whether several integers of the type share a byte.
bool IsPacked(DType dtype) {
  return dtype == DType::kInt4 || dtype == DType::kUint4 || dtype == DType::kInt2 ||
         dtype == DType::kUint2;
}

bool IsParameterType(DType dtype) {
  return IsCode(dtype) || IsPacked(dtype) || dtype == DType::kInt32;
}

/// The 8-bit type that stores the integers of a narrower type here.
DType Widened(DType dtype) {
  if (!IsPacked(dtype)) return dtype;
  return IsSigned(dtype) ? DType::kInt8 : DType::kUint8;
}

Tensor Unpacked(const Tensor& tensor) {
  if (!IsPacked(tensor.dtype())) return tensor;
  Tensor out(Widened(tensor.dtype()), tensor.shape());
  auto* to = static_cast<uint8_t*>(out.raw());
  for (int64_t i = 0; i < out.count(); ++i) to[i] = static_cast<uint8_t>(tensor.AsInt64(i));
  return out;
}

/// Converts the constants of a Q or DQ node to a config. False for forms without an integer
/// operator here: blocked scales, other types, computed scales.
bool ReadConfig(const Node& node, DType dtype, int64_t rank, TensorQuantizationConfig& config) {
  const Tensor* scale = node.constant(1);
  const Tensor* zero_point = node.constant(2);
  if (scale == nullptr || scale->dtype() != DType::kFloat32 || scale->rank() > 1 ||
      scale->count() == 0 || (node.input(2) && zero_point == nullptr) ||
      node.attributes.Int("block_size", 0) != 0 || !IsParameterType(dtype)) {
    return false;
  }
  config.scale = scale->ToFloats();
  for (const float value : config.scale) {
    if (!(value > 0) || !std::isfinite(value)) return false;
  }
  config.offset.assign(config.scale.size(), 0);
  if (zero_point) {
    if (zero_point->count() != scale->count() || zero_point->dtype() != dtype) return false;
    for (size_t i = 0; i < config.offset.size(); ++i) {
      config.offset[i] = static_cast<int32_t>(zero_point->AsInt64(static_cast<int64_t>(i)));
    }
  }
  config.dtype = Widened(dtype);
  config.bits = DTypeBits(dtype);
  config.quant_min = StorageMin(config.dtype);
  config.quant_max = StorageMax(config.dtype);
  if (IsPacked(dtype)) {
    const int32_t codes = 1 << config.bits;
    config.quant_min = IsSigned(dtype) ? -codes / 2 : 0;
    config.quant_max = config.quant_min + codes - 1;
  }
  const bool symmetric = config.dtype != DType::kUint8 && config.dtype != DType::kUint16 &&
                         std::all_of(config.offset.begin(), config.offset.end(),
                                     [](int32_t offset) { return offset == 0; });
  config.policy = kLinear | (config.scale.size() > 1 ? kPerChannel : kPerTensor) |
                  (symmetric ? kSymmetrical : kAsymmetrical);
  config.observer = "file";
  if (config.scale.size() > 1) {
    int64_t axis = node.attributes.Int("axis", 1);
    if (axis < 0) axis += rank;
    config.axis = static_cast<int>(axis);
  }
  return true;
}

class PairRemover {
 public:
  PairRemover(Graph& graph, bool keep_weights) : graph_(graph), keep_weights_(keep_weights) {}

  FileQuantization Run() {
    std::vector<Node*> nodes;
    for (const auto& node : graph_.nodes()) {
      if (node->Is(Op::kQuantizeLinear)) nodes.push_back(node.get());
    }
    for (Node* node : nodes) {
      if (!IsReadUnrounded(*node)) RemovePair(*node);
    }
    nodes.clear();
    for (const auto& node : graph_.nodes()) nodes.push_back(node.get());
    for (Node* node : nodes) {
      if (!node->Is(Op::kDequantizeLinear)) continue;
      if (node->inputs[0]->is_constant()) {
        RemoveConstant(*node);
      } else {
        ReadIntegers(*node);
      }
    }
    // Names are read only now, as replacing a graph output renames the value that takes its place.
    for (const auto& [value, config] : writes_) found_.writes.emplace(value->name, config);
    graph_.RemoveUnusedValues();
    return std::move(found_);
  }

 private:
  static DType QuantizedType(const Node& node) {
    const Tensor* zero_point = node.constant(2);
    if (zero_point) return zero_point->dtype();
    const int64_t wanted = node.attributes.Int("output_dtype", 0);
    return wanted == 0 ? DType::kUint8 : static_cast<DType>(wanted);
  }

  /// Whether the value is a constant, or the result of a pair for one.
  static bool IsParameter(const Value* value) {
    const Node* pair = value->producer;
    return value->is_constant() || (pair && pair->Is(Op::kDequantizeLinear) && pair->constant(0) &&
                                    pair->constant(1) && (!pair->input(2) || pair->constant(2)));
  }

  /// The result of the node for `data`, or for its own constant if `data` is empty.
  Tensor Folded(const Node& node, const Tensor& data) const {
    const Tensor* own = node.constant(0);
    const Tensor& first = data.empty() && own ? *own : data;
    const std::vector<const Tensor*> inputs = {&first, node.constant(1), node.constant(2)};
    return EvaluateNode(graph_, node, inputs, RequantizeMode::kUpward)[0];
  }

  /// Whether the pair must stay because a reader needs the value as it was before this pair rounded
  /// it; a reader with another grid counts. Operators behind such a pair read integers as those of
  /// graph inputs are read (ReadIntegers).
  bool IsReadUnrounded(const Node& quantize) const {
    const Value* real = quantize.inputs[0];
    if (IsParameter(real)) return false;
    TensorQuantizationConfig config;
    if (!ReadPair(quantize, config)) return true;
    const auto written = writes_.find(real);
    if (written != writes_.end()) {
      // Each reader's own grid rounds only once. This suffices if the grid that this pair reads is
      // the first pair's or its own.
      const auto read = found_.reads.find({quantize.name, 0});
      // this pair stands beside the first one
      if (read == found_.reads.end()) return !SameCodes(config, written->second);
      return !SameCodes(read->second, written->second) && !SameCodes(read->second, config);
    }
    return graph_.IsOutput(real) ||
           std::any_of(real->consumers.begin(), real->consumers.end(), [&](const Node* reader) {
             if (reader->Is(Op::kShape) || reader->Is(Op::kSize)) return false;
             TensorQuantizationConfig other;
             return !reader->Is(Op::kQuantizeLinear) || !ReadPair(*reader, other) ||
                    !SameCodes(config, other);
           });
  }

  /// Like ReadConfig, with the codes of a Clip that follows the node.
  bool ReadPair(const Node& quantize, TensorQuantizationConfig& config) const {
    if (!ReadConfig(quantize, QuantizedType(quantize), 0, config)) return false;
    LimitOf(quantize.outputs[0], config);
    return true;
  }

  /// Records the grid for all readers of the value, except those behind a pair with another grid.
  void Annotate(const Value* value, const TensorQuantizationConfig& config) {
    for (const Node* consumer : value->consumers) {
      for (size_t slot = 0; slot < consumer->inputs.size(); ++slot) {
        if (consumer->inputs[slot] == value)
          found_.reads.try_emplace({consumer->name, slot}, config);
      }
    }
  }

  static bool IsCast(const Node* node, DType to) {
    return node && node->op_type == "Cast" && node->domain.empty() &&
           node->attributes.Int("to", 0) == static_cast<int64_t>(to);
  }

  /// Reads a range of codes narrower than the type's, which simulated.cpp writes (LimitInFile): a
  /// Clip, for 16 bits between two Casts. Returns these nodes; none for other readers.
  std::vector<Node*> LimitOf(const Value* integers, TensorQuantizationConfig& config) const {
    std::vector<Node*> nodes = {graph_.SoleConsumer(integers)};
    const bool cast = IsCast(nodes[0], DType::kInt32);
    if (cast) nodes.push_back(graph_.SoleConsumer(nodes[0]->outputs[0]));
    const Node* clip = nodes.back();
    if (clip == nullptr || !clip->Is(Op::kClip)) return {};
    if (cast) {
      nodes.push_back(graph_.SoleConsumer(clip->outputs[0]));
      if (!IsCast(nodes.back(), config.dtype)) return {};
    }
    const Tensor* low = clip->constant(1);
    const Tensor* high = clip->constant(2);
    const DType wanted = cast ? DType::kInt32 : config.dtype;
    if (low == nullptr || high == nullptr || low->dtype() != wanted) return {};
    const int64_t lowest = low->AsInt64(0);
    const int64_t highest = high->AsInt64(0);
    const int most = DTypeBits(config.dtype);
    int bits = 1;
    while (bits < most && (int64_t{1} << bits) - 1 < highest - lowest) ++bits;
    // Grids of whole bytes keep the lowest code (FormatOf), so a Clip that takes it stays.
    const bool whole = highest == StorageMax(config.dtype) &&
                       lowest <= StorageMin(config.dtype) + (IsSigned(config.dtype) ? 1 : 0);
    if (lowest >= highest || whole || lowest < StorageMin(config.dtype) ||
        highest > StorageMax(config.dtype)) {
      return {};
    }
    config.quant_min = lowest;
    config.quant_max = highest;
    config.bits = bits;
    return nodes;
  }

  void RemovePair(Node& quantize) {
    Value* real = quantize.inputs[0];
    Value* integers = quantize.outputs[0];
    TensorQuantizationConfig config;
    const auto rank = static_cast<int64_t>(real->is_constant()
                                               ? static_cast<size_t>(real->constant.rank())
                                               : (real->type.shape ? real->type.shape->size() : 0));
    if (!ReadConfig(quantize, QuantizedType(quantize), rank, config)) return;
    if (IsParameter(real)) {
      // The weights are quantized inside of the graph: their integers become constants.
      const Tensor numbers = real->is_constant() ? real->constant : Folded(*real->producer, {});
      if (numbers.dtype() != DType::kFloat32) return;
      graph_.MakeConstant(integers, Folded(quantize, numbers));
      return;
    }
    if (config.scale.size() != 1 || !IsCode(config.dtype)) return;
    // The integers are a graph output: the node stays, as in ReadIntegers.
    const bool stays = graph_.IsOutput(integers);
    if (stays && (graph_.IsInput(real) || graph_.SoleConsumer(real) != &quantize)) return;
    std::vector<Node*> limit;
    if (!stays) limit = LimitOf(integers, config);
    if (!limit.empty()) {
      integers = limit.back()->outputs[0];
      if (graph_.IsOutput(integers)) return;
    }
    std::vector<Node*> pairs = integers->consumers;
    bool named = graph_.IsOutput(real) || graph_.IsInput(real);  // a value has only one name
    for (const Node* pair : pairs) {
      TensorQuantizationConfig other;
      if (!pair->Is(Op::kDequantizeLinear) ||
          !ReadConfig(*pair, QuantizedType(quantize), rank, other) ||
          !SameQuantization(config, other)) {
        return;
      }
      const Value* result = pair->outputs[0];
      // A grid other than the producer's is recorded for the readers; a graph output has none that
      // could keep it.
      const auto written = writes_.find(real);
      const bool other_grid = written != writes_.end() && !SameCodes(written->second, config);
      if (!graph_.IsOutput(result)) continue;
      if (named || other_grid) return;
      named = true;
    }
    for (Node* pair : pairs) {
      Value* result = pair->outputs[0];
      Annotate(result, config);
      graph_.ReplaceAndKeepName(result, real);
      graph_.EraseNode(pair);
    }
    while (!limit.empty()) {
      graph_.EraseNode(limit.back());
      limit.pop_back();
    }
    if (!stays) {
      found_.reads.erase({quantize.name, 0});  // the name may pass to another node
      graph_.EraseNode(&quantize);
    }
    writes_.emplace(real, config);  // the producer's grid is that of the first pair
  }

  /// Reads integers that enter the graph as such (an 8-bit graph input): their readers take them on
  /// the grid of the DequantizeLinear. The node stays; if a QuantizeLinear follows, SimplifyExpr
  /// cancels both.
  void ReadIntegers(const Node& node) {
    const Value* integers = node.inputs[0];
    const auto& shape = node.outputs[0]->type.shape;
    TensorQuantizationConfig config;
    if (!IsCode(integers->type.dtype) ||
        !ReadConfig(node, integers->type.dtype, shape ? static_cast<int64_t>(shape->size()) : 0,
                    config) ||
        config.scale.size() != 1) {
      return;
    }
    Annotate(node.outputs[0], config);
  }

  void RemoveConstant(Node& node) {
    Value* integers = node.inputs[0];
    TensorQuantizationConfig config;
    if (!ReadConfig(node, integers->constant.dtype(), integers->constant.rank(), config)) return;
    if (config.scale.size() > 1 &&
        (config.axis >= integers->constant.rank() ||
         integers->constant.dim(config.axis) != static_cast<int64_t>(config.scale.size()))) {
      return;
    }
    config.baked = Unpacked(integers->constant);
    Value* result = node.outputs[0];
    Annotate(result, config);
    // Integer operators never read the float weights, which take four times the memory.
    const auto is_weight = [result](const Node* reader) {
      return reader->input(1) == result && reader->input(0) != result &&
             reader->input(2) != result &&
             (reader->Is(Op::kConv) || reader->Is(Op::kConvTranspose) || reader->Is(Op::kGemm) ||
              reader->Is(Op::kMatMul));
    };
    const bool leave_out =
        !keep_weights_ && IsByte(config.dtype) && !graph_.IsOutput(result) &&
        std::all_of(result->consumers.begin(), result->consumers.end(), is_weight);
    graph_.MakeConstant(result,
                        leave_out ? Tensor::Unowned(DType::kFloat32, config.baked.shape(), nullptr)
                                  : DequantizeParameter(config.baked, config));
  }

  Graph& graph_;
  bool keep_weights_;
  FileQuantization found_;
  std::map<const Value*, TensorQuantizationConfig> writes_;
};

}  // namespace

bool SameQuantization(const TensorQuantizationConfig& a, const TensorQuantizationConfig& b) {
  return a.dtype == b.dtype && a.scale == b.scale && a.offset == b.offset && a.axis == b.axis;
}

bool SameCodes(const TensorQuantizationConfig& a, const TensorQuantizationConfig& b) {
  return SameQuantization(a, b) && a.quant_min == b.quant_min && a.quant_max == b.quant_max;
}

FileQuantization RemovePairs(Graph& graph, bool keep_weights) {
  return PairRemover(graph, keep_weights).Run();
}

}  // namespace requant
