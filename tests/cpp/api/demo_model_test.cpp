// The shipped model in the whole engine: quantized and lowered, it gives the interpreter's bits
// with every kernel that can be forced.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "api/requant.h"
#include "support/files.h"

namespace requant {
namespace {

const std::string kDemos = std::string(REQUANT_SOURCE_DIR) + "/demos/";

class DemoModel : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    float_graph_ = new Graph(testing::ReadModelFile(kDemos + "models/fashion_mnist.onnx"));
    Calibrator calibrator(*float_graph_, {});
    const auto images = testing::ReadIdxImages(kDemos + "data/calibration-images-idx3-ubyte", 24);
    for (int pass = 0; pass < calibrator.passes(); ++pass) {
      for (const Tensor& image : images) calibrator.Add(pass, {{"image", image}});
    }
    model_ = new QuantizedModel(calibrator.Finish());
    integer_ = new PreparedModel(PrepareForRun(LowerToInteger(*model_)));
    images_ =
        new std::vector<Tensor>(testing::ReadIdxImages(kDemos + "data/test-images-idx3-ubyte", 3));
  }
  static void TearDownTestSuite() {
    delete float_graph_;
    delete model_;
    delete integer_;
    delete images_;
  }

  static Graph* float_graph_;
  static QuantizedModel* model_;
  static PreparedModel* integer_;
  static std::vector<Tensor>* images_;
};
Graph* DemoModel::float_graph_ = nullptr;
QuantizedModel* DemoModel::model_ = nullptr;
PreparedModel* DemoModel::integer_ = nullptr;
std::vector<Tensor>* DemoModel::images_ = nullptr;

TEST_F(DemoModel, EveryForcedKernelEqualsTheInterpreter) {
  for (const RequantizeMode mode : {RequantizeMode::kUpward, RequantizeMode::kFloat,
                                    RequantizeMode::kToNearest, RequantizeMode::kGemmlowp}) {
    const TensorMap feeds{{"image", images_->front()}};
    const std::vector<Tensor> expected = Interpret(integer_->graph(), feeds, {mode, {}});
    std::set<std::string> families;  // the families that this network uses
    SessionOptions plain;
    plain.plan.requantize = mode;
    Session session(integer_->Clone(), plain);
    EXPECT_TRUE(session.Run(feeds)[0].SameBits(expected[0])) << "mode " << static_cast<int>(mode);
    std::set<std::string> used;
    for (const auto& step : session.plan()->steps) used.insert(step->kernel);
    if (mode == RequantizeMode::kUpward || mode == RequantizeMode::kFloat) {
      EXPECT_FALSE(used.contains("reference"));
    }
    for (const KernelInfo& kernel : ListKernels()) {
      if (used.contains(kernel.name)) families.insert(kernel.family);
    }
    std::set<std::string> stems;  // "transpose_x8" of "transpose_x8_simd128"
    for (const std::string& name : used) stems.insert(name.substr(0, name.rfind('_')));
    EXPECT_TRUE(families.contains("conv_q8"));
    EXPECT_TRUE(families.contains("dwconv_q8"));
    for (const KernelInfo& kernel : ListKernels()) {
      if (!families.contains(kernel.family)) continue;
      SessionOptions forced = plain;
      forced.plan.force_kernels = {{kernel.family, kernel.name}};
      Session other(integer_->Clone(), forced);
      EXPECT_TRUE(other.Run(feeds)[0].SameBits(expected[0]))
          << kernel.name << ", mode " << static_cast<int>(mode);
      const auto& steps = other.plan()->steps;
      const bool ran = std::any_of(steps.begin(), steps.end(),
                                   [&](const auto& step) { return step->kernel == kernel.name; });
      // Skip rows for another mode or element size, or for narrower weights: this network cannot
      // use them.
      const std::string name = kernel.name;
      const std::string stem = name.substr(0, name.rfind('_'));
      const bool usable = (stems.contains(stem) || name == "conv_q8_carry_save" ||
                           name.ends_with("_pairs") || name.find("_affine") != std::string::npos) &&
                          !name.ends_with("_dot7") && !name.ends_with("_lookup") &&
                          !name.ends_with("_narrow") && !name.ends_with("_winograd");
      EXPECT_EQ(ran, usable) << name << ", mode " << static_cast<int>(mode);
    }
  }
}

