#include "train/loss.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/str_cat.h"

namespace requant {
namespace {

void Softmax(const float* x, int64_t count, std::vector<double>& out) {
  out.resize(static_cast<size_t>(count));
  const double most = static_cast<double>(*std::max_element(x, x + count));
  double sum = 0;
  for (size_t i = 0; i < out.size(); ++i) {
    out[i] = std::exp(static_cast<double>(x[i]) - most);
    sum += out[i];
  }
  for (double& value : out) value /= sum;
}

double MinusLog(double p) { return -std::log(std::max(p, 1e-30)); }

}  // namespace

std::vector<const Value*> LossEnds(const Graph& graph) {
  std::vector<const Value*> ends;
  for (const Value* output : graph.outputs()) {
    // A model with outputs of 16 bits rounds them from float32.
    const bool rounded = IsHalf(output->type.dtype) && output->producer &&
                         output->producer->Is(Op::kCast) && output->producer->inputs[0];
    if (rounded) output = output->producer->inputs[0];
    if (output->type.dtype != DType::kFloat32 || output->producer == nullptr) continue;
    const Node& node = *output->producer;
    const bool softmax = (node.Is(Op::kSoftmax) || node.Is(Op::kLogSoftmax)) && !node.constant(0);
    ends.push_back(softmax ? node.inputs[0] : output);
  }
  return ends;
}

bool NeedsFloat(const TrainOptions& options, int64_t label) {
  return options.loss != TrainLoss::kScores || label < 0 || options.label_share < 1;
}

LossParts LossOf(const TrainOptions& options, const Tensor& got, const Tensor& wanted,
                 int64_t label, float weight, Tensor& gradient) {
  gradient = Tensor(DType::kFloat32, got.shape());
  auto* to = gradient.data<float>();
  const auto* y = got.data<float>();
  const float* target = wanted.empty() ? nullptr : wanted.data<float>();
  const bool scores = got.rank() >= 2 && got.shape().back() > 1 && got.count() > 0;
  LossParts parts;
  if (options.loss == TrainLoss::kScores && scores) {
    const int64_t classes = got.shape().back();
    const int64_t rows = got.count() / classes;
    const bool labelled = label >= 0;
    if (labelled && (rows != 1 || label >= classes)) {
      Fail(ErrorCode::kInvalidArgument,
           rows != 1 ? std::string("a label needs an output of one row")
                     : StrCat("label is ", label, " of ", classes, " classes"),
           {.value = "label"});
    }
    const double share = labelled ? options.label_share : 0;
    std::vector<double> p, t;
    for (int64_t begin = 0; begin < got.count(); begin += classes) {
      Softmax(y + begin, classes, p);
      t.assign(p.size(), 0);
      if (share < 1) Softmax(target + begin, classes, t);
      for (size_t i = 0; i < p.size(); ++i) {
        const double hit = labelled && static_cast<int64_t>(i) == label ? 1 : 0;
        const double aim = share * hit + (1 - share) * t[i];
        parts.loss += (share * hit * MinusLog(p[i]) +
                       (1 - share) * t[i] * (MinusLog(p[i]) - MinusLog(t[i]))) /
                      static_cast<double>(rows);
        to[begin + static_cast<int64_t>(i)] =
            weight * static_cast<float>((p[i] - aim) / static_cast<double>(rows));
      }
    }
    if (labelled) {
      parts.labelled = 1;
      parts.correct = std::max_element(y, y + classes) - y == label ? 1 : 0;
    }
    return parts;
  }
  double power = 1e-12;
  double error = 0;
  for (int64_t i = 0; i < got.count(); ++i) {
    const auto difference = static_cast<double>(y[i] - target[i]);
    power += static_cast<double>(target[i]) * static_cast<double>(target[i]);
    error += difference * difference;
  }
  const auto factor = static_cast<float>(2 / power) * weight;
  for (int64_t i = 0; i < got.count(); ++i) to[i] = factor * (y[i] - target[i]);
  parts.loss = error / power;
  return parts;
}

}  // namespace requant
