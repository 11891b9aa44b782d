// Reading hand-made and hostile files: constants, inside of the file and in external data.
#include <gtest/gtest.h>

#include <cstring>

#include "base/error.h"
#include "onnx/handmade.h"
#include "onnx/read.h"
#include "onnx/write.h"
#include "tensor/text.h"

namespace requant {
namespace {

using namespace handmade;

Tensor ReadInitializer(const std::string& tensor) {
  return ReadOnnx(Share(WithInitializer(tensor))).FindValue("w")->constant;
}

TEST(ReadOnnx, ReadsTypedData) {
  const auto ints = [](std::vector<int32_t> values, int32_t type) {
    return ReadInitializer(
        TensorMessage({static_cast<int64_t>(values.size())}, type,
                      [&](pbf_writer& w) { w.add_packed_int32(5, values.begin(), values.end()); }));
  };
  EXPECT_EQ(ints({-128, 127}, 3).ToInts(), (std::vector<int64_t>{-128, 127}));
  EXPECT_EQ(ints({0, 255}, 2).ToInts(), (std::vector<int64_t>{0, 255}));
  EXPECT_EQ(ints({-32768}, 5).ToInts(), (std::vector<int64_t>{-32768}));
  EXPECT_EQ(ints({65535}, 4).ToInts(), (std::vector<int64_t>{65535}));
  EXPECT_EQ(ints({0, 2, 1}, 9).ToInts(), (std::vector<int64_t>{0, 1, 1}));
  EXPECT_EQ(ints({0x3c00, 0xc000}, 10).ToDoubles(), (std::vector<double>{1, -2}));
  EXPECT_EQ(ints({0x3f80}, 16).ToDoubles(), (std::vector<double>{1}));
  EXPECT_EQ(ReadInitializer(TensorMessage({3}, 22,
                                          [](pbf_writer& w) {
                                            w.add_int32(5, 0x98);
                                            w.add_int32(5, 0x07);
                                          }))
                .ToInts(),
            (std::vector<int64_t>{-8, -7, 7}));
  EXPECT_EQ(
      ReadInitializer(TensorMessage({1}, 13, [](pbf_writer& w) { w.add_uint64(11, 4294967295U); }))
          .ToInts(),
      (std::vector<int64_t>{4294967295}));
  EXPECT_EQ(ReadInitializer(TensorMessage({1}, 11, [](pbf_writer& w) { w.add_double(10, 0.1); }))
                .ToDoubles(),
            (std::vector<double>{0.1}));
  EXPECT_EQ(
      ReadInitializer(TensorMessage({}, 7, [](pbf_writer& w) { w.add_int64(7, -9); })).ToInts(),
      (std::vector<int64_t>{-9}));
  EXPECT_EQ(ReadInitializer(TensorMessage({0, 5}, 1, [](pbf_writer&) {})).count(), 0);
}

TEST(ReadOnnx, ReadsAndWritesStrings) {
  // The last one is no UTF-8, which the core keeps as it is.
  const std::vector<std::string> texts = {"red", "", "gr\xc3\xbcn \xf0\x9f\x8c\xb2", "a\xff"};
  const std::string file = WithInitializer(TensorMessage({2, 2}, 8, [&](pbf_writer& w) {
    for (const std::string& text : texts) w.add_string(6, text);
  }));
  const SharedBytes bytes = Share(file);
  EXPECT_NE(NeedsOf(bytes.bytes).function, nullptr);
  const Graph graph = ReadOnnx(bytes);
  const std::vector<uint8_t> written = WriteOnnx(graph);
  const Graph again = ReadOnnx(Share({written.begin(), written.end()}));
  for (const Graph* one : {&graph, &again}) {
    const Tensor& tensor = one->FindValue("w")->constant;
    EXPECT_EQ(tensor.shape(), (Shape{2, 2}));
    const std::vector<std::string_view> read = TextsOf(tensor);
    EXPECT_TRUE(std::equal(read.begin(), read.end(), texts.begin(), texts.end()));
  }
}

TEST(ReadOnnx, RefusesBadTensors) {
  const auto nothing = [](pbf_writer&) {};
  const auto raw8 = [](pbf_writer& w) { w.add_bytes(9, std::string(8, 'a')); };
  ExpectError(WithInitializer(TensorMessage({3}, 1, raw8)), kInvalid, "needs 12 bytes", "", "w");
  ExpectError(WithInitializer(TensorMessage({2}, 1, nothing)), kInvalid, "0 elements", "", "w");
  ExpectError(WithInitializer(TensorMessage({-2, -1}, 1, raw8)), kInvalid, "negative", "", "w");
  ExpectError(WithInitializer(TensorMessage({INT64_MAX, INT64_MAX}, 1, raw8)), kInvalid, "too many",
              "", "w");
  ExpectError(WithInitializer(TensorMessage({INT64_MAX / 4}, 11, raw8)), kInvalid, "", "", "w");
  ExpectError(WithInitializer(TensorMessage({1}, 0, raw8)), kInvalid, "element type", "", "w");
  ExpectError(WithInitializer(TensorMessage({1}, 8, nothing)), kInvalid, "0 elements", "", "w");
  ExpectError(WithInitializer(TensorMessage({1}, 8, raw8)), kInvalid, "raw bytes", "", "w");
  ExpectError(WithInitializer(TensorMessage({1}, 99, nothing)), kUnsupported, "99", "", "w");
  ExpectError(WithInitializer(TensorMessage({2}, 1,
                                            [](pbf_writer& w) {
                                              w.add_bytes(9, std::string(8, 'a'));
                                              w.add_float(4, 1);
                                              w.add_float(4, 1);
                                            })),
              kInvalid, "twice", "", "w");
  ExpectError(WithInitializer(
                  TensorMessage({2}, 1, [](pbf_writer& w) { w.add_message(3, std::string()); })),
              kUnsupported, "segments");
}

/// Lists the tensors that a file keeps in other files, each as "name: offset+size".
std::string NeedsText(const std::string& file) {
  std::string out;
  for (const ExternalNeed& need : NeedsOf(Share(file).bytes).external) {
    out += StrCat(out.empty() ? "" : ", ", need.file, ": ", need.offset, "+", need.size);
  }
  return out;
}

/// A model with one external initializer of int8 for each pair of an offset and a size.
std::string ExternalBytes(const std::vector<std::pair<int64_t, int64_t>>& places) {
  std::string graph = SmallGraph(Relu());
  for (size_t i = 0; i < places.size(); ++i) {
    const auto [offset, size] = places[i];
    const std::string tensor = TensorMessage({size}, 3, [&, at = offset](pbf_writer& w) {
      for (const auto& [key, value] : std::vector<std::pair<std::string, std::string>>{
               {"location", "f"}, {"offset", std::to_string(at)}}) {
        w.add_message(13, Make([&, k = key, v = value](pbf_writer& entry) {
                        entry.add_string(1, k);
                        entry.add_string(2, v);
                      }));
      }
      w.add_int32(14, 1);
      w.add_string(8, StrCat("w", i));  // the last name counts
    });
    graph += Make([&](pbf_writer& w) { w.add_message(5, tensor); });
  }
  return Model(graph);
}

TEST(ReadOnnx, FindsTheTensorInItsPiece) {
  ReadOptions options;
  options.external = {{"f", 0, Share(std::string("ab"))},
                      {"g", 0, Share(std::string("xyzxyzxyz"))},
                      {"f", 5'000'000'000, Share(std::string("cdef"))}};
  const Graph graph = ReadOnnx(Share(ExternalBytes({{5'000'000'001, 3}, {0, 2}, {7, 0}})), options);
  std::vector<std::vector<int64_t>> read;
  for (const auto& value : graph.values()) {
    if (value->is_constant()) read.push_back(value->constant.ToInts());
  }
  EXPECT_EQ(read, (std::vector<std::vector<int64_t>>{{'d', 'e', 'f'}, {'a', 'b'}, {}}));
  for (const auto& place : std::vector<std::pair<int64_t, int64_t>>{
           {1, 2}, {4'999'999'999, 2}, {5'000'000'002, 3}, {5'000'000'004, 1}}) {
    EXPECT_THROW(ReadOnnx(Share(ExternalBytes({place})), options), Error) << place.first;
  }
}

TEST(ReadOnnx, ReadsExternalData) {
  const float data[4] = {1, 2, 3, 4};
  std::string bytes(sizeof data, '\0');
  std::memcpy(bytes.data(), data, sizeof data);
  ReadOptions options;
  options.external = {{"../weights.bin", 0, Share(bytes)}};
  const auto read = [&](const std::string& offset, const std::string& length) {
    return ReadOnnx(Share(External("../weights.bin", offset, length)), options)
        .FindValue("w")
        ->constant.ToFloats();
  };
  EXPECT_EQ(read("8", "8"), (std::vector<float>{3, 4}));
  EXPECT_EQ(read("", ""), (std::vector<float>{1, 2}));
  EXPECT_EQ(NeedsText(External("a b", "", "")), "a b: 0+8");
  EXPECT_EQ(NeedsText(External("f", "5000000000", "7")), "f: 5000000000+7");
  EXPECT_EQ(NeedsText(External("f", "18446744073709551615", "8")), "f: 18446744073709551615+0");
  for (const auto& [offset, length] :
       std::vector<std::pair<std::string, std::string>>{{"12", "8"},
                                                        {"16", ""},
                                                        {"0", "4"},
                                                        {"-1", ""},
                                                        {"18446744073709551615", "8"},
                                                        {"x", ""},
                                                        {"99999999999999999999999", ""}}) {
    EXPECT_THROW(read(offset, length), Error) << offset << " " << length;
  }
  ExpectError(External("elsewhere", "", ""), ErrorCode::kInvalidArgument, "'elsewhere'", "", "w");
}

/// External data of an initializer in a nested branch.
TEST(ReadOnnx, FindsExternalDataInBodies) {
  const auto body = [](const auto& fill) {
    return Make([&](pbf_writer& node) {
      node.add_string(4, "If");
      node.add_message(5, Make([&](pbf_writer& attribute) {
                         attribute.add_string(1, "then_branch");
                         attribute.add_message(6, Make(fill));
                         attribute.add_int32(20, 5);
                       }));
    });
  };
  const std::string inner = body([](pbf_writer& graph) {
    graph.add_message(5, Make([](pbf_writer& tensor) {
                        tensor.add_message(13, Make([](pbf_writer& entry) {
                                             entry.add_string(1, "location");
                                             entry.add_string(2, "deep.bin");
                                           }));
                      }));
  });
  const std::string outer = body([&](pbf_writer& graph) { graph.add_message(1, inner); });
  EXPECT_EQ(NeedsText(Model(SmallGraph(outer))), "deep.bin: 0+0");
}

}  // namespace
}  // namespace requant
