#include "onnx/text_data.h"

#include <protozero/pbf_writer.hpp>

#include "onnx/tags.h"

namespace requant {

using Tag = onnx_tags::TensorProto;

Tensor ReadTexts(Message tensor, const Shape& shape) {
  std::vector<std::string> texts;
  while (tensor.Next()) {
    if (tensor.tag<Tag>() == Tag::kStringData) {
      texts.push_back(tensor.String());
    } else {
      tensor.Skip();
    }
  }
  return TextTensor(texts, shape);
}

void WriteTexts(const Tensor& tensor, std::string& message) {
  protozero::pbf_writer writer(message);
  for (const std::string_view text : TextsOf(tensor)) {
    writer.add_bytes(static_cast<uint32_t>(Tag::kStringData), text.data(), text.size());
  }
}

}  // namespace requant
