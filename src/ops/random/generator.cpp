#include "ops/random/generator.h"

#include <cmath>
#include <cstring>
#include <span>

namespace requant {
namespace {

uint32_t unseeded_streams = 0;

/// Fills `out` with the numbers of one counter.
void Philox(const uint32_t (&key)[2], uint64_t counter, uint32_t (&out)[4]) {
  uint32_t k0 = key[0];
  uint32_t k1 = key[1];
  uint32_t c[4] = {static_cast<uint32_t>(counter), static_cast<uint32_t>(counter >> 32), 0, 0};
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xD2511F53} * c[0];
    const uint64_t b = uint64_t{0xCD9E8D57} * c[2];
    c[0] = static_cast<uint32_t>(b >> 32) ^ c[1] ^ k0;
    c[1] = static_cast<uint32_t>(b);
    c[2] = static_cast<uint32_t>(a >> 32) ^ c[3] ^ k1;
    c[3] = static_cast<uint32_t>(a);
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  for (int i = 0; i < 4; ++i) out[i] = c[i];
}

/// The natural logarithm by 2 artanh((m - 1) / (m + 1)), since the one of the standard library
/// differs between machines.
double Log(double x) {
  int exponent = 0;
  double m = std::frexp(x, &exponent);
  if (m < 0.70710678118654752) {
    m *= 2;
    --exponent;
  }
  const double s = (m - 1) / (m + 1);
  const double square = s * s;
  double sum = 0;
  for (int k = 27; k >= 1; k -= 2) {
    sum = sum * square;
    sum = sum + 1.0 / k;
  }
  const double scaled = 2 * s * sum;
  return exponent * 0.69314718055994531 + scaled;
}

double Polynomial(std::span<const double> coefficients, double x) {
  double sum = 0;
  for (size_t i = coefficients.size(); i-- > 0;) {
    sum = sum * x;
    sum = sum + coefficients[i];
  }
  return sum;
}

constexpr double kA[] = {3.3871328727963666080,    1.3314166789178437745e+2,
                         1.9715909503065514427e+3, 1.3731693765509461125e+4,
                         4.5921953931549871457e+4, 6.7265770927008700853e+4,
                         3.3430575583588128105e+4, 2.5090809287301226727e+3};
constexpr double kB[] = {1,
                         4.2313330701600911252e+1,
                         6.8718700749205790830e+2,
                         5.3941960214247511077e+3,
                         2.1213794301586595867e+4,
                         3.9307895800092710610e+4,
                         2.8729085735721942674e+4,
                         5.2264952788528545610e+3};
constexpr double kC[] = {1.42343711074968357734,    4.63033784615654529590,
                         5.76949722146069140550,    3.64784832476320460504,
                         1.27045825245236838258,    2.41780725177450611770e-1,
                         2.27238449892691845833e-2, 7.74545014278341407640e-4};
constexpr double kD[] = {1,
                         2.05319162663775882187,
                         1.67638483018380384940,
                         6.89767334985100004550e-1,
                         1.48103976427480074590e-1,
                         1.51986665636164571966e-2,
                         5.47593808499534494600e-4,
                         1.05075007164441684324e-9};
constexpr double kE[] = {6.65790464350110377720,    5.46378491116411436990,
                         1.78482653991729133580,    2.96560571828504891230e-1,
                         2.65321895265761230930e-2, 1.24266094738807843860e-3,
                         2.71155556874348757815e-5, 2.01033439929228813265e-7};
constexpr double kF[] = {1,
                         5.99832206555887937690e-1,
                         1.36929880922735805310e-1,
                         1.48753612908506148525e-2,
                         7.86869131145613259100e-4,
                         1.84631831751005468180e-5,
                         1.42151175831644588870e-7,
                         2.04426310338993978564e-15};

}  // namespace

double InverseNormal(double p) {
  const double q = p - 0.5;
  if (std::fabs(q) <= 0.425) {
    const double square = q * q;
    const double r = 0.180625 - square;
    return q * Polynomial(kA, r) / Polynomial(kB, r);
  }
  const double r = std::sqrt(-Log(q < 0 ? p : 1 - p));
  const double value = r <= 5 ? Polynomial(kC, r - 1.6) / Polynomial(kD, r - 1.6)
                              : Polynomial(kE, r - 5) / Polynomial(kF, r - 5);
  return q < 0 ? -value : value;
}

double PortableExp(double x) {
  if (!(x >= -745)) return 0;
  const double k = std::nearbyint(x * 1.4426950408889634);
  const double high = k * 0.693147180369123816490;  // ln 2 in two parts, the first of 33 bits
  const double low = k * 1.90821492927058770002e-10;
  const double r = x - high - low;
  double sum = 1;
  for (int i = 16; i >= 1; --i) {
    const double term = r / i;
    sum = 1 + term * sum;
  }
  return std::ldexp(sum, static_cast<int>(k));
}

RandomStream::RandomStream(const AttributeMap& attributes) : key_{0, 1} {
  if (!attributes.Has("seed")) {
    key_[0] = unseeded_streams++;
    return;
  }
  const float seed = attributes.Float("seed", 0);
  std::memcpy(&key_[0], &seed, sizeof(seed));
  key_[1] = 0;
}

uint32_t RandomStream::Bits() {
  if (next_ % 4 == 0) Philox(key_, next_ / 4, block_);
  return block_[next_++ % 4];
}

double RandomStream::Normal() { return InverseNormal((Bits() + 0.5) * 0x1p-32); }

}  // namespace requant
