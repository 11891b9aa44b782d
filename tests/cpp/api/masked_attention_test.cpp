// Queries whose keys are all masked give y = 0 in every attention operator, and in the operator
// that FuseAttention makes of the decomposed form, with fast kernels and with references. All other
// rows are softmaxes over the visible keys.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "api/requant.h"
#include "base/str_cat.h"
#include "support/thread_runner.h"

namespace requant {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

/// The sizes of an attention. (The score of a query and a key gets an addend from the caller.)
struct Form {
  int64_t batch = 2, heads = 4, kv_heads = 4, queries = 3, keys = 5, width = 4;
  double softcap = 0;
};

struct Operands {
  Tensor q, k, v;  // [batch, heads, tokens, width]
};

Tensor Numbers(Shape shape, int seed) {
  Tensor out(DType::kFloat32, std::move(shape));
  for (int64_t i = 0; i < out.count(); ++i) {
    out.data<float>()[i] = static_cast<float>(std::sin(0.7 * static_cast<double>(i) + seed)) * 2;
  }
  return out;
}

Operands OperandsOf(const Form& f) {
  return {Numbers({f.batch, f.heads, f.queries, f.width}, 1),
          Numbers({f.batch, f.kv_heads, f.keys, f.width}, 2),
          Numbers({f.batch, f.kv_heads, f.keys, f.width}, 3)};
}

/// Converts [batch, heads, tokens, width] to [batch, tokens, heads * width].
Tensor Flat(const Tensor& x) {
  const int64_t heads = x.dim(1), tokens = x.dim(2), width = x.dim(3);
  Tensor out(DType::kFloat32, {x.dim(0), tokens, heads * width});
  for (int64_t b = 0; b < x.dim(0); ++b) {
    for (int64_t h = 0; h < heads; ++h) {
      for (int64_t t = 0; t < tokens; ++t) {
        for (int64_t i = 0; i < width; ++i) {
          out.data<float>()[((b * tokens + t) * heads + h) * width + i] =
              x.data<float>()[((b * heads + h) * tokens + t) * width + i];
        }
      }
    }
  }
  return out;
}

/// y [batch, heads, queries, width] in double; `added(b, h, i, j)` is -infinity if key j is hidden
/// from query i.
template <typename Added>
Tensor Wanted(const Form& f, const Operands& in, const Added& added) {
  Tensor y(DType::kFloat32, {f.batch, f.heads, f.queries, f.width});
  const int64_t group = f.heads / f.kv_heads;
  int64_t at = 0;
  for (int64_t b = 0; b < f.batch; ++b) {
    for (int64_t h = 0; h < f.heads; ++h) {
      const int64_t shared = (b * f.kv_heads + h / group) * f.keys * f.width;
      for (int64_t i = 0; i < f.queries; ++i) {
        const float* q = in.q.data<float>() + ((b * f.heads + h) * f.queries + i) * f.width;
        std::vector<double> weights(static_cast<size_t>(f.keys), 0.0);
        double largest = -HUGE_VAL;
        for (int pass = 0; pass < 2; ++pass) {
          for (int64_t j = 0; j < f.keys; ++j) {
            const double more = added(b, h, i, j);
            if (std::isinf(more)) continue;
            double score = 0;
            for (int64_t c = 0; c < f.width; ++c) {
              score += double{q[c]} * double{in.k.data<float>()[shared + j * f.width + c]};
            }
            score /= std::sqrt(static_cast<double>(f.width));
            if (f.softcap > 0) score = f.softcap * std::tanh(score / f.softcap);
            score += more;
            if (pass == 0) largest = std::max(largest, score);
            if (pass == 1) weights[static_cast<size_t>(j)] = std::exp(score - largest);
          }
        }
        double sum = 0;
        for (const double weight : weights) sum += weight;
        for (int64_t c = 0; c < f.width; ++c) {
          double mixed = 0;
          for (int64_t j = 0; j < f.keys; ++j) {
            mixed += weights[static_cast<size_t>(j)] *
                     double{in.v.data<float>()[shared + j * f.width + c]};
          }
          y.data<float>()[at++] = static_cast<float>(sum > 0 ? mixed / sum : 0);
        }
      }
    }
  }
  return y;
}

std::string ShapeText(const Shape& shape) {
  std::string out;
  for (const int64_t dim : shape) out += StrCat(out.empty() ? "" : ", ", dim);
  return out;
}

std::string InputText(const TensorMap& feeds) {
  std::string out;
  for (const auto& [name, tensor] : feeds) {
    out += StrCat("input %", name, ": ", DTypeName(tensor.dtype()), "[", ShapeText(tensor.shape()),
                  "]\n");
  }
  return out;
}

void ExpectNear(const Tensor& got, const Tensor& wanted, const std::string& what,
                double tolerance = 2e-5) {
  ASSERT_EQ(got.count(), wanted.count()) << what;
  for (int64_t i = 0; i < got.count(); ++i) {
    const double number = got.AsDouble(i);
    ASSERT_FALSE(std::isnan(number)) << what << " at " << i;
    ASSERT_NEAR(number, wanted.AsDouble(i), tolerance) << what << " at " << i;
    if (wanted.AsDouble(i) == 0) {
      ASSERT_EQ(number, 0) << what << " at " << i;
    }
  }
}

/// Compares the interpreter and sessions, of the graph as it is and after the passes.
void ExpectAttention(const std::string& opsets, const std::string& body, const TensorMap& feeds,
                     const Tensor& wanted, double tolerance = 2e-5) {
  const std::string text =
      StrCat("graph \"\" ", opsets, "\n", InputText(feeds), body, "\noutput %y\n");
  ExpectNear(Interpret(ParseGraph(text), feeds)[0], wanted, "interpreted " + text, tolerance);
  testing::ThreadRunner runner(3);
  for (const bool optimize : {false, true}) {
    for (const int threads : {1, 3}) {
      Graph graph = ParseGraph(text);
      if (optimize) RunPasses(graph, {});
      SessionOptions options;
      options.plan.threads = threads;
      if (threads > 1) options.runner = &runner;
      Session session(PreparedModel::AsIs(std::move(graph)), options);
      ExpectNear(session.Run(feeds)[0], wanted,
                 StrCat(optimize ? "optimized " : "", threads, " threads ", text), tolerance);
    }
  }
}

/// Sizes for which the kernels for few queries, packed operands and several panels are chosen.
std::vector<Form> Forms() {
  return {{}, {1, 2, 2, 1, 7}, {1, 4, 4, 20, 33, 8}, {1, 1, 1, 70, 1500, 4}};
}

/// Every third query sees no key; the others see all keys but some.
bool IsSeen(int64_t b, int64_t h, int64_t i, int64_t j) {
  return (b + h + i) % 3 != 0 && (i + j) % 4 != 1;
}
double Hidden(int64_t b, int64_t h, int64_t i, int64_t j) {
  return IsSeen(b, h, i, j) ? 0 : -HUGE_VAL;
}

/// One mask for all heads.
Tensor MaskOf(const Form& f, bool boolean) {
  Tensor mask(boolean ? DType::kBool : DType::kFloat32, {f.batch, f.heads, f.queries, f.keys});
  int64_t at = 0;
  for (int64_t b = 0; b < f.batch; ++b) {
    for (int64_t h = 0; h < f.heads; ++h) {
      for (int64_t i = 0; i < f.queries; ++i) {
        for (int64_t j = 0; j < f.keys; ++j, ++at) {
          const bool seen = IsSeen(b, h, i, j);
          if (boolean) {
            mask.data<uint8_t>()[at] = seen;
          } else {
            mask.data<float>()[at] = seen ? 0 : kNever;
          }
        }
      }
    }
  }
  return mask;
}

TEST(MaskedAttention, OfOnnx) {
  for (const Form& form : Forms()) {
    for (const int64_t kv_heads : {form.heads, int64_t{1}}) {
      for (const bool boolean : {true, false}) {
        for (const double softcap : {0.0, 1.5}) {
          Form f = form;
          f.kv_heads = kv_heads;
          f.softcap = softcap;
          const Operands in = OperandsOf(f);
          ExpectAttention("opset 23",
                          StrCat("%y = Attention(%q, %k, %v, %m) {softcap = ",
                                 softcap > 0 ? "1.5" : "0.0", "}"),
                          {{"q", in.q}, {"k", in.k}, {"v", in.v}, {"m", MaskOf(f, boolean)}},
                          Wanted(f, in, Hidden));
        }
      }
    }
  }
}

/// Keys beyond the end of a mask are hidden; with causality the first queries see nothing.
TEST(MaskedAttention, ShortMasksAndCausality) {
  const Form f;
  const Operands in = OperandsOf(f);
  Tensor mask(DType::kBool, {f.queries, 3});
  for (int64_t i = 0; i < mask.count(); ++i) mask.data<uint8_t>()[i] = i % 3 == 1;
  ExpectAttention("opset 23", "%y = Attention(%q, %k, %v, %m) {is_causal = 1}",
                  {{"q", in.q}, {"k", in.k}, {"v", in.v}, {"m", mask}},
                  Wanted(f, in, [](int64_t, int64_t, int64_t i, int64_t j) {
                    return j == 1 && j <= i ? 0 : -HUGE_VAL;
                  }));
}

TEST(MaskedAttention, LengthsShorterThanTheQueries) {
  for (const bool causal : {true, false}) {
    for (const int64_t length : {0, 1, 2, 5}) {
      const Form f;
      const Operands in = OperandsOf(f);
      const int64_t border = length - f.queries;
      ExpectAttention(
          "opset 24",
          StrCat("%y = Attention(%q, %k, %v, _, _, _, %n) {is_causal = ", causal ? 1 : 0, "}"),
          {{"q", in.q}, {"k", in.k}, {"v", in.v}, {"n", Tensor::Vector<int64_t>({length, f.keys})}},
          Wanted(f, in, [&](int64_t b, int64_t, int64_t i, int64_t j) {
            const int64_t end = b == 0 ? length : f.keys;
            const int64_t edge = b == 0 ? border : f.keys - f.queries;
            return j < end && (!causal || j <= i + edge) ? 0 : -HUGE_VAL;
          }));
    }
  }
}

TEST(MaskedAttention, APast) {
  const Form f;
  const Operands in = OperandsOf(f);
  // The first two keys come from the cache, the others with the queries.
  const auto part = [&](const Tensor& all, int64_t from, int64_t to) {
    Tensor out(DType::kFloat32, {f.batch, f.kv_heads, to - from, f.width});
    for (int64_t h = 0; h < f.batch * f.kv_heads; ++h) {
      std::copy_n(all.data<float>() + (h * f.keys + from) * f.width, (to - from) * f.width,
                  out.data<float>() + h * (to - from) * f.width);
    }
    return out;
  };
  ExpectAttention("opset 23", "%y, %pk, %pv = Attention(%q, %k, %v, %m, %ok, %ov)",
                  {{"q", in.q},
                   {"k", part(in.k, 2, 5)},
                   {"v", part(in.v, 2, 5)},
                   {"m", MaskOf(f, true)},
                   {"ok", part(in.k, 0, 2)},
                   {"ov", part(in.v, 0, 2)}},
                  Wanted(f, in, Hidden));
}

TEST(MaskedAttention, MultiHead) {
  for (const Form& f : Forms()) {
    const Operands in = OperandsOf(f);
    for (const bool causal : {false, true}) {
      if (causal && f.queries > f.keys) continue;
      const Tensor y = Wanted(f, in, [&](int64_t b, int64_t h, int64_t i, int64_t j) {
        return causal && j > i ? -HUGE_VAL : Hidden(b, h, i, j);
      });
      ExpectAttention(
          "opset 17, com.microsoft 1",
          StrCat("%y = com.microsoft::MultiHeadAttention(%q, %k, %v, _, _, %m) "
                 "{num_heads = ",
                 f.heads, ", unidirectional = ", causal ? 1 : 0, "}"),
          {{"q", Flat(in.q)}, {"k", Flat(in.k)}, {"v", Flat(in.v)}, {"m", MaskOf(f, false)}},
          Flat(y));
    }
  }
}

/// A filter of -infinity hides keys; ONNX Runtime's value of -10000 is an ordinary number, which
/// shifts all scores of a row alike.
TEST(MaskedAttention, KeyPadding) {
  const Form f;
  const Operands in = OperandsOf(f);
  Tensor padding(DType::kInt32, {f.batch, f.keys});
  padding.data<int32_t>()[1] = padding.data<int32_t>()[3] = 1;
  for (const bool infinite : {true, false}) {
    ExpectAttention(
        "opset 17, com.microsoft 1",
        StrCat("%y = com.microsoft::MultiHeadAttention(%q, %k, %v, _, %p) {num_heads = 4",
               infinite ? ", mask_filter_value = -inf}" : "}"),
        {{"q", Flat(in.q)}, {"k", Flat(in.k)}, {"v", Flat(in.v)}, {"p", padding}},
        Flat(Wanted(f, in,
                    [&](int64_t b, int64_t, int64_t, int64_t j) {
                      const bool seen = b == 0 ? j == 1 || j == 3 : !infinite;
                      return seen ? 0 : -HUGE_VAL;
                    })),
        infinite ? 2e-5 : 2e-3);  // the error of float32 at 10,000
  }
}

/// The packed projection is the identity, so that q, k and v lie side by side.
TEST(MaskedAttention, PackedProjections) {
  Form f;
  f.queries = f.keys;
  const Operands in = OperandsOf(f);
  const int64_t columns = f.heads * f.width;
  Tensor x(DType::kFloat32, {f.batch, f.keys, 3 * columns});
  Tensor w(DType::kFloat32, {3 * columns, 3 * columns});
  const Tensor parts[] = {Flat(in.q), Flat(in.k), Flat(in.v)};
  for (int64_t i = 0; i < 3 * columns; ++i) w.data<float>()[i * 3 * columns + i] = 1;
  for (int64_t row = 0; row < f.batch * f.keys; ++row) {
    for (int64_t p = 0; p < 3; ++p) {
      std::copy_n(parts[p].data<float>() + row * columns, columns,
                  x.data<float>() + (row * 3 + p) * columns);
    }
  }
  ExpectAttention("opset 17, com.microsoft 1",
                  "%y = com.microsoft::Attention(%x, %w, _, _, _, %m) {num_heads = 4}",
                  {{"x", x}, {"w", w}, {"m", MaskOf(f, false)}}, Flat(Wanted(f, in, Hidden)));
}

/// Keys after a query stay hidden even if a bias hides all keys before it.
TEST(MaskedAttention, GroupQuery) {
  Form f;
  f.kv_heads = 2;
  f.queries = f.keys;
  const Operands in = OperandsOf(f);
  const auto last = static_cast<int32_t>(f.keys - 1);
  ExpectAttention("opset 17, com.microsoft 1",
                  StrCat("const %t: int32[] = {", f.keys,
                         "}\n%y = com.microsoft::GroupQueryAttention(%q, %k, %v, _, _, %n, %t, _, "
                         "_, _, %m) {num_heads = 4, kv_num_heads = 2}"),
                  {{"q", Flat(in.q)},
                   {"k", Flat(in.k)},
                   {"v", Flat(in.v)},
                   {"n", Tensor::Vector<int32_t>({last, last})},
                   {"m", MaskOf(f, false)}},
                  Flat(Wanted(f, in, [](int64_t b, int64_t h, int64_t i, int64_t j) {
                    return j > i ? -HUGE_VAL : Hidden(b, h, i, j);
                  })));
}

/// In the decomposed form the weights of a query that sees nothing are NaN unless the graph
/// replaces them, for which PyTorch writes a guard; in one operator they are always 0.
TEST(MaskedAttention, Fused) {
  const Form f;
  const Operands in = OperandsOf(f);
  const TensorMap feeds{{"q", in.q}, {"k", in.k}, {"v", in.v}, {"m", MaskOf(f, false)}};
  const Tensor wanted = Wanted(f, in, Hidden);
  const char* const guards[] = {
      "%safe = Identity(%w)\n",
      "%nan = IsNaN(%w)\n%safe = Where(%nan, %zero, %w)\n",
      "%nan = IsNaN(%w)\n%number = Not(%nan)\n%safe = Where(%number, %w, %zero)\n",
  };
  for (const char* guard : guards) {
    SCOPED_TRACE(guard);
    const std::string text = StrCat("graph \"\" opset 23\n", InputText(feeds),
                                    "const %half: float32[] = {0.5}\n"
                                    "const %zero: float32[] = {0}\n"
                                    "%kt = Transpose(%k) {perm = [0, 1, 3, 2]}\n"
                                    "%product = MatMul(%q, %kt)\n"
                                    "%scores = Mul(%product, %half)\n"
                                    "%masked = Add(%scores, %m)\n"
                                    "%w = Softmax(%masked) {axis = -1}\n",
                                    guard,
                                    "%y = MatMul(%safe, %v)\n"
                                    "output %y\n");
    Graph graph = ParseGraph(text);
    if (guard != guards[0]) ExpectNear(Interpret(graph, feeds)[0], wanted, "as it is written");
    RunPasses(graph, {});
    ASSERT_EQ(graph.nodes().size(), 1U) << PrintGraph(graph);
    ExpectNear(Interpret(graph, feeds)[0], wanted, "interpreted");
    Session session(PreparedModel::AsIs(std::move(graph)), {});
    ExpectNear(session.Run(feeds)[0], wanted, "fused");
  }
}

/// A guard of something else, or weights that somebody else reads, stay as they are.
TEST(MaskedAttention, NoGuard) {
  const Form f;
  const Operands in = OperandsOf(f);
  const TensorMap feeds{{"q", in.q}, {"k", in.k}, {"v", in.v}};
  for (const char* guard : {"%nan = IsNaN(%w)\n%safe = Where(%nan, %one, %w)\n",
                            "%nan = IsNaN(%w)\n%safe = Where(%nan, %w, %zero)\n",
                            "%nan = IsNaN(%product)\n%safe = Where(%nan, %zero, %w)\n"}) {
    SCOPED_TRACE(guard);
    Graph graph = ParseGraph(StrCat("graph \"\" opset 23\n", InputText(feeds),
                                    "const %zero: float32[] = {0}\n"
                                    "const %one: float32[] = {1}\n"
                                    "%kt = Transpose(%k) {perm = [0, 1, 3, 2]}\n"
                                    "%product = MatMul(%q, %kt)\n"
                                    "%w = Softmax(%product) {axis = -1}\n",
                                    guard,
                                    "%y = MatMul(%safe, %v)\n"
                                    "output %y\n"));
    const Tensor wanted = Interpret(graph, feeds)[0];
    RunPasses(graph, {});
    EXPECT_GT(graph.nodes().size(), 4U) << PrintGraph(graph);
    ExpectNear(Interpret(graph, feeds)[0], wanted, "optimized");
  }
}

}  // namespace
}  // namespace requant
