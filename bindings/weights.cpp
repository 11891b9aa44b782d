// Binds the quantization of weights alone, in the module of the tools.
#include <emscripten/bind.h>

#include <memory>
#include <optional>
#include <string>

#include "handles.h"
#include "quantized_handle.h"
#include "read_option.h"
#include "threads.h"

namespace requant::bindings {
namespace {

using emscripten::val;

/// Returns { model, left: JSON }.
val WithLeft(Graph graph, const FloatWeights& left) {
  val out = val::object();
  out.set("model", WrapModel(std::move(graph)));
  out.set("left", left.Json());
  return out;
}

/// Reads { bits, block, matMulNBits, int8Activations, embeddings, symmetric }.
WeightOnlyOptions ReadWeightOnlyOptions(const val& options) {
  return {.bits = options["bits"].as<int>(),
          .block = options["block"].as<int>(),
          .matmul_nbits = options["matMulNBits"].as<bool>(),
          .int8_activations = options["int8Activations"].as<bool>(),
          .embedding_bits = options["embeddings"].as<int>(),
          .symmetric = options["symmetric"].as<bool>()};
}

/// Reads { rotate, rotateSize }; nothing if inputs are not to be rotated.
std::optional<RotationOptions> ReadRotation(const val& options, const WeightOnlyOptions& weights) {
  const auto rotate = options["rotate"].as<std::string>();
  if (rotate.empty()) return std::nullopt;
  return RotationOptions{.weights = weights,
                         .feedback = options["feedback"].as<bool>(),
                         .size = options["rotateSize"].as<int>(),
                         .always = rotate == "always"};
}

/// { more, done, total } of what is quantized in steps.
template <typename Steps>
val StepOf(Steps& steps) {
  val out = val::object();
  out.set("more", steps.Step());
  out.set("done", static_cast<double>(steps.done()));
  out.set("total", static_cast<double>(steps.total()));
  return out;
}

class WeightQuantizerHandle {
 public:
  WeightQuantizerHandle(const Graph& graph, const WeightOnlyOptions& options, std::string layers)
      : layers_(std::move(layers)), quantizer_(graph, options, &left_) {}

  val Step() {
    return Guard([this] { return StepOf(quantizer_); });
  }
  val Finish() {
    return Guard([this] {
      val out = WithLeft(quantizer_.Finish(), left_);
      if (!layers_.empty()) out.set("layers", layers_);
      return out;
    });
  }

 private:
  std::string layers_;
  FloatWeights left_;
  WeightQuantizer quantizer_;
};

val CreateWeightQuantizer(const ModelHandle& model, const val& options) {
  return Guard([&] {
    std::string layers;
    const WeightOnlyOptions weights = ReadWeightOnlyOptions(options);
    Graph graph = WithFloats(*model.graph());
    const std::optional<RotationOptions> rotation = ReadRotation(options, weights);
    if (rotation) graph = RotateForWeights(graph, *rotation, layers);
    return val(std::make_shared<WeightQuantizerHandle>(graph, weights, std::move(layers)));
  });
}

val Dynamically(const ModelHandle& model, bool embeddings, bool by_row, int weight_bits,
                bool int8_attention) {
  return Guard([&] {
    FloatWeights left;
    Graph graph = QuantizeDynamically(WithFloats(*model.graph()), &left,
                                      {.embeddings = embeddings,
                                       .by_row = by_row,
                                       .weight_bits = weight_bits,
                                       .int8_attention = int8_attention});
    return WithLeft(std::move(graph), left);
  });
}

class WeightsCalibratorHandle {
 public:
  WeightsCalibratorHandle(const Graph& graph, const CalibratedOptions& options,
                          const RotationOptions* rotation)
      : calibrator_(graph, options, Threads(), rotation) {}

  int Passes() const { return calibrator_.passes(); }
  val Add(int pass, const val& names, const val& types, const val& dims, const val& pointers) {
    return Guard([&] {
      calibrator_.Add(pass, ReadFeeds(names, types, dims, pointers));
      return val::undefined();
    });
  }
  val Step() {
    return Guard([this] { return StepOf(calibrator_); });
  }
  val Finish() {
    return Guard([this] {
      FloatWeights left;
      Graph graph = calibrator_.Finish(&left);
      val out = WithLeft(std::move(graph), left);
      out.set("layers", calibrator_.LayersJson());
      return out;
    });
  }

 private:
  WeightsCalibrator calibrator_;
};

val CreateWeightsCalibrator(const ModelHandle& model, const val& options) {
  return Guard([&] {
    const CalibratedOptions read{.weights = ReadWeightOnlyOptions(options),
                                 .feedback = options["feedback"].as<bool>(),
                                 .scale = options["scale"].as<bool>()};
    const std::optional<RotationOptions> rotation = ReadRotation(options, read.weights);
    return val(std::make_shared<WeightsCalibratorHandle>(WithFloats(*model.graph()), read,
                                                         rotation ? &*rotation : nullptr));
  });
}

}  // namespace

void BindWeights() {
  emscripten::class_<WeightsCalibratorHandle>("WeightsCalibrator")
      .smart_ptr<std::shared_ptr<WeightsCalibratorHandle>>("WeightsCalibratorPtr")
      .function("passes", &WeightsCalibratorHandle::Passes)
      .function("add", &WeightsCalibratorHandle::Add)
      .function("step", &WeightsCalibratorHandle::Step)
      .function("finish", &WeightsCalibratorHandle::Finish);
  emscripten::class_<WeightQuantizerHandle>("WeightQuantizer")
      .smart_ptr<std::shared_ptr<WeightQuantizerHandle>>("WeightQuantizerPtr")
      .function("step", &WeightQuantizerHandle::Step)
      .function("finish", &WeightQuantizerHandle::Finish);
  emscripten::function("createWeightQuantizer", &CreateWeightQuantizer);
  emscripten::function("dynamically", &Dynamically);
  emscripten::function("createWeightsCalibrator", &CreateWeightsCalibrator);
}

}  // namespace requant::bindings
