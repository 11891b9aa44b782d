// Before: maker -> x -> (Relu, Clip, Add, Mul, pool) -> reader, where the channels of x have
//   different ranges
// After: channel c of the maker is multiplied by f_c, the weights of the readers that meet channel
//   c are divided by f_c
// Conditions: see scaling_groups.h. Behind Clip(0, b): f_c >= 1, and f_c * max_c stays below b with
//   some margin, so that the clip cuts only values that calibration has never seen.
// Formula: f_c = w_c^(1 - a) / m_c^a, where m_c is the largest magnitude of channel c and w_c that
//   of the weights which meet it (SmoothQuant, Xiao et al. 2023, arXiv 2211.10438, eq. 4); behind a
//   clip f_c = (max m / m_c)^a. Every group tries several exponents a (as AWQ does, Lin et al.
//   2023, arXiv 2306.00978, section 3.2): the readers are computed with x and the weights on their
//   grids, and the choice with the least error is kept; no change at all is one of the choices. m_c
//   counts as at least a quarter of the median channel's: that removes 15/16 of the noise already,
//   and a channel that is quiet in calibration may be loud later.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/str_cat.h"
#include "quant/assign/assign.h"
#include "quant/grid/affine.h"
#include "quant/recover/equalize/chains.h"
#include "quant/recover/equalize/scaling_trial.h"
#include "quant/recover/recovery.h"
#include "quant/sim/elements.h"
#include "quant/sim/layer.h"
#include "quant/sim/simulator.h"
#include "quant/weights/weights.h"

namespace requant {
namespace {

constexpr int64_t kTrialSamples = 8;
/// A choice must be clearly better than none, as it is made on few samples.
constexpr double kMargin = 0.95;

/// Whether equalization can help the group: its layers and their grids decide. Activations with one
/// scale per channel need none.
bool IsUseful(const ScalingGroup& group, const QuantizationRecord& record) {
  return std::all_of(group.readers.begin(), group.readers.end(), [&](const Node* node) {
    const OperatorQuantization* op = record.Find(node->name);
    if (op == nullptr || !op->quantized || WeightSlot(*node, op->rule) < 0) return false;
    const TensorQuantizationConfig& input = record.Root(op->inputs[0]);
    return !input.per_channel() && !input.exponential();
  });
}

/// Whether the value exists by itself, which those between a layer and its activation do not.
bool IsWatched(const Value& value) {
  return std::none_of(value.consumers.begin(), value.consumers.end(),
                      [](const Node* node) { return node->Is(Op::kRelu) || node->Is(Op::kClip); });
}

/// Equalizes by two passes over the samples that precede calibration. The first finds the channels'
/// ranges; the second tries, on the first samples, what each way to equalize does to the layers
/// that read the values. Shards give what one pass gives, to the last bit: ranges have no order,
/// and errors are kept by sample.
class ActivationEqualizer : public SampleRewriter {
 public:
  /// Changes the graph's constants in Apply(). With `only_transformers` it leaves groups alone that
  /// are not IsOfTransformer().
  ActivationEqualizer(Graph& graph, const QuantizationRecord& record, bool only_transformers);
  int passes() const override { return groups_.empty() ? 0 : 2; }
  bool Wants(int pass, int64_t sample) const override;
  std::vector<std::string> Values(int pass) const override;
  void Observe(int pass, int64_t sample, const std::string& value, const Tensor& tensor) override;
  void Fields(StateBytes& state, int pass) override;
  void Merge(const SampleRewriter& later, int pass) override;
  /// The result's noise is that in the outputs of the layers that read, on average.
  Result Apply() override;

 private:
  void ShowRanges(ScalingTrial& group, const Value* value, const Tensor& tensor);
  void Try(ScalingTrial& group, const Node& reader, const Tensor& tensor, int64_t sample);

