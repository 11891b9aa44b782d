// Compares sessions of several plans with the interpreter, saved ones as well.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "interpret/interpreter.h"
#include "ir/text.h"
#include "session/session.h"

namespace requant {

inline Tensor Ramp(Shape shape, float start = -1) {
  Tensor out(DType::kFloat32, std::move(shape));
  for (int64_t i = 0; i < out.count(); ++i) {
    out.data<float>()[i] = start + 0.37F * static_cast<float>((i * 7) % 11);
  }
  return out;
}

/// A saved session gives the same bits as before, and can be saved again.
inline void ExpectSameWhenSaved(Session& session, const TensorMap& feeds,
                                const std::vector<Tensor>& wanted) {
  auto bytes = std::make_shared<std::vector<uint8_t>>(session.Save());
  for (int round = 0; round < 2; ++round) {
    Session loaded(SharedBytes{bytes, *bytes}, {});
    // Save it before a run, when some plans are still missing, and after it.
    const auto early = std::make_shared<std::vector<uint8_t>>(loaded.Save());
    for (int run = 0; run < 2; ++run) {
      const std::vector<Tensor> got = loaded.Run(feeds);
      ASSERT_EQ(got.size(), wanted.size());
      for (size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(got[i].SameBits(wanted[i])) << i;
    }
    const auto late = std::make_shared<std::vector<uint8_t>>(loaded.Save());
    bytes = round == 0 ? early : late;
  }
}

inline void ExpectSame(Session& session, const Graph& graph, const TensorMap& feeds) {
  const std::vector<Tensor> wanted = Interpret(graph, feeds);
  const std::vector<Tensor> got = session.Run(feeds);
  ExpectSameWhenSaved(session, feeds, got);
  ASSERT_EQ(got.size(), wanted.size());
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_EQ(got[i].shape(), wanted[i].shape());
    ASSERT_EQ(got[i].count(), wanted[i].count());
    EXPECT_TRUE(got[i].is_owner());
    for (int64_t k = 0; k < got[i].count(); ++k) {
      ASSERT_NEAR(got[i].AsDouble(k), wanted[i].AsDouble(k), 1e-5) << "output " << i << " at " << k;
    }
  }
}

}  // namespace requant
