// Small networks and their calibration, for the tests of the quantizer.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "base/lcg.h"
#include "interpret/interpreter.h"
#include "ir/graph.h"
#include "quant/quantizer.h"

namespace requant {

/// Deterministic noise, roughly normal.
class Noise {
 public:
  explicit Noise(uint32_t seed) : random_{seed * 747796405u + 1u} {}
  float Uniform() {  // [-1, 1)
    return static_cast<float>(random_.Next() >> 8) / 8388608.0f - 1.0f;
  }
  float Normal() { return Uniform() + Uniform() + Uniform(); }
  Tensor Make(Shape shape, float scale = 1, float shift = 0) {
    Tensor out(DType::kFloat32, std::move(shape));
    for (int64_t i = 0; i < out.count(); ++i) out.data<float>()[i] = Normal() * scale + shift;
    return out;
  }

 private:
  Lcg random_;
};

/// Builds graphs line by line.
class Builder {
 public:
  explicit Builder(int opset = 13) { graph.opsets[""] = opset; }

  Value* Input(const std::string& name, const Shape& shape) {
    Value* value = graph.AddValue(name, {DType::kFloat32, ToSymbolic(shape)});
    graph.AddInput(value);
    return value;
  }
  Value* Const(const std::string& name, Tensor tensor) {
    return graph.AddConstant(name, std::move(tensor));
  }
  Value* Op(const std::string& type, std::vector<Value*> inputs, const std::string& name,
            AttributeMap attributes = {}) {
    return graph.AddOp(type, "", std::move(inputs), name, {}, std::move(attributes),
                       name + "_node");
  }
  Value* Conv(Value* x, const std::string& name, Shape weights, int64_t pad, Noise& noise,
              int64_t group = 1, int64_t stride = 1) {
    AttributeMap attributes;
    attributes.Set("pads", std::vector<int64_t>{pad, pad, pad, pad});
    attributes.Set("strides", std::vector<int64_t>{stride, stride});
    attributes.Set("group", group);
    const int64_t rows = weights[0];
    const float fan = 1.0f / std::sqrt(static_cast<float>(weights[1] * weights[2] * weights[3]));
    Value* w = Const(name + "_w", noise.Make(std::move(weights), fan));
    Value* b = Const(name + "_b", noise.Make({rows}, 0.1f));
    return Op("Conv", {x, w, b}, name, std::move(attributes));
  }

  Graph graph;
};

/// conv-relu, depthwise conv-clip, conv; residual add-relu; maxpool; global average; gemm.
inline Graph SmallNetwork(uint32_t seed = 1) {
  Builder b;
  Noise noise(seed);
  Value* x = b.Input("x", {1, 3, 8, 8});
  Value* a = b.Op("Relu", {b.Conv(x, "conv1", {8, 3, 3, 3}, 1, noise)}, "relu1");
  Value* depthwise = b.Conv(a, "conv2", {8, 1, 3, 3}, 1, noise, 8);
  Value* clipped =
      b.Op("Clip",
           {depthwise, b.Const("zero", Tensor::Scalar(0.0f)), b.Const("six", Tensor::Scalar(6.0f))},
           "clip2");
  Value* linear = b.Conv(clipped, "conv3", {8, 8, 1, 1}, 0, noise);
  Value* sum = b.Op("Relu", {b.Op("Add", {a, linear}, "add")}, "relu3");
  AttributeMap window;
  window.Set("kernel_shape", std::vector<int64_t>{2, 2});
  window.Set("strides", std::vector<int64_t>{2, 2});
  Value* pooled = b.Op("MaxPool", {sum}, "pool", window);
  Value* mean = b.Op("GlobalAveragePool", {pooled}, "mean");
  AttributeMap flat;
  flat.Set("axis", int64_t{1});
  Value* rows = b.Op("Flatten", {mean}, "flat", flat);
  AttributeMap gemm;
  gemm.Set("transB", int64_t{1});
  b.graph.AddOutput(b.Op(
      "Gemm",
      {rows, b.Const("fc_w", noise.Make({5, 8}, 0.5f)), b.Const("fc_b", noise.Make({5}, 0.5f))},
      "y", gemm));
  return std::move(b.graph);
}

inline TensorMap RandomFeeds(const Graph& graph, uint32_t seed) {
  Noise noise(seed);
  TensorMap feeds;
  for (const Value* input : graph.inputs()) {
    feeds[input->name] = noise.Make(input->type.StaticShape(), 0.7f, 0.2f);
  }
  return feeds;
}

inline void Calibrate(Quantizer& quantizer, const Graph& graph, int samples) {
  for (int pass = 0; pass < quantizer.passes(); ++pass) {
    const std::vector<std::string> wanted = quantizer.observed_values(pass);
    for (int i = 0; i < samples; ++i) {
      const TensorMap feeds = RandomFeeds(graph, 100 + static_cast<uint32_t>(i));
      TensorMap seen = feeds;
      InterpretOptions options;
      options.observe = [&](const Value& value, const Tensor& tensor) {
        seen[value.name] = tensor;
      };
      Interpret(graph, feeds, options);
      for (const std::string& name : wanted) quantizer.Observe(pass, name, seen.at(name));
      quantizer.EndSample(pass);
    }
  }
}

inline QuantizedModel QuantizeGraph(const Graph& graph, QuantizeOptions options = {},
                                    int samples = 16) {
  Quantizer quantizer(FloatModel(graph), std::move(options));
  Calibrate(quantizer, graph, samples);
  return quantizer.Finish();
}

/// Signal to noise ratio in dB on some samples that calibration has not seen.
inline double Snr(const Graph& wanted, const Graph& got, int samples = 8) {
  double signal = 0;
  double noise = 0;
  for (int i = 0; i < samples; ++i) {
    const TensorMap feeds = RandomFeeds(wanted, 1000 + static_cast<uint32_t>(i));
    const std::vector<Tensor> a = Interpret(wanted, feeds);
    const std::vector<Tensor> b = Interpret(got, feeds);
    for (size_t output = 0; output < a.size(); ++output) {
      for (int64_t j = 0; j < a[output].count(); ++j) {
        const double x = a[output].AsDouble(j);
        const double error = x - b[output].AsDouble(j);
        signal += x * x;
        noise += error * error;
      }
    }
  }
  return 10 * std::log10(signal / (noise + 1e-30));
}

inline double LargestDifference(const Graph& a, const Graph& b, int samples = 8) {
  double largest = 0;
  for (int i = 0; i < samples; ++i) {
    const TensorMap feeds = RandomFeeds(a, 2000 + static_cast<uint32_t>(i));
    const std::vector<Tensor> x = Interpret(a, feeds);
    const std::vector<Tensor> y = Interpret(b, feeds);
    for (size_t output = 0; output < x.size(); ++output) {
      for (int64_t j = 0; j < x[output].count(); ++j) {
        largest = std::fmax(largest, std::fabs(x[output].AsDouble(j) - y[output].AsDouble(j)));
      }
    }
  }
  return largest;
}

inline int CountOps(const Graph& graph, const std::string& type) {
  int count = 0;
  for (const auto& node : graph.nodes()) count += node->op_type == type;
  return count;
}

inline float OutputScale(const QuantizedModel& model, const std::string& node) {
  return model.record.Root(model.record.operators.at(node).outputs[0]).scale[0];
}

}  // namespace requant