  const QuantizationRecord& record_;
  std::vector<ScalingTrial> groups_;
};

ActivationEqualizer::ActivationEqualizer(Graph& graph, const QuantizationRecord& record,
                                         bool only_transformers)
    : record_(record) {
  for (ScalingGroup& scaling : FindScalingGroups(graph)) {
    if (!IsUseful(scaling, record) || (only_transformers && !IsOfTransformer(scaling))) continue;
    ScalingTrial group;
    group.low.assign(static_cast<size_t>(scaling.channels), 0);
    group.high = group.low;
    for (const auto& [value, axis] : scaling.axes) {
      if (IsWatched(*value)) group.watched.push_back(value);
    }
    group.scaling = std::move(scaling);
    groups_.push_back(std::move(group));
  }
}

std::vector<std::string> ActivationEqualizer::Values(int pass) const {
  std::vector<std::string> names;
  for (const ScalingTrial& group : groups_) {
    if (pass == 0) {
      for (const Value* value : group.watched) names.push_back(value->name);
      continue;
    }
    for (const Node* reader : group.scaling.readers) {
      const std::string& name = reader->inputs[0]->name;
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    }
  }
  return names;
}

bool ActivationEqualizer::Wants(int pass, int64_t sample) const {
  return pass == 0 || sample < kTrialSamples;
}

void ActivationEqualizer::Observe(int pass, int64_t sample, const std::string& value,
                                  const Tensor& tensor) {
  for (ScalingTrial& group : groups_) {
    for (const auto& [own, axis] : group.scaling.axes) {
      if (own->name != value) continue;
      if (pass == 0) {
        ShowRanges(group, own, tensor);
        return;
      }
      for (const Node* reader : group.scaling.readers) {
        if (reader->inputs[0] == own) Try(group, *reader, tensor, sample);
      }
      return;
    }
  }
}

void ActivationEqualizer::ShowRanges(ScalingTrial& group, const Value* value,
                                     const Tensor& tensor) {
  const ChannelView view = ViewChannels(tensor.shape(), group.scaling.axes.at(value));
  if (view.channels != group.scaling.channels) {
    Fail(ErrorCode::kShapeMismatch,
         StrCat("value '", value->name, "' has ", view.channels, " channels, not ",
                group.scaling.channels),
         {.value = value->name});
  }
  const float* data = tensor.data<float>();
  for (int64_t at = 0; at < tensor.count(); at += view.inner) {
    const auto c = static_cast<size_t>(at / view.inner % view.channels);
    const auto [least, most] = std::minmax_element(data + at, data + at + view.inner);
    group.low[c] = std::min(group.low[c], *least);
    group.high[c] = std::max(group.high[c], *most);
  }
}

void ActivationEqualizer::Try(ScalingTrial& group, const Node& reader, const Tensor& tensor,
                              int64_t sample) {
  group.FindFactors();
  group.PrepareReader(record_, reader);
  LayerMath math(reader, record_.operators.at(reader.name).rule);
  const Tensor wanted = math.Forward(tensor, reader.constant(1)->data<float>(), {});
  ChoiceErrors errors;
  errors.sample = sample;
  errors.reader = static_cast<uint64_t>(
      std::find(group.scaling.readers.begin(), group.scaling.readers.end(), &reader) -
      group.scaling.readers.begin());
  const float* right = wanted.data<float>();
  for (int64_t i = 0, n = wanted.count(); i < n; ++i) {
    errors.power += static_cast<double>(right[i]) * static_cast<double>(right[i]);
  }
  TensorQuantizationConfig config = group.InputOf(record_, reader);
  const ChannelView view = ViewChannels(tensor.shape(), group.scaling.axes.at(reader.inputs[0]));
  for (size_t choice = 0; choice < kChoices; ++choice) {
    const std::vector<float>& factors = group.factors[choice];
    double low = 0;
    double high = 0;
    for (size_t c = 0; c < factors.size(); ++c) {
      low = std::min(low, static_cast<double>(group.low[c] * factors[c]));
      high = std::max(high, static_cast<double>(group.high[c] * factors[c]));
    }
    const Affine affine = AffineFromRange(low, high, config);
    affine.PutInto(config);
    Tensor scaled(DType::kFloat32, tensor.shape());
    const float* from = tensor.data<float>();
    auto* to = scaled.data<float>();
    for (int64_t begin = 0; begin < tensor.count(); begin += view.inner) {
      const float factor = factors[static_cast<size_t>(begin / view.inner % view.channels)];
      for (int64_t i = begin; i < begin + view.inner; ++i) to[i] = from[i] * factor;
    }
    const Tensor got = math.Forward(FakeQuantizeTensor(scaled, config),
                                    group.readers.at(&reader).weights[choice].data(), {});
    const float* made = got.data<float>();
    double noise = 0;
    for (int64_t i = 0, n = wanted.count(); i < n; ++i) {
      const double error = static_cast<double>(right[i]) - static_cast<double>(made[i]);
      noise += error * error;
    }
    errors.noise[choice] += noise;
  }
  group.errors.push_back(errors);
}

void ActivationEqualizer::Fields(StateBytes& state, int pass) {
  for (ScalingTrial& group : groups_) {
    const size_t channels = group.low.size();
    state.List(group.low);
    state.List(group.high);
    if (pass > 0) state.List(group.errors);
    if (group.low.size() != channels || group.high.size() != channels) {
      Fail(ErrorCode::kInvalidArgument, "the calibration state is that of another network");
    }
  }
}

void ActivationEqualizer::Merge(const SampleRewriter& later, int pass) {
  const auto& same = static_cast<const ActivationEqualizer&>(later);
  for (size_t i = 0; i < groups_.size(); ++i) {
    ScalingTrial& group = groups_[i];
    const ScalingTrial& other = same.groups_[i];
    if (pass == 1) {
      group.errors.insert(group.errors.end(), other.errors.begin(), other.errors.end());
      continue;
    }
    for (size_t c = 0; c < group.low.size(); ++c) {
      group.low[c] = std::min(group.low[c], other.low[c]);
      group.high[c] = std::max(group.high[c], other.high[c]);
    }
  }
}

SampleRewriter::Result ActivationEqualizer::Apply() {
  int64_t changed = 0;
  int64_t layers = 0;
  double before = 0;
  double after = 0;
  // All factors are found before any weights change, as groups may share a layer.
  for (ScalingTrial& group : groups_) group.FindFactors();
  for (ScalingTrial& group : groups_) {
    const size_t readers = group.scaling.readers.size();
    std::vector<double> power(readers);
    std::vector<double> noise[kChoices];
    for (std::vector<double>& one : noise) one.resize(readers);
    std::stable_sort(group.errors.begin(), group.errors.end(),
                     [](const ChoiceErrors& a, const ChoiceErrors& b) {
                       return a.sample != b.sample ? a.sample < b.sample : a.reader < b.reader;
                     });
    for (const ChoiceErrors& errors : group.errors) {
      if (errors.reader >= readers) continue;
      power[errors.reader] += errors.power;
      for (size_t choice = 0; choice < kChoices; ++choice) {
        noise[choice][errors.reader] += errors.noise[choice];
      }
    }
    const auto relative = [&](size_t choice) {
      double sum = 0;
      for (size_t i = 0; i < readers; ++i) sum += noise[choice][i] / (power[i] + 1e-30);
      return sum;
    };
    size_t best = 0;
    for (size_t choice = 1; choice < kChoices; ++choice) {
      if (relative(choice) < (best == 0 ? kMargin : 1) * relative(best)) best = choice;
    }
    before += relative(0);
    after += relative(best);
    layers += static_cast<int64_t>(readers);
    if (best == 0) continue;
    ++changed;
    const std::vector<float>& factors = group.factors[best];
    const auto edit = [](Node& node, size_t slot, auto&& body) {
      Value* value = node.inputs[slot];
      value->constant = value->constant.Clone();
      body(value->constant.data<float>(), value->constant.count());
    };
    for (Node* node : group.scaling.makers) {
      const bool conv = node->Is(Op::kConv);
      const bool rows = conv || node->attributes.Int("transB", 0) != 0;
      const auto channels = static_cast<int64_t>(factors.size());
      edit(*node, 1, [&](float* data, int64_t count) {
        const int64_t inner = rows ? count / channels : 1;
        for (int64_t i = 0; i < count; ++i) {
          data[i] *= factors[static_cast<size_t>(i / inner % channels)];
        }
      });
      if (node->input(2) == nullptr) continue;
      edit(*node, 2, [&](float* data, int64_t count) {
        for (int64_t i = 0; i < count; ++i) data[i] *= factors[static_cast<size_t>(i)];
      });
    }
    for (Node* node : group.scaling.readers) {
      edit(*node, 1, [&](float* data, int64_t) {
        ForWeights(*node, group.scaling.channels, [&](int64_t at, int64_t channel) {
          data[at] /= factors[static_cast<size_t>(channel)];
        });
      });
    }
  }
  Result result;
  const double count = std::max<double>(1, static_cast<double>(layers));
  result.before_db = -10 * std::log10(before / count + 1e-30);
  result.after_db = -10 * std::log10(after / count + 1e-30);
  result.detail = StrCat(changed, " of ", groups_.size(), " groups of channels equalized");
  return result;
}

}  // namespace

std::unique_ptr<SampleRewriter> MakeActivationEqualizer(Graph& graph,
                                                        const QuantizationRecord& record) {
  return std::make_unique<ActivationEqualizer>(graph, record, false);
}

std::unique_ptr<SampleRewriter> MakeTransformerEqualizer(Graph& graph,
                                                         const QuantizationRecord& record) {
  return std::make_unique<ActivationEqualizer>(graph, record, true);
}

}  // namespace requant
