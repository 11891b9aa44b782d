#include "quant/analyze.h"

#include <algorithm>
#include <cmath>

#include "base/json.h"
#include "base/str_cat.h"
#include "quant/assign/assign.h"
#include "quant/grid/affine.h"
#include "quant/sim/simulator.h"
#include "quant/weights/weights.h"

namespace requant {
namespace {

constexpr size_t kSamples = 8;
constexpr size_t kBins = 48;
constexpr int kWidths[] = {8, 4, 2};

struct Noise {
  double signal = 0, noise = 0;
  void Add(const Tensor& wanted, const Tensor& got) {
    if (wanted.dtype() != DType::kFloat32 || wanted.count() != got.count()) return;
    const float* a = wanted.data<float>();
    const float* b = got.data<float>();
    for (int64_t i = 0; i < wanted.count(); ++i) {
      const auto x = static_cast<double>(a[i]);
      const double error = x - static_cast<double>(b[i]);
      signal += x * x;
      noise += error * error;
    }
  }
  double Relative() const { return noise / (signal + 1e-300); }
  double Decibels() const { return noise > 0 ? -10 * std::log10(Relative()) : HUGE_VAL; }
};

/// The distribution of one value over the samples.
struct Look {
  const TensorQuantizationConfig* config = nullptr;
  double low = 0, high = 0;  // range of the histogram
  double min = 0, max = 0;
  int64_t count = 0, clipped = 0, zeros = 0;
  std::vector<int64_t> bins = std::vector<int64_t>(kBins);
  std::vector<float> channels;  // largest magnitude of each channel

  void Add(const Tensor& tensor) {
    const float* data = tensor.data<float>();
    const double least = static_cast<double>(config->quant_min - config->offset[0] - 0.5) * scale();
    const double most = static_cast<double>(config->quant_max - config->offset[0] + 0.5) * scale();
    const int axis = tensor.rank() > 2 ? 1 : static_cast<int>(tensor.rank()) - 1;
    const ChannelView view = ViewChannels(tensor.shape(), axis);
    channels.resize(static_cast<size_t>(view.channels));
    for (int64_t i = 0; i < tensor.count(); ++i) {
      const auto x = static_cast<double>(data[i]);
      min = count == 0 ? x : std::min(min, x);
      max = count == 0 ? x : std::max(max, x);
      ++count;
      clipped += x < least || x > most;
      zeros += std::fabs(x) < 0.5 * scale();
      const double place = (x - low) / (high - low) * static_cast<double>(kBins);
      ++bins[static_cast<size_t>(std::clamp(place, 0.0, kBins - 1.0))];
      float& largest = channels[static_cast<size_t>(i / view.inner % view.channels)];
      largest = std::max(largest, std::fabs(data[i]));
    }
  }
  double scale() const { return static_cast<double>(config->scale[0]); }
};

/// Ratio of the largest to the median of the positive magnitudes, and number of those above a third
/// of the largest.
struct Spread {
  double ratio = 1;
  int64_t outliers = 0;
};
Spread SpreadOf(std::vector<float> channels) {
  std::erase_if(channels, [](float x) { return !(x > 0); });
  if (channels.empty()) return {};
  std::sort(channels.begin(), channels.end());
  const auto middle = static_cast<double>(channels[channels.size() / 2]);
  const auto largest = static_cast<double>(channels.back());
  Spread spread{largest / middle, 0};
  for (const float x : channels) spread.outliers += static_cast<double>(x) > largest / 3;
  return spread;
}

struct Operator {
  const Node* node = nullptr;
  size_t index = 0;
  // nodes of the fused operator, itself included, in order of execution
  std::vector<size_t> members;
  const Value* result = nullptr;
  bool weighted = false;
  int64_t weights = 0;
  Noise alone, together;
  Noise width_noise[3];  // at the outputs, indexed like kWidths
  std::vector<float> by_width[3];
  Spread spread;
};

class Analysis : public RecoveryJob {
 public:
  explicit Analysis(const RecoveryContext& context)
      : context_(context), simulator_(context.graph, context.record) {
    for (auto& [name, bias] : context_.biases) {
      simulator_.SetWeights(context_.graph.FindNode(name), &bias);
    }
    FindOperators();
    samples_ = std::min(kSamples, context_.samples.size());
  }