TEST_F(DemoModel, UnfusedPlansComputeTheSame) {
  for (const Tensor& image : *images_) {
    SessionOptions unfused;
    unfused.plan.fuse = false;
    Session plain(integer_->Clone(), {});
    Session separate(integer_->Clone(), unfused);
    EXPECT_TRUE(plain.Run({{"image", image}})[0].SameBits(separate.Run({{"image", image}})[0]));
  }
}

TEST_F(DemoModel, FloatSessionEqualsInterpreter) {
  const PreparedModel ready = PrepareForRun(*float_graph_);
  Session session(ready.Clone(), {});
  for (const Tensor& image : *images_) {
    const Tensor fast = session.Run({{"image", image}})[0];
    const Tensor exact = Interpret(*float_graph_, {{"image", image}})[0];
    for (int64_t i = 0; i < exact.count(); ++i) {
      EXPECT_NEAR(fast.data<float>()[i], exact.data<float>()[i], 1e-4F);
    }
  }
}

TEST_F(DemoModel, BatchesEqualSingleImages) {
  Session session(integer_->Clone(), {});
  const int64_t pixels = images_->front().count();
  Tensor batch(DType::kFloat32, {3, 1, 28, 28});
  for (size_t i = 0; i < 3; ++i) {
    std::copy_n((*images_)[i].data<float>(), pixels,
                batch.data<float>() + static_cast<int64_t>(i) * pixels);
  }
  const Tensor together = session.Run({{"image", batch}})[0];
  for (size_t i = 0; i < 3; ++i) {
    const Tensor alone = session.Run({{"image", (*images_)[i]}})[0];
    for (int64_t c = 0; c < 10; ++c) {
      EXPECT_EQ(alone.data<float>()[c], together.data<float>()[static_cast<int64_t>(i) * 10 + c]);
    }
  }
}

TEST_F(DemoModel, ExportsComputeTheSameIntegers) {
  const TensorMap feeds{{"image", (*images_)[1]}};
  const Tensor expected = Session(integer_->Clone(), {}).Run(feeds)[0];
  const Graph qoperator = ReadOnnx(testing::Share(WriteOnnx(ToQOperator(*model_))));
  const Graph qdq = ReadOnnx(testing::Share(WriteOnnx(ToQdq(*model_))));
  EXPECT_TRUE(Session(PrepareForRun(qoperator), {}).Run(feeds)[0].SameBits(expected));
  EXPECT_TRUE(Session(PrepareForRun(qdq), {}).Run(feeds)[0].SameBits(expected));
}

TEST_F(DemoModel, ArenaIsNearItsLowerBound) {
  for (const bool integer : {false, true}) {
    Session session(integer ? integer_->Clone() : PrepareForRun(*float_graph_), {});
    session.Run({{"image", images_->front()}});
    const SessionMemory memory = session.memory();
    EXPECT_GT(memory.arena, 0U);
    EXPECT_LE(static_cast<double>(memory.arena),
              1.15 * static_cast<double>(memory.arena_lower_bound));
  }
}

TEST_F(DemoModel, ReportIsConsistent) {
  CompareOptions options;
  options.alone_samples = 1;
  Comparer comparer(PrepareForRun(*float_graph_), integer_->Clone(), options);
  for (const Tensor& image : *images_) comparer.Add({{"image", image}}, -1);
  const std::string report = comparer.Report();
  EXPECT_NE(report.find("\"samples\":3"), std::string::npos);
  EXPECT_NE(report.find("aloneSnr"), std::string::npos);
}

}  // namespace
}  // namespace requant
