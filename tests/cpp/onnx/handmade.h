// Builds ONNX files field by field. The field numbers are those of onnx.proto.
#pragma once

#include <gtest/gtest.h>

#include <protozero/pbf_writer.hpp>
#include <string>
#include <vector>

#include "base/error.h"
#include "onnx/read.h"

namespace requant::handmade {

using protozero::pbf_writer;

inline SharedBytes Share(const std::string& bytes) {
  auto copy = std::make_shared<std::vector<uint8_t>>(bytes.begin(), bytes.end());
  return {copy, {copy->data(), copy->size()}};
}

/// A length-delimited message that `fill` writes.
template <typename Fill>
std::string Make(Fill fill) {
  std::string out;
  pbf_writer writer(out);
  fill(writer);
  return out;
}

inline std::string Opset(int64_t version, const std::string& domain = "") {
  return Make([&](pbf_writer& w) {
    w.add_string(1, domain);
    w.add_int64(2, version);
  });
}

inline std::string Model(const std::string& graph, int64_t ir_version = 8, int64_t opset = 13) {
  return Make([&](pbf_writer& w) {
    w.add_int64(1, ir_version);
    w.add_message(8, Opset(opset));
    w.add_message(7, graph);
  });
}

inline std::string TensorInfo(const std::string& name, int32_t elem_type,
                              std::vector<int64_t> dims) {
  return Make([&](pbf_writer& w) {
    w.add_string(1, name);
    w.add_message(2, Make([&](pbf_writer& type) {
                    type.add_message(1, Make([&](pbf_writer& tensor) {
                                       tensor.add_int32(1, elem_type);
                                       tensor.add_message(2, Make([&](pbf_writer& shape) {
                                                            for (const int64_t dim : dims) {
                                                              shape.add_message(
                                                                  1, Make([&](pbf_writer& d) {
                                                                    d.add_int64(1, dim);
                                                                  }));
                                                            }
                                                          }));
                                     }));
                  }));
  });
}

inline std::string NodeMessage(const std::string& op, std::vector<std::string> inputs,
                               std::vector<std::string> outputs, const std::string& attribute = "",
                               const std::string& name = "") {
  return Make([&](pbf_writer& w) {
    for (const auto& input : inputs) w.add_string(1, input);
    for (const auto& output : outputs) w.add_string(2, output);
    if (!name.empty()) w.add_string(3, name);
    w.add_string(4, op);
    if (!attribute.empty()) w.add_message(5, attribute);
  });
}

/// x -> node -> y, with the fields that `extra` adds to the graph.
template <typename Extra>
std::string SmallGraph(const std::string& node, Extra extra) {
  return Make([&](pbf_writer& w) {
    w.add_message(1, node);
    w.add_string(2, "g");
    w.add_message(11, TensorInfo("x", 1, {2}));
    w.add_message(12, TensorInfo("y", 1, {2}));
    extra(w);
  });
}

inline std::string SmallGraph(const std::string& node) {
  return SmallGraph(node, [](pbf_writer&) {});
}

inline std::string Relu() { return NodeMessage("Relu", {"x"}, {"y"}); }

inline void ExpectError(const std::string& bytes, ErrorCode code, const std::string& what,
                        const std::string& node = "", const std::string& value = "") {
  try {
    ReadOnnx(Share(bytes));
    FAIL() << what;
  } catch (const Error& error) {
    EXPECT_EQ(ErrorCodeName(error.code()), std::string(ErrorCodeName(code))) << error.message();
    EXPECT_NE(error.message().find(what), std::string::npos) << error.message();
    if (!node.empty()) {
      EXPECT_EQ(error.context().node, node);
    }
    if (!value.empty()) {
      EXPECT_EQ(error.context().value, value);
    }
    EXPECT_FALSE(error.context().hint.empty()) << error.message();
  }
}

inline constexpr ErrorCode kInvalid = ErrorCode::kInvalidModel;
inline constexpr ErrorCode kUnsupported = ErrorCode::kUnsupported;

/// A model whose only node adds the initializer "w".
inline std::string WithInitializer(const std::string& tensor) {
  return Model(SmallGraph(NodeMessage("Add", {"x", "w"}, {"y"}),
                          [&](pbf_writer& w) { w.add_message(5, tensor); }));
}

template <typename Fill>
std::string TensorMessage(std::vector<int64_t> dims, int32_t type, Fill fill) {
  return Make([&](pbf_writer& w) {
    w.add_packed_int64(1, dims.begin(), dims.end());
    w.add_int32(2, type);
    w.add_string(8, "w");
    fill(w);
  });
}

inline std::string External(const std::string& location, const std::string& offset,
                            const std::string& length) {
  return WithInitializer(TensorMessage({2}, 1, [&](pbf_writer& w) {
    w.add_int32(14, 1);
    const auto entry = [&w](const std::string& key, const std::string& value) {
      w.add_message(13, Make([&](pbf_writer& e) {
                      e.add_string(1, key);
                      e.add_string(2, value);
                    }));
    };
    entry("location", location);
    if (!offset.empty()) entry("offset", offset);
    if (!length.empty()) entry("length", length);
  }));
}

}  // namespace requant::handmade