  FinishProgress Step() override {
    const auto total = static_cast<int64_t>(samples_ * (operators_.size() + 1));
    if (sample_ >= samples_) return {"analyze", total, total, true};
    if (operator_ == 0) {
      Begin();
    } else {
      Measure(operators_[operator_ - 1]);
    }
    if (++operator_ > operators_.size()) {
      operator_ = 0;
      ++sample_;
    }
    const auto done = static_cast<int64_t>(sample_ * (operators_.size() + 1) + operator_);
    return {"analyze", done, total, sample_ >= samples_};
  }

  std::string detail() const override {
    JsonWriter json;
    json.BeginObject();
    json.Key("samples").Int(static_cast<int64_t>(samples_));
    json.Key("snr").Number(outputs_.Decibels());
    json.Key("operators").BeginArray();
    for (const Operator& op : operators_) WriteOperator(json, op);
    json.EndArray();
    json.Key("values").BeginArray();
    for (const Value* value : looked_) WriteLook(json, *value, looks_.at(value));
    json.EndArray().EndObject();
    return json.text();
  }

 private:
  void FindOperators() {
    const auto& nodes = simulator_.nodes();
    std::map<std::string, size_t> index;
    for (size_t i = 0; i < nodes.size(); ++i) index[nodes[i]->name] = i;
    for (size_t i = 0; i < nodes.size(); ++i) {
      const OperatorQuantization* op = context_.record.Find(nodes[i]->name);
      if (op == nullptr || !op->quantized || !op->absorbed_by.empty()) continue;
      Operator made;
      made.node = nodes[i];
      made.index = i;
      for (const std::string& name : op->table) made.members.push_back(index.at(name));
      if (op->table.empty()) made.members = {i};
      if (!op->activation.empty()) made.members.push_back(index.at(op->activation));
      made.result = nodes[made.members.back()]->outputs[0];
      made.weighted = simulator_.Layer(nodes[i]) != nullptr;
      if (made.weighted) Widths(made, *op);
      operators_.push_back(std::move(made));
    }
    for (const auto& node : nodes) {
      for (size_t slot = 0; slot < node->inputs.size(); ++slot)
        AddLook(node->inputs[slot], *node, slot);
    }
  }

  void AddLook(const Value* value, const Node& node, size_t slot) {
    const TensorQuantizationConfig* config = value ? simulator_.ReadConfig(node, slot) : nullptr;
    if (config == nullptr || config->scale.size() != 1 || looks_.contains(value)) return;
    Look look;
    look.config = config;
    const double scale = static_cast<double>(config->scale[0]);
    look.low = std::min(config->range_min, 0.0);
    look.high = std::max(config->range_max, look.low + scale);
    looks_[value] = look;
    looked_.push_back(value);
  }

  void Widths(Operator& made, const OperatorQuantization& op) {
    const Tensor& weights = made.node->inputs[1]->constant;
    const WeightMatrix view = ViewWeights(*made.node, op.rule);
    made.weights = weights.count();
    std::vector<float> rows(static_cast<size_t>(view.rows));
    for (int64_t row = 0; row < view.rows; ++row) {
      for (int64_t k = 0; k < view.k; ++k) {
        const float x = std::fabs(weights.data<float>()[view.At(row, k)]);
        rows[static_cast<size_t>(row)] = std::max(rows[static_cast<size_t>(row)], x);
      }
    }
    made.spread = SpreadOf(rows);
    const double in = static_cast<double>(context_.record.Root(op.inputs[0]).scale[0]);
    const double out =
        op.float_output ? 0 : static_cast<double>(context_.record.Root(op.outputs[0]).scale[0]);
    for (size_t i = 0; i < std::size(kWidths); ++i) {
      TensorQuantizationConfig config = context_.record.configs[static_cast<size_t>(
          op.inputs[static_cast<size_t>(WeightSlot(*made.node, op.rule))])];
      if (config.exponential()) return;
      config.bits = kWidths[i];
      const bool is_signed = config.quant_min < 0;
      config.dtype = is_signed ? DType::kInt8 : DType::kUint8;
      config.quant_max = (int64_t{1} << (is_signed ? config.bits - 1 : config.bits)) - 1;
      config.quant_min = !is_signed ? 0 : -config.quant_max - (config.symmetric() ? 0 : 1);
      config.observer = "mse";
      ScaleWeights(weights, view, in, out, {}, config);
      const Tensor rounded = DequantizeParameter(QuantizeParameter(weights, config), config);
      made.by_width[i].assign(rounded.data<float>(), rounded.data<float>() + rounded.count());
    }
  }

