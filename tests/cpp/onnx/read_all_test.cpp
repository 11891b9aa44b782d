// Every model of ONNX's own test data is parsed and valid, or rejected with a typed error.
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <map>

#include "base/error.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "onnx/read.h"
#include "onnx/write.h"

namespace requant {
namespace {

SharedBytes ReadFile(const std::filesystem::path& path) {
  auto bytes = std::make_shared<std::vector<uint8_t>>(std::filesystem::file_size(path));
  std::FILE* file = std::fopen(path.c_str(), "rb");
  EXPECT_NE(file, nullptr) << path;
  const size_t read = std::fread(bytes->data(), 1, bytes->size(), file);
  std::fclose(file);
  EXPECT_EQ(read, bytes->size()) << path;
  return {bytes, {bytes->data(), bytes->size()}};
}

TEST(ReadOnnx, EveryTestModelIsReadOrRefused) {
  std::map<std::string, int> refused;
  int accepted = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(REQUANT_ONNX_TEST_DATA)) {
    if (entry.path().extension() != ".onnx") continue;
    SCOPED_TRACE(entry.path().string());
    try {
      const Graph graph = ReadOnnx(ReadFile(entry.path()));
      VerifyGraph(graph);
      ++accepted;
      // Text form and file form come back as the same graph.
      const std::string text = PrintGraph(graph);
      EXPECT_EQ(PrintGraph(ParseGraph(text)), text);
      auto bytes = std::make_shared<std::vector<uint8_t>>(WriteOnnx(graph));
      EXPECT_EQ(PrintGraph(ReadOnnx({bytes, *bytes})), text);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kUnsupported) << error.message();
      ++refused[error.message()];
    }
  }
  for (const auto& [message, count] : refused) std::printf("%4d  %s\n", count, message.c_str());
  std::printf("accepted %d\n", accepted);
  EXPECT_GT(accepted, 800);
}

}  // namespace
}  // namespace requant
