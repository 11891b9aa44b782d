// The pool of strings: handles, and how long strings stay.
#include "tensor/text.h"

#include <gtest/gtest.h>

#include <random>

#include "base/error.h"

namespace requant {
namespace {

std::vector<std::string> StringsOf(const Tensor& tensor) {
  const std::vector<std::string_view> texts = TextsOf(tensor);
  return {texts.begin(), texts.end()};
}

/// Releases all strings that no tensor keeps.
size_t CountOfKept() {
  BeginTextRun();
  BeginTextRun();
  return TextCount();
}

TEST(Text, EqualStringsHaveOneHandle) {
  EXPECT_EQ(TextHandle(""), 0U);
  EXPECT_EQ(TextOf(0), "");
  const uint64_t tree = TextHandle("tree");
  EXPECT_EQ(TextHandle("tree"), tree);
  EXPECT_NE(TextHandle("trees"), tree);
  EXPECT_EQ(TextOf(tree), "tree");
  const std::string zeros("a\0b", 3);
  EXPECT_EQ(TextOf(TextHandle(zeros)), zeros);
}

TEST(Text, TensorsKeepTheirStrings) {
  const size_t before = CountOfKept();
  const std::vector<std::string> texts = {"one", "", "two", "one"};
  Tensor tensor = TextTensor(texts, {2, 2});
  EXPECT_EQ(StringsOf(tensor), texts);
  EXPECT_EQ(CountOfKept(), before + 2);
  const Tensor copy = tensor.Reshaped({4});
  tensor = Tensor();
  EXPECT_EQ(CountOfKept(), before + 2);
  EXPECT_EQ(StringsOf(copy), texts);
  EXPECT_THROW(TextTensor(texts, {3}), Error);
  EXPECT_THROW(TextsOf(Tensor::Scalar(1.0F)), Error);
}

TEST(Text, TheRestStaysUntilTheRunAfterTheNext) {
  const size_t before = CountOfKept();
  const uint64_t feed = TextHandle("feed");
  BeginTextRun();
  EXPECT_EQ(TextOf(feed), "feed");
  const uint64_t made = TextHandle("made");
  {
    const TextHold hold;  // a user's operator runs a session
    BeginTextRun();
    BeginTextRun();
    EXPECT_EQ(TextOf(feed), "feed");
  }
  EXPECT_EQ(TextOf(made), "made");  // the caller reads results
  BeginTextRun();
  EXPECT_THROW(TextOf(feed), Error);
  BeginTextRun();
  EXPECT_EQ(TextCount(), before);
  EXPECT_THROW(TextOf(made), Error);
  const uint64_t next = TextHandle("next");  // in the place of one of them
  EXPECT_NE(next, made);
  EXPECT_NE(next, feed);
  EXPECT_THROW(TextOf(feed), Error);
}

TEST(Text, StringsOfARunSurviveTheTensorsThatKeptThem) {
  BeginTextRun();
  Tensor moved;
  {
    const std::string text = "moved";
    moved = TextTensor({&text, 1}, {1}).Clone();
  }
  EXPECT_EQ(TextsOf(moved)[0], "moved");
}

TEST(Text, RandomRunsLoseNothing) {
  std::mt19937 random(5);
  const size_t before = CountOfKept();
  std::vector<std::pair<Tensor, std::vector<std::string>>> kept;
  const auto some = [&random] {
    std::vector<std::string> texts(random() % 4);
    for (std::string& text : texts)
      text = std::string(random() % 3, static_cast<char>('a' + random() % 3));
    return texts;
  };
  for (int round = 0; round < 3000; ++round) {
    BeginTextRun();
    std::vector<std::string> texts = some();
    const Shape shape = {static_cast<int64_t>(texts.size())};
    if (random() % 2 == 0) {
      kept.emplace_back(TextTensor(texts, shape), texts);
    } else if (!kept.empty()) {
      kept.erase(kept.begin() + static_cast<std::ptrdiff_t>(random() % kept.size()));
    }
    for (const auto& [tensor, wanted] : kept) ASSERT_EQ(StringsOf(tensor), wanted);
    for (const std::string& text : texts) ASSERT_EQ(TextOf(TextHandle(text)), text);
  }
  kept.clear();
  EXPECT_EQ(CountOfKept(), before);
}

}  // namespace
}  // namespace requant
