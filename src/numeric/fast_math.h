#pragma once
// Constants of the fast approximations (ai.requant::FastExp and its relatives), shared by a
// reference in double and kernels in float. Freestanding.

namespace requant::fast_math {

// e^x = 2^n * e^r with an integer n and |r| <= L = ln(2) / 2. e^r is its Taylor polynomial up to
// r^6, in which Chebyshev's polynomials T6 and T5 on [-L, L] economize the terms of 6th and 5th
// degree (Lanczos, "Applied Analysis", 1956, ch. VII): 1 + kE1 r + kE2 r^2 + kE3 r^3 + kE4 r^4. The
// relative error is below 3e-6: L^5 / (120 * 16) from one term, L^6 / (720 * 32) from the other.
inline constexpr double kHalfLn2 = 0.34657359027997265;
inline constexpr double kSquare = kHalfLn2 * kHalfLn2;
inline constexpr double kE1 = 1 - kSquare * kSquare / 384;
inline constexpr double kE2 = 0.5 - kSquare * kSquare / 1280;
inline constexpr double kE3 = 1.0 / 6 + kSquare / 96;
inline constexpr double kE4 = 1.0 / 24 + kSquare / 480;
/// Below kExpLow the result is 0; above kExpHigh it stays at its value there.
inline constexpr double kExpLow = -87.3;
inline constexpr double kExpHigh = 88.3;

// tanh(x) = x * P(x^2) / Q(x^2), the first four steps of Lambert's continued fraction (Abramowitz &
// Stegun, "Handbook of Mathematical Functions", 4.5.70), for |x| up to kTanhEnd, where it reaches
// 1. The error is largest there, below 1e-4.
inline constexpr double kTanhEnd = 4.97;
inline constexpr double kTanhP0 = 135135, kTanhP1 = 17325, kTanhP2 = 378;
inline constexpr double kTanhQ1 = 62370, kTanhQ2 = 3150, kTanhQ3 = 28;

// erf(x) = 1 - 1 / (1 + a1 x + ... + a6 x^6)^16 for x >= 0 (Abramowitz & Stegun, 7.1.28): error
// below 3e-7.
inline constexpr double kErf[6] = {0.0705230784, 0.0422820123, 0.0092705272,
                                   0.0001520143, 0.0002765672, 0.0000430638};

}  // namespace requant::fast_math
