// Operators on strings. tests/node/strings.test.mjs holds them to ONNX Runtime.
#include "tensor/text.h"

#include <gtest/gtest.h>

#include <random>

#include "base/error.h"
#include "ops/container/container.h"
#include "ops/text/letter_case.h"
#include "run_op.h"

namespace requant {
namespace {

Tensor Texts(const std::vector<std::string>& texts) {
  return TextTensor(texts, {static_cast<int64_t>(texts.size())});
}
std::vector<std::string> StringsOf(const Tensor& tensor) {
  const std::vector<std::string_view> texts = TextsOf(tensor);
  return {texts.begin(), texts.end()};
}
std::vector<std::string> CastBack(const Tensor& numbers) {
  return StringsOf(RunOp({"Cast"}, {numbers}, {{"to", Int(8)}}));
}
ErrorCode CastCode(const std::string& text, DType to) {
  try {
    RunOp({"Cast"}, {Texts({text})}, {{"to", Int(static_cast<int64_t>(to))}});
  } catch (const Error& error) {
    return error.code();
  }
  return ErrorCode::kInternal;
}

TEST(TextOps, CastsBetweenNumbersAndStrings) {
  EXPECT_EQ(CastBack(Floats({0.1F, 1e10F, -0.0F, NAN, -INFINITY, 16777216, 1e7F, 0.6048455F})),
            (std::vector<std::string>{"0.1", "1e+10", "-0", "NaN", "-INF", "16777216", "10000000",
                                      "0.6048455"}));
  EXPECT_EQ(CastBack(Tensor::Vector<double>({1.0 / 3, 1e10, 0.1})),
            (std::vector<std::string>{"0.3333333333333333", "1e+10", "0.1"}));
  EXPECT_EQ(CastBack(Tensor::Vector<int64_t>({INT64_MIN, 7})),
            (std::vector<std::string>{"-9223372036854775808", "7"}));
  EXPECT_EQ(CastBack(Tensor::Vector<uint64_t>({UINT64_MAX})),
            (std::vector<std::string>{"18446744073709551615"}));
  const auto to = [](const std::vector<std::string>& texts, DType dtype) {
    return RunOp({"Cast"}, {Texts(texts)}, {{"to", Int(static_cast<int64_t>(dtype))}}).ToDoubles();
  };
  EXPECT_EQ(to({" 1.5\t", "-2e3", "inf", "+.5"}, DType::kFloat32),
            (std::vector<double>{1.5, -2000, INFINITY, 0.5}));
  EXPECT_EQ(to({"-128", "100.9", "+3"}, DType::kInt8), (std::vector<double>{-128, 100, 3}));
  EXPECT_EQ(to({"0", "-0", "12"}, DType::kBool), (std::vector<double>{0, 0, 1}));
  for (const char* bad : {"", " ", "x", "1x", "1 2", "0x10", "1e", ".", "-", "--1", "1e400"}) {
    EXPECT_EQ(CastCode(bad, DType::kFloat32), ErrorCode::kInvalidArgument) << bad;
  }
  for (const char* bad : {"", "128", "-129", "1e1", "nan", "99999999999999999999"}) {
    EXPECT_EQ(CastCode(bad, DType::kInt8), ErrorCode::kInvalidArgument) << bad;
  }
  EXPECT_EQ(CastCode("-1", DType::kUint64), ErrorCode::kInvalidArgument);
}

TEST(TextOps, LettersChangeTheirCase) {
  EXPECT_EQ(InCase("Äbc \xf0\x9f\x98\x80 Я", LetterCase::kLower), "äbc \xf0\x9f\x98\x80 я");
  EXPECT_EQ(InCase("ñ\xff\xc3", LetterCase::kUpper), "Ñ\xff\xc3");
  std::mt19937 random(3);
  for (int round = 0; round < 20000; ++round) {  // bytes of any kind pass
    std::string bytes(random() % 6, ' ');
    for (char& byte : bytes) byte = static_cast<char>(random());
    InCase(bytes, LetterCase::kUpper);
  }
}

TEST(TextOps, NormalizersSayWhatTheyCannotDo) {
  const auto code = [](std::vector<AttributeMap::Entry> attributes, Tensor x) {
    try {
      RunOp({"StringNormalizer"}, {std::move(x)}, std::move(attributes));
    } catch (const Error& error) {
      return error.code();
    }
    return ErrorCode::kInternal;
  };
  EXPECT_EQ(code({{"locale", Text("tr_TR")}}, Texts({"i"})), ErrorCode::kUnsupported);
  EXPECT_EQ(code({{"case_change_action", Text("SWAP")}}, Texts({"i"})), ErrorCode::kInvalidModel);
  EXPECT_EQ(code({}, TextTensor(std::vector<std::string>(4), {2, 2})), ErrorCode::kShapeMismatch);
  EXPECT_EQ(code({}, Floats({1})), ErrorCode::kTypeMismatch);
}

TEST(TextOps, MovedAsElementsOfEightBytes) {
  const Tensor x = TextTensor(std::vector<std::string>{"a", "b", "", "\xc3\xbc"}, {2, 2});
  EXPECT_EQ(StringsOf(RunOp({"Transpose"}, {x})),
            (std::vector<std::string>{"a", "", "b", "\xc3\xbc"}));
  EXPECT_EQ(StringsOf(RunOp({"Concat"}, {x, x}, {{"axis", Int(1)}})),
            (std::vector<std::string>{"a", "b", "a", "b", "", "\xc3\xbc", "", "\xc3\xbc"}));
  EXPECT_EQ(RunOp({"Equal"}, {x, Texts({"a", "\xc3\xbc"})}).ToInts(),
            (std::vector<int64_t>{1, 0, 0, 1}));
  EXPECT_THROW(RunOp({"Add"}, {x, x}), Error);
  EXPECT_THROW(RunOp({"Relu"}, {x}), Error);
  EXPECT_THROW(RunOp({"Equal"}, {x, Tensor::Scalar<int64_t>(0)}), Error);
}

/// Strings in a sequence are bytes, which may come from a feed.
TEST(TextOps, SequencesHoldStrings) {
  const std::vector<Tensor> items = {Texts({"x", "", "yy"}), Texts({}), Floats({1})};
  const Tensor whole = ContainerOf(SequenceOf(DType::kString), items);
  const std::vector<Tensor> read = ItemsOf(whole);
  ASSERT_EQ(read.size(), 3U);
  EXPECT_EQ(StringsOf(read[0]), (std::vector<std::string>{"x", "", "yy"}));
  EXPECT_TRUE(read[2].SameBits(items[2]));
  const auto* from = static_cast<const uint8_t*>(whole.raw());
  const std::vector<uint8_t> all(from, from + whole.bytes());
  for (size_t size = 0; size < all.size(); ++size) {
    EXPECT_THROW(ItemsOf(Tensor::Vector(std::vector<uint8_t>(
                     all.begin(), all.begin() + static_cast<std::ptrdiff_t>(size)))),
                 Error);
  }
  std::mt19937 random(1);
  for (int round = 0; round < 2000; ++round) {
    std::vector<uint8_t> bytes = all;
    for (int i = 0; i < 3; ++i) bytes[random() % bytes.size()] = static_cast<uint8_t>(random());
    try {
      ItemsOf(Tensor::Vector(bytes));
    } catch (const Error&) {
      continue;  // no more than an error
    }
  }
}

}  // namespace
}  // namespace requant
