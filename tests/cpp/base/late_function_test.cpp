#include "base/late_function.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include "base/error.h"

namespace requant {
namespace {

int Scale(int value, int factor) { return value * factor; }
void Append(std::string& text, const std::string& more) { text += more; }
std::unique_ptr<int> Pass(std::unique_ptr<int> value) { return value; }

constexpr LateFunction<decltype(Scale)> kScale{Scale, "Scale"};
constexpr LateFunction<decltype(Append)> kAppend{Append, "Append"};
constexpr LateFunction<decltype(Pass)> kPass{Pass, "Pass"};

/// Acts as a core whose extended operators are not loaded yet.
struct NotLoaded {
  NotLoaded() { SetOperatorsLoaded(false); }
  ~NotLoaded() { SetOperatorsLoaded(); }
};

TEST(LateFunctionTest, CallsTheFunction) {
  ASSERT_TRUE(kScale.loaded());
  EXPECT_EQ(kScale(6, 7), 42);
}

TEST(LateFunctionTest, PassesReferencesAndMovesValues) {
  std::string text = "late";
  kAppend(text, " function");
  EXPECT_EQ(text, "late function");
  auto value = std::make_unique<int>(5);
  const int* held = value.get();
  EXPECT_EQ(kPass(std::move(value)).get(), held);
}

TEST(LateFunctionTest, TellsTheEntryWithoutBeingLoaded) {
  const NotLoaded absent;
  EXPECT_EQ(kScale.entry(), reinterpret_cast<const void*>(Scale));
  EXPECT_NE(kScale.entry(), kAppend.entry());
}

TEST(LateFunctionTest, FailsBeforeItIsLoaded) {
  {
    const NotLoaded absent;
    EXPECT_FALSE(kScale.loaded());
    try {
      kScale(6, 7);
      FAIL() << "called";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInternal);
      EXPECT_EQ(error.message(), "Scale is called before it is loaded");
      EXPECT_EQ(error.context().hint, "load the extended operators first");
    }
  }
  EXPECT_EQ(kScale(6, 7), 42);
}

}  // namespace
}  // namespace requant
