// SVMClassifier and SVMRegressor of ai.onnx.ml (onnx docs/Operators-ml.md), and the probabilities
// of libsvm (Wu, Lin, Weng: Probability estimates for multi-class classification by pairwise
// coupling, JMLR 2004, method 2).
#include <algorithm>
#include <cmath>
#include <vector>

#include "base/error.h"
#include "base/late_text.h"
#include "base/parse_name.h"
#include "base/str_cat.h"
#include "ops/infer_util.h"
#include "ops/ml/scores.h"
#include "ops/table.h"

namespace requant {
namespace {

enum class Kernel : uint8_t { kLinear, kPoly, kRbf, kSigmoid };

/// The function of two vectors, and the support vectors.
struct Machine {
  Kernel kernel = Kernel::kLinear;
  double gamma = 0;
  double coef0 = 0;
  double degree = 0;
  std::vector<float> vectors;
  std::vector<float> coefficients;
  std::vector<float> rho;

  explicit Machine(const AttributeMap& attributes)
      : vectors(attributes.Floats("support_vectors")),
        coefficients(attributes.Floats("coefficients")),
        rho(attributes.Floats("rho")) {
    constexpr const char* kNames[] = {"LINEAR", "POLY", "RBF", "SIGMOID"};
    const std::string name = attributes.String("kernel_type", kNames[0]);
    if (!ParseName(name, kNames, &kernel)) {
      Fail(ErrorCode::kInvalidModel, StrCat(RQ_LATE_TEXT("kernel_type "), name));
    }
    const std::vector<float> parameters = attributes.Floats("kernel_params");
    if (parameters.size() == 3) {
      gamma = parameters[0];
      coef0 = parameters[1];
      degree = parameters[2];
    }
  }
  double Apply(const double* x, const float* y, int64_t count) const {
    double sum = 0;
    for (int64_t i = 0; i < count; ++i) {
      sum += kernel == Kernel::kRbf ? (x[i] - y[i]) * (x[i] - y[i]) : x[i] * y[i];
    }
    switch (kernel) {
      case Kernel::kPoly:
        return std::pow(gamma * sum + coef0, degree);
      case Kernel::kRbf:
        return std::exp(-gamma * sum);
      case Kernel::kSigmoid:
        return std::tanh(gamma * sum + coef0);
      default:
        return sum;
    }
  }
};

[[noreturn]] void WrongSizes(const Node& node) {
  Fail(ErrorCode::kInvalidModel,
       StrCat(RQ_LATE_TEXT("the lists of "), node.op_type, RQ_LATE_TEXT(" do not fit each other")),
       {.node = node.name});
}
void Check(bool fits, const Node& node) {
  if (!fits) WrongSizes(node);
}

// --- SVMRegressor

void InferSvmRegressor(InferContext& context) {
  RequireFeatures(context);
  SetOutput(context, 0, DType::kFloat32, SymbolicShape{RowsOf(context), 1});
}

void EvaluateSvmRegressor(EvalContext& context) {
  const FeatureRows x = ReadFeatures(context.input(0));
  const Machine machine(context.attributes());
  const auto columns = static_cast<size_t>(x.columns);
  const int64_t count = context.attributes().Int("n_supports", 0);
  const bool vectors = count > 0;
  Check(machine.rho.size() == 1 &&
            (vectors ? machine.coefficients.size() == static_cast<size_t>(count) &&
                           machine.vectors.size() == machine.coefficients.size() * columns
                     : machine.coefficients.size() == columns),
        context.node);
  const bool one_class = context.attributes().Int("one_class", 0) != 0;
  Tensor out(DType::kFloat32, {x.rows, 1});
  for (int64_t row = 0; row < x.rows; ++row) {
    double sum = machine.rho[0];
    if (vectors) {
      for (size_t i = 0; i < machine.coefficients.size(); ++i) {
        sum += machine.coefficients[i] *
               machine.Apply(x.row(row), machine.vectors.data() + i * columns, x.columns);
      }
    } else {
      sum += machine.Apply(x.row(row), machine.coefficients.data(), x.columns);
    }
    std::vector<double> score = {one_class ? (sum > 0 ? 1.0 : -1.0) : sum};
    if (!one_class) ApplyPostTransform(ReadPostTransform(context.attributes()), score);
    out.data<float>()[row] = static_cast<float>(score[0]);
  }
  context.outputs[0] = out;
}

// --- SVMClassifier

/// The probabilities of classes by those of all pairs, p[i * n + j] of i against j.
std::vector<double> Couple(const std::vector<double>& p, size_t n) {
  std::vector<double> q(n * n);
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = 0; j < n; ++j) {
      if (i == j) continue;
      q[i * n + i] += p[j * n + i] * p[j * n + i];
      q[i * n + j] = -p[j * n + i] * p[i * n + j];
    }
  }
  std::vector<double> out(n, 1.0 / static_cast<double>(n));
  std::vector<double> qp(n);
  const double epsilon = 0.005 / static_cast<double>(n);
  for (int round = 0; round < 100; ++round) {
    double pqp = 0;
    for (size_t i = 0; i < n; ++i) {
      qp[i] = 0;
      for (size_t j = 0; j < n; ++j) qp[i] += q[i * n + j] * out[j];
      pqp += out[i] * qp[i];
    }
    double error = 0;
    for (size_t i = 0; i < n; ++i) error = std::max(error, std::fabs(qp[i] - pqp));
    if (error < epsilon) break;
    for (size_t i = 0; i < n; ++i) {
      const double by = (pqp - qp[i]) / q[i * n + i];
      out[i] += by;
      pqp = (pqp + by * (by * q[i * n + i] + 2 * qp[i])) / (1 + by) / (1 + by);
      for (size_t j = 0; j < n; ++j) {
        qp[j] = (qp[j] + by * q[i * n + j]) / (1 + by);
        out[j] /= 1 + by;
      }
    }
  }
  return out;
}

