#include "quant/sim/answers.h"

#include <algorithm>
#include <cmath>
#include <functional>

namespace requant {
namespace {

constexpr int64_t kNext = 16;  // scores of classes further behind hardly ever win
constexpr int kPoints = 50;    // points on either side of the density of the first score's noise
constexpr double kStep = 0.1;  // standard deviations between two points

double NormalShareBelow(double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); }

}  // namespace

void AnswerOdds::Add(const Tensor& scores) {
  if (scores.dtype() != DType::kFloat32 || scores.rank() != 2 || scores.dim(1) < 2) return;
  const int64_t classes = scores.dim(1);
  const auto next = static_cast<size_t>(std::min(kNext + 1, classes));
  for (int64_t row = 0; row < scores.dim(0); ++row) {
    const float* begin = scores.data<float>() + row * classes;
    std::vector<double> largest(next);
    std::partial_sort_copy(begin, begin + classes, largest.begin(), largest.end(),
                           std::greater<>());
    std::vector<double> gaps;
    for (size_t i = 1; i < next; ++i) gaps.push_back(largest[0] - largest[i]);
    gaps_.push_back(std::move(gaps));
  }
}

/// The first score with noise t stays first if the noise of every other score is below its gap plus
/// t: the integral of density(t) * product over j of share_below(gap_j / sigma + t).
double AnswerOdds::Kept(double variance) const {
  if (gaps_.empty() || !(variance > 0)) return 100;
  const double sigma = std::sqrt(variance);
  double kept = 0;
  double all = 0;
  for (int point = -kPoints; point <= kPoints; ++point) {
    const double t = point * kStep;
    const double density = std::exp(-t * t / 2);
    for (const std::vector<double>& gaps : gaps_) {
      double stays = density;
      for (const double gap : gaps) stays *= NormalShareBelow(gap / sigma + t);
      kept += stays;
      all += density;
    }
  }
  return 100 * kept / all;
}

}  // namespace requant
