#include "report/metrics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace requant {
namespace {

TEST(ErrorMetrics, HandValues) {
  ErrorMetrics metrics;
  metrics.Add(std::vector<float>{3, 4}, std::vector<float>{3, 3});
  metrics.Add(std::vector<float>{0}, std::vector<float>{0});
  EXPECT_NEAR(metrics.Snr(), 10 * std::log10(25.0), 1e-12);
  EXPECT_NEAR(metrics.Cosine(), 21 / std::sqrt(25.0 * 18.0), 1e-12);
  EXPECT_EQ(metrics.MaxAbs(), 1);
  EXPECT_NEAR(metrics.MeanAbs(), 1.0 / 3, 1e-12);
  EXPECT_EQ(metrics.ReferenceRange(), 4);
}

TEST(ErrorMetrics, ExactAndBroken) {
  ErrorMetrics exact;
  exact.Add(std::vector<float>{1, -2}, std::vector<float>{1, -2});
  EXPECT_TRUE(std::isinf(exact.Snr()));
  EXPECT_NEAR(exact.Cosine(), 1, 1e-12);
  JsonWriter json;
  json.BeginObject();
  exact.Write(json);
  json.EndObject();
  EXPECT_NE(json.text().find("\"snr\":null"), std::string::npos);
  ErrorMetrics broken;
  broken.Add(std::vector<float>{1}, std::vector<float>{std::numeric_limits<float>::quiet_NaN()});
  EXPECT_TRUE(std::isnan(broken.Snr()));
  EXPECT_TRUE(std::isnan(broken.MaxAbs()));
  constexpr float kHidden = -std::numeric_limits<float>::infinity();
  ErrorMetrics masked;
  masked.Add(std::vector<float>{1, kHidden, 2}, std::vector<float>{1, kHidden, 3});
  EXPECT_EQ(masked.MaxAbs(), 1);
  EXPECT_EQ(masked.ReferenceRange(), 1);
  masked.Add(std::vector<float>{1}, std::vector<float>{kHidden});
  EXPECT_FALSE(std::isfinite(masked.MeanAbs()));
}

}  // namespace
}  // namespace requant