class Classifier {
 public:
  explicit Classifier(const Node& node)
      : node_(node),
        machine_(node.attributes),
        labels_(node.attributes, "classlabels_ints"),
        per_class_(node.attributes.Ints("vectors_per_class")),
        prob_a_(node.attributes.Floats("prob_a")),
        prob_b_(node.attributes.Floats("prob_b")),
        transform_(ReadPostTransform(node.attributes)) {
    for (const int64_t count : per_class_) {
      Check(count >= 0 && count < int64_t{1} << 31, node);
      first_.push_back(vectors_);
      vectors_ += static_cast<size_t>(count);
    }
    classes_ = vectors_ > 0 ? per_class_.size() : labels_.size();
    pairs_ = classes_ * (classes_ - 1) / 2;
    Check(classes_ > 0 && classes_ < 1 << 15 && labels_.size() <= classes_ + 1, node);
    if (vectors_ == 0) {
      Check(!machine_.rho.empty(), node);
      return;
    }
    Check(machine_.coefficients.size() == vectors_ * (classes_ - 1) &&
              machine_.rho.size() == pairs_ && prob_a_.size() == prob_b_.size() &&
              (prob_a_.empty() || prob_a_.size() == pairs_) && labels_.size() == classes_,
          node);
  }

  const ClassLabels& labels() const { return labels_; }
  /// The number of scores of a row.
  size_t columns() const {
    if (vectors_ == 0) return classes_;
    // Two classes have one sum, which becomes two scores.
    return Probable() || classes_ == 2 ? classes_ : pairs_;
  }

  std::vector<double> Row(const double* x, int64_t columns, int64_t& label) const {
    if (vectors_ == 0) return LinearRow(x, columns, label);
    const auto width = static_cast<size_t>(columns);
    Check(machine_.vectors.size() == vectors_ * width, node_);
    std::vector<double> kernels;
    for (size_t i = 0; i < vectors_; ++i) {
      kernels.push_back(machine_.Apply(x, machine_.vectors.data() + i * width, columns));
    }
    std::vector<double> sums;
    std::vector<double> votes(classes_);
    for (size_t i = 0; i < classes_; ++i) {
      for (size_t j = i + 1; j < classes_; ++j) {
        const double sum =
            Side(kernels, i, j - 1) + Side(kernels, j, i) + machine_.rho[sums.size()];
        ++votes[sum > 0 ? i : j];
        sums.push_back(sum);
      }
    }
    if (Probable()) {
      std::vector<double> scores = Couple(Pairs(sums), classes_);
      label = labels_[LargestOf(votes)];
      ApplyPostTransform(transform_, scores);
      return scores;
    }
    label = labels_[LargestOf(votes)];
    if (classes_ == 2) return Pair(sums[0], label);
    ApplyPostTransform(transform_, sums);
    return sums;
  }

