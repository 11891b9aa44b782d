#include "report/compare.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "base/error.h"
#include "base/str_cat.h"
#include "tensor/text.h"

namespace requant {
namespace {

constexpr const char* kQuantizedSuffix = "_q";

std::string FloatNameOf(const std::string& candidate_value) {
  const size_t length = candidate_value.size();
  return length > 2 && candidate_value.ends_with(kQuantizedSuffix)
             ? candidate_value.substr(0, length - 2)
             : candidate_value;
}

double Median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

int64_t ArgMax(std::span<const float> values) {
  if (values.empty()) return -1;
  return std::max_element(values.begin(), values.end()) - values.begin();
}

TensorMap Named(const Graph& graph, std::vector<Tensor> tensors) {
  TensorMap out;
  for (size_t i = 0; i < tensors.size(); ++i) out[graph.outputs()[i]->name] = std::move(tensors[i]);
  return out;
}

void WriteMemory(JsonWriter& json, const char* key, const Session& session) {
  const SessionMemory memory = session.memory();
  json.Key(key).BeginObject();
  json.Key("arena").Int(static_cast<int64_t>(memory.arena));
  json.Key("lowerBound").Int(static_cast<int64_t>(memory.arena_lower_bound));
  json.Key("packedWeights").Int(static_cast<int64_t>(memory.packed_weights));
  json.EndObject();
}

/// The elements as numbers; strings as 1 where they are the expected ones, else 0.
std::vector<float> ComparedNumbers(const Tensor& tensor, const Tensor& expected) {
  if (!IsText(tensor.dtype())) return tensor.ToFloats();
  const std::vector<std::string_view> texts = TextsOf(tensor);
  const std::vector<std::string_view> wanted = TextsOf(expected);
  std::vector<float> out;
  for (size_t i = 0; i < texts.size(); ++i) out.push_back(texts[i] == wanted[i] ? 1 : 0);
  return out;
}

}  // namespace

Comparer::Comparer(PreparedModel reference, PreparedModel candidate, CompareOptions options)
    : options_(options), reference_(std::move(reference)), candidate_(std::move(candidate)) {
  for (const Value* output : reference_.graph().outputs()) {
    const Value* other = candidate_.graph().FindValue(output->name);
    if (other == nullptr || !candidate_.graph().IsOutput(other)) {
      Fail(ErrorCode::kInvalidArgument,
           StrCat("the quantized model has no output '", output->name, "'"),
           {.value = output->name, .hint = "compare a model with its own quantized form"});
    }
    OutputParts parts = FindOutputParts(*output);
    const size_t count = parts.parts.size();
    outputs_.push_back({output->name, {}, std::move(parts), std::vector<ErrorMetrics>(count)});
  }
  SessionOptions plain;
  plain.plan.requantize = options_.requantize;
  plain.runner = options_.runner;
  float_session_ = std::make_unique<Session>(reference_.Clone(), plain);
  candidate_session_ = std::make_unique<Session>(candidate_.Clone(), plain);
  if (!options_.layerwise) return;
  affine_ = FindAffineValues(candidate_.graph());
  FindLayers();
  std::vector<std::string> float_taps;
  std::vector<std::string> candidate_taps;
  for (const auto& [name, affine] : affine_) float_taps.push_back(FloatNameOf(name));
  for (const Layer& layer : layers_) {
    float_taps.push_back(layer.value);
    candidate_taps.push_back(layer.candidate_value);
  }
  float_tapped_ = std::make_unique<Session>(WithTaps(reference_, float_taps), plain);
  candidate_tapped_ = std::make_unique<Session>(WithTaps(candidate_, candidate_taps), plain);
}

Comparer::~Comparer() = default;

void Comparer::FindLayers() {
  for (const auto& node : candidate_.graph().nodes()) {
    if (node->Is(Op::kQuantizeLinear) || node->Is(Op::kDequantizeLinear)) continue;
    for (const Value* output : node->outputs) {
      if (output == nullptr) continue;
      const std::string name = FloatNameOf(output->name);
      const Value* reference = reference_.graph().FindValue(name);
      const bool comparable =
          output->type.dtype == DType::kFloat32 || affine_.find(output->name) != affine_.end();
      if (reference == nullptr || reference->is_constant() || !comparable ||
          reference->type.dtype != DType::kFloat32) {
        continue;
      }
      const bool tables = !output->consumers.empty() &&
                          std::all_of(output->consumers.begin(), output->consumers.end(),
                                      [](const Node* reader) { return reader->Is(Op::kLut); });
      layers_.push_back(
          {node->name, node->op_type, name, node.get(), output->name, tables, {}, {}});
      break;
    }
  }
}

SampleResult Comparer::Add(const TensorMap& feeds, int64_t label) {
  const auto clock = [this] { return options_.now ? options_.now() : 0; };
  SampleResult result;
  const double start = clock();
  const TensorMap reference = Named(reference_.graph(), float_session_->Run(feeds));
  const double middle = clock();
  const TensorMap candidate = Named(candidate_.graph(), candidate_session_->Run(feeds));
  const double end = clock();
  result.float_ms = middle - start;
  result.candidate_ms = end - middle;
  if (samples_ > 0 || float_ms_.empty()) {  // the first run of a session also plans
    float_ms_.push_back(result.float_ms);
    candidate_ms_.push_back(result.candidate_ms);
  }
  ++samples_;
  if (samples_ == 2) {
    float_ms_.erase(float_ms_.begin());
    candidate_ms_.erase(candidate_ms_.begin());
  }
  for (size_t i = 0; i < outputs_.size(); ++i) {
    const Tensor& expected = reference.at(outputs_[i].name);
    const Tensor& actual = candidate.at(outputs_[i].name);
    if (expected.shape() != actual.shape()) {
      Fail(ErrorCode::kShapeMismatch,
           StrCat("output '", outputs_[i].name, "' is ", ShapeToString(expected.shape()),
                  " in the float model and ", ShapeToString(actual.shape()), " in the other"),
           {.value = outputs_[i].name});
    }
    const std::vector<float> e = ComparedNumbers(expected, expected);
    const std::vector<float> a = ComparedNumbers(actual, expected);
    outputs_[i].error.Add(e, a);
    for (size_t part = 0; part < outputs_[i].errors_of_parts.size(); ++part) {
      const OutputParts& parts = outputs_[i].parts;
      outputs_[i].errors_of_parts[part].Add(PartOf(e, expected.shape(), parts, part),
                                            PartOf(a, expected.shape(), parts, part));
    }
    if (i > 0 || expected.rank() < 1 || expected.count() == 0) continue;
    const auto rows = static_cast<size_t>(expected.rank() > 1 ? expected.dim(0) : 1);
    const size_t classes = e.size() / rows;
    for (size_t row = 0; row < rows; ++row) {
      const int64_t x = ArgMax(std::span(e).subspan(row * classes, classes));
      const int64_t y = ArgMax(std::span(a).subspan(row * classes, classes));
      ++rows_;
      agree_ += x == y;
      if (rows == 1) {
        result.float_top1 = x;
        result.candidate_top1 = y;
        if (label >= 0) {
          ++labelled_;
          float_right_ += x == label;
          candidate_right_ += y == label;
        }
      }
    }
  }
  if (options_.layerwise) CompareLayers(feeds, samples_ <= options_.alone_samples);
  return result;
}

void Comparer::CompareLayers(const TensorMap& feeds, bool alone) {
  TensorMap reference = Named(float_tapped_->graph(), float_tapped_->Run(feeds));
  const TensorMap candidate = Named(candidate_tapped_->graph(), candidate_tapped_->Run(feeds));
  for (const auto& [name, tensor] : feeds) reference.emplace(name, tensor);
  for (Layer& layer : layers_) {
    const auto expected = reference.find(layer.value);
    const auto actual = candidate.find(layer.candidate_value);
    if (expected == reference.end() || actual == candidate.end() ||
        expected->second.count() != actual->second.count()) {
      continue;
    }
    const auto affine = affine_.find(layer.candidate_value);
    const Tensor real =
        affine == affine_.end() ? actual->second : DequantizeTensor(actual->second, affine->second);
    layer.graphwise.Add(Wanted(layer, expected->second).values<float>(), real.values<float>());
    // A float operator has an error of its own where it replaces another operator of the float
    // model.
    const Value* value = reference_.graph().FindValue(layer.value);
    const Node* original = value ? value->producer : nullptr;
    const bool replaced =
        original && !original->Is(layer.node->op_type, layer.node->domain) && layer.node->output();
    if (alone && (affine != affine_.end() || replaced)) MeasureAlone(layer, reference);
  }
}

// Measures the layer by itself: exact float inputs are quantized and run through its reference.
void Comparer::MeasureAlone(Layer& layer, const TensorMap& taps) {
  std::vector<Tensor> made;
  made.reserve(layer.node->inputs.size());
  std::vector<const Tensor*> inputs;
  for (const Value* input : layer.node->inputs) {
    if (input == nullptr || input->is_constant()) {
      inputs.push_back(input ? &input->constant : nullptr);
      continue;
    }
    const auto tap = taps.find(FloatNameOf(input->name));
    if (tap == taps.end()) return;
    const auto affine = affine_.find(input->name);
    if (affine != affine_.end()) {
      made.push_back(QuantizeTensor(tap->second, affine->second, input->type.dtype));
    } else if (input->type.dtype == DType::kFloat32) {
      made.push_back(tap->second);
    } else {
      return;
    }
    inputs.push_back(&made.back());
  }
  const std::vector<Tensor> results =
      EvaluateNode(candidate_.graph(), *layer.node, inputs, options_.requantize);
  const Tensor& expected = taps.at(layer.value);
  if (results[0].count() != expected.count()) return;
  const auto affine = affine_.find(layer.candidate_value);
  if (affine == affine_.end() && results[0].dtype() != DType::kFloat32) return;
  const Tensor real =
      affine == affine_.end() ? results[0] : DequantizeTensor(results[0], affine->second);
  layer.alone.Add(Wanted(layer, expected).values<float>(), real.values<float>());
}

Tensor Comparer::Wanted(const Layer& layer, const Tensor& expected) const {
  const auto affine = affine_.find(layer.candidate_value);
  if (!layer.tables || affine == affine_.end()) return expected;
  return ClampTensor(expected, affine->second, layer.node->outputs[0]->type.dtype);
}

std::string Comparer::Report() const {
  JsonWriter json;
  json.BeginObject();
  json.Key("samples").Int(samples_);
  json.Key("labelled").Int(labelled_);
  json.Key("outputs").BeginArray();
  for (const Output& output : outputs_) {
    json.BeginObject().Key("name").String(output.name);
    output.error.Write(json);
    if (!output.parts.parts.empty()) {
      json.Key("parts").BeginArray();
      for (size_t part = 0; part < output.errors_of_parts.size(); ++part) {
        if (output.errors_of_parts[part].empty()) continue;
        json.BeginObject().Key("name").String(output.parts.parts[part].name);
        output.errors_of_parts[part].Write(json);
        json.EndObject();
      }
      json.EndArray();
    }
    json.EndObject();
  }
  json.EndArray();
  json.Key("top1").BeginObject();
  json.Key("float").Int(float_right_);
  json.Key("candidate").Int(candidate_right_);
  json.Key("agreement").Int(agree_);
  json.Key("rows").Int(rows_);
  json.EndObject();
  json.Key("layers").BeginArray();
  for (const Layer& layer : layers_) {
    if (layer.graphwise.empty()) continue;
    json.BeginObject();
    json.Key("name").String(layer.name);
    json.Key("op").String(layer.op);
    json.Key("value").String(layer.value);
    layer.graphwise.Write(json);
    if (!layer.alone.empty()) {
      json.Key("aloneSnr").Number(layer.alone.Snr());
      json.Key("aloneCosine").Number(layer.alone.Cosine());
      json.Key("aloneMaxAbs").Number(layer.alone.MaxAbs());
    }
    json.EndObject();
  }
  json.EndArray();
  json.Key("size").BeginObject();
  json.Key("floatBytes").Int(static_cast<int64_t>(options_.float_bytes));
  json.Key("candidateBytes").Int(static_cast<int64_t>(options_.candidate_bytes));
  json.EndObject();
  const double float_ms = Median(float_ms_);
  const double candidate_ms = Median(candidate_ms_);
  json.Key("latency").BeginObject();
  json.Key("floatMs").Number(float_ms);
  json.Key("candidateMs").Number(candidate_ms);
  json.Key("ratio").Number(float_ms / candidate_ms);
  json.EndObject();
  json.Key("memory").BeginObject();
  WriteMemory(json, "float", *float_session_);
  WriteMemory(json, "candidate", *candidate_session_);
  json.EndObject();
  json.EndObject();
  return json.text();
}

}  // namespace requant