  /// Computes all values of the sample twice: in float, and quantized.
  void Begin() {
    const TensorMap& feeds = context_.samples[sample_];
    real_ = simulator_.Start(feeds);
    simulator_.Run(real_, SimMode::kFloat, 0, simulator_.nodes().size(), false);
    Values grid = simulator_.Start(feeds);
    simulator_.Run(grid, SimMode::kQuantized, 0, simulator_.nodes().size(), false);
    for (Operator& op : operators_) op.together.Add(real_.at(op.result), grid.at(op.result));
    for (const Value* output : simulator_.graph().outputs()) {
      if (real_.contains(output)) outputs_.Add(real_.at(output), grid.at(output));
    }
    for (auto& [value, look] : looks_) look.Add(real_.at(value));
  }

  /// Measures the operator alone, quantized with exact inputs, and then the noise that each width
  /// of its weights makes at the outputs.
  void Measure(Operator& op) {
    Values values = real_;
    for (const size_t member : op.members) {
      simulator_.Run(values, SimMode::kQuantized, member, member + 1, false);
    }
    op.alone.Add(real_.at(op.result), values.at(op.result));
    if (!op.weighted) return;
    SimLayer& layer = *simulator_.Layer(op.node);
    const std::vector<float> kept_bias = layer.bias;
    for (size_t i = 0; i < std::size(kWidths); ++i) {
      if (op.by_width[i].empty()) continue;
      std::swap(layer.weights, op.by_width[i]);
      layer.bias = layer.float_bias;
      Values changed = real_;
      for (const size_t member : op.members) {
        simulator_.Run(changed, SimMode::kQuantized, member, member + 1, false);
      }
      std::swap(layer.weights, op.by_width[i]);
      layer.bias = kept_bias;
      simulator_.Run(changed, SimMode::kFloat, op.members.back() + 1, simulator_.nodes().size(),
                     false);
      for (const Value* output : simulator_.graph().outputs()) {
        if (real_.contains(output)) op.width_noise[i].Add(real_.at(output), changed.at(output));
      }
    }
  }

  void WriteOperator(JsonWriter& json, const Operator& op) const {
    json.BeginObject();
    json.Key("name").String(op.node->name);
    json.Key("type").String(op.node->op_type);
    json.Key("input").String(op.node->inputs[0] ? op.node->inputs[0]->name : "");
    json.Key("value").String(op.result->name);
    json.Key("aloneSnr").Number(op.alone.Decibels());
    json.Key("snr").Number(op.together.Decibels());
    if (op.weighted) {
      json.Key("weights").Int(op.weights);
      json.Key("weightSpread").Number(op.spread.ratio);
      json.Key("weightOutliers").Int(op.spread.outliers);
      json.Key("noise").BeginObject();
      for (size_t i = 0; i < std::size(kWidths); ++i) {
        if (!op.by_width[i].empty()) {
          json.Key(StrCat(kWidths[i])).Number(op.width_noise[i].Relative());
        }
      }
      json.EndObject();
    }
    json.EndObject();
  }

  static void WriteLook(JsonWriter& json, const Value& value, const Look& look) {
    const Spread spread = SpreadOf(look.channels);
    const auto count = static_cast<double>(std::max<int64_t>(1, look.count));
    json.BeginObject();
    json.Key("name").String(value.name);
    json.Key("min").Number(look.min);
    json.Key("max").Number(look.max);
    json.Key("range").BeginArray().Number(look.config->range_min).Number(look.config->range_max);
    json.EndArray();
    json.Key("bits").Int(look.config->bits);
    json.Key("scale").Number(look.scale());
    json.Key("clipped").Number(static_cast<double>(look.clipped) / count);
    json.Key("zeros").Number(static_cast<double>(look.zeros) / count);
    json.Key("channels").Int(static_cast<int64_t>(look.channels.size()));
    json.Key("channelSpread").Number(spread.ratio);
    json.Key("channelOutliers").Int(spread.outliers);
    json.Key("histogram").BeginObject();
    json.Key("from").Number(look.low);
    json.Key("to").Number(look.high);
    json.Key("counts").BeginArray();
    for (const int64_t bin : look.bins) json.Int(bin);
    json.EndArray().EndObject().EndObject();
  }

  RecoveryContext context_;
  Simulator simulator_;
  std::vector<Operator> operators_;
  std::map<const Value*, Look> looks_;
  std::vector<const Value*> looked_;  // in the order of the operators that read them
  Values real_;
  Noise outputs_;
  size_t samples_ = 0, sample_ = 0, operator_ = 0;
};

}  // namespace

std::unique_ptr<RecoveryJob> MakeAnalysis(const RecoveryContext& context) {
  return std::make_unique<Analysis>(context);
}

}  // namespace requant