 private:
  bool Probable() const { return !prob_a_.empty(); }

  /// The sum over the support vectors of a class with its coefficients against another.
  double Side(const std::vector<double>& kernels, size_t of, size_t row) const {
    double sum = 0;
    for (size_t k = 0; k < static_cast<size_t>(per_class_[of]); ++k) {
      const size_t at = first_[of] + k;
      sum += machine_.coefficients[row * vectors_ + at] * kernels[at];
    }
    return sum;
  }
  std::vector<double> Pairs(const std::vector<double>& sums) const {
    std::vector<double> p(classes_ * classes_);
    size_t at = 0;
    for (size_t i = 0; i < classes_; ++i) {
      for (size_t j = i + 1; j < classes_; ++j, ++at) {
        const double value = 1 - Logistic(sums[at] * prob_a_[at] + prob_b_[at]);
        p[i * classes_ + j] = std::clamp(value, 1e-7, 1 - 1e-7);
        p[j * classes_ + i] = 1 - p[i * classes_ + j];
      }
    }
    return p;
  }
  std::vector<double> LinearRow(const double* x, int64_t columns, int64_t& label) const {
    Check(machine_.coefficients.size() == classes_ * static_cast<size_t>(columns), node_);
    std::vector<double> scores;
    for (size_t i = 0; i < classes_; ++i) {
      const float* weights = machine_.coefficients.data() + i * static_cast<size_t>(columns);
      scores.push_back(machine_.Apply(x, weights, columns) + machine_.rho[0]);
    }
    label = labels_[LargestOf(scores)];
    ApplyPostTransform(transform_, scores);
    return scores;
  }
  /// The scores of two classes, whose sum is positive for the first.
  std::vector<double> Pair(double sum, int64_t& label) const {
    label = labels_[sum > 0 ? 0 : 1];
    return ScoresOf(
        sum, transform_,
        transform_ == PostTransform::kNone ? SecondClass::kNegative : SecondClass::kComplement);
  }

  const Node& node_;
  Machine machine_;
  ClassLabels labels_;
  std::vector<int64_t> per_class_;
  std::vector<size_t> first_;
  std::vector<float> prob_a_;
  std::vector<float> prob_b_;
  PostTransform transform_;
  size_t vectors_ = 0;
  size_t classes_ = 0;
  size_t pairs_ = 0;
};

void InferSvmClassifier(InferContext& context) {
  const Classifier classifier(context.node);
  InferClassifier(context, classifier.columns(), classifier.labels());
}

void EvaluateSvmClassifier(EvalContext& context) {
  const FeatureRows x = ReadFeatures(context.input(0));
  const Classifier classifier(context.node);
  RowLabels labels(classifier.labels(), x.rows);
  Tensor out(DType::kFloat32, {x.rows, static_cast<int64_t>(classifier.columns())});
  float* to = out.data<float>();
  for (int64_t row = 0; row < x.rows; ++row) {
    for (const double score : classifier.Row(x.row(row), x.columns, labels[row])) {
      *to++ = static_cast<float>(score);
    }
  }
  context.outputs[0] = labels.tensor;
  if (context.outputs.size() > 1) context.outputs[1] = out;
}

constexpr OpDef kRows[] = {
    {"SVMRegressor", kMlDomain, 1, 1, 1, 1, InferSvmRegressor, EvaluateSvmRegressor,
     QuantRule::kFloat},
    {"SVMClassifier", kMlDomain, 1, 1, 1, 2, InferSvmClassifier, EvaluateSvmClassifier,
     QuantRule::kFloat},
};

}  // namespace

std::span<const OpDef> SupportVectorsOps() { return kRows; }

}  // namespace requant
