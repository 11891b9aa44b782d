#include "codegen/c_file.h"

#include <algorithm>

#include "base/error.h"
#include "base/str_cat.h"

namespace requant {
namespace {

/// The kernel that an #include names; "requantize_fixed" stands for that of the chosen arithmetic.
std::string ForArithmetic(std::string_view kernel, RequantizeMode mode) {
  if (kernel == "requantize_fixed") {
    if (mode == RequantizeMode::kFloat) return "requantize_float";
    if (mode == RequantizeMode::kToNearest) return "requantize_nearest";
    if (mode == RequantizeMode::kGemmlowp) return "requantize_gemmlowp";
  }
  return std::string(kernel);
}

/// The kernel of a file such as "conv/window.c": its name without folder and ending.
std::string_view KernelOfFile(std::string_view file) {
  file = file.substr(0, file.find('.'));
  return file.substr(file.rfind('/') + 1);
}

/// Calls each(line) for every line of a text, without its end.
template <typename Each>
void ForEachLine(std::string_view text, Each each) {
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size() - 1);
    each(text.substr(0, end));
    text.remove_prefix(end + 1);
  }
}

}  // namespace

CFile::CFile(const Graph& graph, RequantizeMode requantize,
             const std::map<std::string, std::string>* kernels)
    : requantize_(requantize), kernels_(kernels) {
  graph.Renumber();
  for (const auto& value : graph.values()) roots_.push_back(value.get());
}

void CFile::Use(const std::string& kernel) {
  if (kernels_ == nullptr || std::find(used_.begin(), used_.end(), kernel) != used_.end()) return;
  used_.push_back(kernel);
  const auto found = kernels_->find(kernel);
  if (found == kernels_->end()) Fail(ErrorCode::kInternal, StrCat("no C kernel ", kernel));
  std::string own;
  ForEachLine(found->second, [&](std::string_view line) {
    constexpr std::string_view kInclude = "#include \"";
    if (line.starts_with(kInclude)) {
      line.remove_prefix(kInclude.size());
      Use(ForArithmetic(KernelOfFile(line.substr(0, line.find('"'))), requantize_));
    } else if (!line.starts_with("#")) {
      own += StrCat(line, "\n");
    }
  });
  kernel_texts_ += own;
}

/// Collects elements into lines.
class CFile::Elements {
 public:
  void Add(std::string_view one) {
    constexpr size_t kLine = 96;
    if (line_ + one.size() > kLine) {
      text_ += "\n  ";
      line_ = 0;
    }
    text_ += one;
    text_ += ',';
    line_ += one.size() + 1;
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
  size_t line_ = 0;
};

std::string CFile::Constant(std::string_view type, const std::string& rest) {
  const auto [entry, added] = names_.try_emplace(StrCat(type, rest), "");
  if (added) {
    entry->second = StrCat("c", names_.size());
    constants_ += StrCat("static const ", type, " ", entry->second, rest, ";\n");
  }
  return entry->second;
}

std::string CFile::Array(const char* type, size_t element, size_t count, const std::string& text) {
  // A C array has at least one element.
  const size_t before = names_.size();
  std::string name =
      Constant(type, count == 0 ? "[1] = {0}" : StrCat("[", count, "] = {\n  ", text, "\n}"));
  if (names_.size() > before) constant_bytes_ += element * count;
  return name;
}

std::string CFile::Bytes(std::span<const uint8_t> values) {
  if (kernels_ == nullptr) return "";
  Elements elements;
  for (const uint8_t value : values) elements.Add(StrCat(static_cast<int>(value)));
  return Array("uint8_t", 1, values.size(), elements.text());
}

std::string CFile::Ints(std::span<const int32_t> values) {
  if (kernels_ == nullptr) return "";
  Elements elements;
  for (const int32_t value : values) {
    // In C, -2147483648 is a minus and a number that int cannot hold.
    elements.Add(value == INT32_MIN ? std::string("INT32_MIN") : StrCat(value));
  }
  return Array("int32_t", 4, values.size(), elements.text());
}

std::string CFile::Longs(std::span<const int64_t> values) {
  if (kernels_ == nullptr) return "";
  Elements elements;
  for (const int64_t value : values) {
    elements.Add(value == INT64_MIN ? std::string("INT64_MIN") : StrCat(value, "LL"));
  }
  return Array("int64_t", 8, values.size(), elements.text());
}

std::string CFile::Table(const char* type, std::span<const Fields> rows) {
  if (kernels_ == nullptr) return "";
  std::string text;
  for (const Fields& row : rows) text += StrCat(text.empty() ? "" : ",\n  ", row.Braced());
  return Constant(
      type, rows.empty() ? "[1] = {{0}}" : StrCat("[", rows.size(), "] = {\n  ", text, "\n}"));
}

std::string CFile::Floats(std::span<const float> values) {
  if (kernels_ == nullptr) return "";
  Elements elements;
  for (const float value : values) elements.Add(CFloat(value));
  return Array("float", 4, values.size(), elements.text());
}

Fields CFile::Scales(const PreparedRequantize& prepared) {
  Fields out;
  if (kernels_ == nullptr) return out;
  Use("output");
  const RequantizeParams params = prepared.Params();
  const bool real = requantize_ == RequantizeMode::kFloat;
  std::vector<std::string> texts;
  for (int32_t c = 0; c < prepared.channels(); ++c) {
    Fields scale;
    if (real) {
      scale << CFloat(params.scale[c]);
    } else {
      scale << params.multiplier[c] << params.shift[c];
    }
    texts.push_back(scale.Braced());
  }
  const bool same = std::all_of(texts.begin(), texts.end(),
                                [&texts](const std::string& text) { return text == texts[0]; });
  if (same) texts.resize(1);
  Elements elements;
  for (const std::string& text : texts) elements.Add(text);
  return out << Array("rq_scale", real ? 4 : 8, texts.size(), elements.text()) << (same ? 0 : 1);
}

std::string CFile::Struct(std::string_view type, const Fields& members) {
  if (kernels_ == nullptr) return "";
  return StrCat("&", Constant(type, StrCat(" = {", members.text(), "}")));
}

std::string CFile::Pointer(const Value* value) {
  value = Root(value);
  if (value->is_constant()) {
    const Tensor& tensor = value->constant;
    if (tensor.dtype() == DType::kFloat32) return Floats(tensor.values<float>());
    return Bytes({static_cast<const uint8_t*>(tensor.raw()), tensor.bytes()});
  }
  const auto found = std::find(pointers_.begin(), pointers_.end(), value);
  const auto number = found - pointers_.begin();
  if (found == pointers_.end()) pointers_.push_back(value);
  return StrCat("v", number);
}

void CFile::Call(std::string_view function, const Fields& arguments) {
  statements_ += StrCat("  ", function, "(", arguments.text(), ");\n");
}

void CFile::Comment(const std::string& text) { statements_ += StrCat("  /* ", text, " */\n"); }

}  // namespace requant
