#include <algorithm>
#include <cctype>
#include <limits>

#include "base/error.h"
#include "base/str_cat.h"
#include "codegen/call.h"
#include "codegen/codegen.h"
#include "codegen/emit.h"
#include "plan/placement.h"

namespace requant {
namespace {

constexpr size_t kAlignment = 16;

/// The row of a node's operator; nullptr if it has no form in C.
const EmitRow* RowOf(const Node& node) {
  for (const EmitRow& row : EmitTable()) {
    if (node.Is(row.op, row.domain)) return &row;
  }
  return nullptr;
}

/// "float", "int8_t", ...: the type in which the caller passes elements of a graph's input or
/// output.
const char* CType(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return "float";
    case DType::kFloat64:
      return "double";
    case DType::kInt8:
      return "int8_t";
    case DType::kUint8:
    case DType::kBool:
      return "uint8_t";
    case DType::kInt16:
      return "int16_t";
    case DType::kUint16:
      return "uint16_t";
    case DType::kInt32:
      return "int32_t";
    case DType::kUint32:
      return "uint32_t";
    case DType::kInt64:
      return "int64_t";
    case DType::kUint64:
      return "uint64_t";
    default:
      return nullptr;
  }
}

void Emit(EmitContext context) {
  CheckValues(context);
  const EmitRow* row = RowOf(context.node);
  if (row == nullptr) context.Unsupported(context.node.op_type);
  // A tensor without elements needs no code.
  const Value* output = context.node.output();
  if (output != nullptr && NumElements(output->type.StaticShape()) == 0) return;
  row->emit(context);
}

/// Makes a text safe for a C comment.
std::string CommentText(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const bool plain = std::isalnum(static_cast<unsigned char>(c)) != 0 ||
                       std::string_view("_-.,:/[]() ").find(c) != std::string_view::npos;
    out += plain ? c : '_';
  }
  return out;
}

std::string TypeText(const Value& value) {
  std::string out = CType(value.type.dtype);
  for (const int64_t dim : value.type.StaticShape()) out += StrCat("[", dim, "]");
  return out;
}

size_t BytesOf(const Value& value) {
  return DTypeBytes(value.type.dtype, static_cast<size_t>(NumElements(value.type.StaticShape())));
}

/// Writes the two files of one graph.
class Writer {
 public:
  Writer(const Graph& graph, const GenerateCOptions& options, const CKernels& kernels)
      : graph_(graph),
        name_(options.name),
        file_(graph, options.requantize, &kernels),
        calls_(graph, options),
        homes_(graph.values().size()) {}

  GeneratedC Write();

 private:
  /// The memory of a root: that of an input or output, or for some time a part of the workspace.
  struct Home {
    std::string parameter;  // parameter of the function
    int first = -1, last = -1;
    size_t offset = 0;
  };

  Home& HomeOf(const Value* value) { return homes_[file_.Root(value)->position]; }
  std::string AddParameter(const Value& value, const char* prefix, const char* qualifier);
  void FindHomes();
  void EmitNodes();
  void PlaceRest();
  std::string Declarations();
  std::string Signature() const;

  const Graph& graph_;
  std::string name_;
  CFile file_;
  VendorCalls calls_;
  std::vector<Home> homes_;         // by the position of the root
  std::vector<std::string> names_;  // names of the parameters
  std::string parameters_, comments_;
  std::vector<std::pair<const Value*, std::string>> copies_;  // copies at the end: root, parameter
  size_t workspace_ = 0;
};

/// Adds a parameter named like the value, as far as C permits, and unique.
std::string Writer::AddParameter(const Value& value, const char* prefix, const char* qualifier) {
  if (CType(value.type.dtype) == nullptr || !value.type.IsStatic()) {
    Fail(ErrorCode::kUnsupported, StrCat("\"", value.name, "\" has no form in C"),
         {.value = value.name,
          .hint = "Its shape and an element type of whole bytes must be known."});
  }
  std::string base(prefix);
  for (const char c : value.name) base += IsIdentifier(StrCat("_", c)) ? c : '_';
  std::string name = base;
  for (int i = 2; std::find(names_.begin(), names_.end(), name) != names_.end(); ++i) {
    name = StrCat(base, "_", i);
  }
  names_.push_back(name);
  parameters_ += StrCat(qualifier, CType(value.type.dtype), " *", name, ", ");
  comments_ += StrCat("/* ", name, ": ", TypeText(value), " */\n");
  return name;
}

void Writer::FindHomes() {
  for (const auto& node : graph_.nodes()) {
    if (!IsReshape(*node) || calls_.Has(*node)) continue;
    file_.SetRoot(node->output(), file_.Root(node->input(0)));
  }
  for (const Value* input : graph_.inputs()) {
    if (!input->is_constant()) HomeOf(input).parameter = AddParameter(*input, "in_", "const ");
  }
  for (const Value* output : graph_.outputs()) {
    std::string parameter = AddParameter(*output, "out_", "");
    const Value* root = file_.Root(output);
    if (root->producer == nullptr || !HomeOf(root).parameter.empty()) {
      copies_.emplace_back(root, std::move(parameter));
    } else {
      HomeOf(root).parameter = std::move(parameter);
    }
  }
}

void Writer::EmitNodes() {
  for (const auto& node : graph_.nodes()) {
    const bool called = calls_.Has(*node);
    if (IsReshape(*node) && !called) continue;
    const Value* output = node->output();
    file_.Comment(StrCat(CommentText(node->name), ": ", CommentText(node->op_type),
                         output ? StrCat(", ", TypeText(*output)) : ""));
    if (!called) {
      Emit({graph_, *node, file_});
    } else if (!calls_.EndingWith(*node).empty()) {
      calls_.Emit(graph_, *node, file_);
    }
  }
  for (const auto& [root, parameter] : copies_) {
    file_.Call("memcpy", Fields() << parameter << file_.Pointer(root)
                                  << static_cast<int64_t>(BytesOf(*root)));
  }
}

void Writer::PlaceRest() {
  int moment = 0;
  const auto touch = [&](const Value* value) {
    if (value == nullptr || file_.Root(value)->is_constant()) return;
    Home& home = HomeOf(value);
    if (home.first < 0) home.first = moment;
    home.last = moment;
  };
  for (const auto& node : graph_.nodes()) {
    // A call reads everything at the moment of its last node, and its inner results have no memory.
    const std::vector<const Node*>& call = calls_.EndingWith(*node);
    for (const Node* member : call) {
      for (const Value* value : member->inputs) {
        const bool inner = value != nullptr && value->producer != nullptr &&
                           std::find(call.begin(), call.end(), value->producer) != call.end();
        if (!inner) touch(value);
      }
    }
    if (!calls_.Has(*node)) {
      for (const Value* value : node->inputs) touch(value);
    }
    if (!calls_.Has(*node) || !call.empty()) {
      for (const Value* value : node->outputs) touch(value);
    }
    ++moment;
  }
  for (const auto& [root, parameter] : copies_) touch(root);
  std::vector<Lifetime> lifetimes;
  std::vector<Home*> placed;
  for (size_t i = 0; i < homes_.size(); ++i) {
    Home& home = homes_[i];
    if (home.first < 0 || !home.parameter.empty()) continue;
    placed.push_back(&home);
    lifetimes.push_back({BytesOf(*graph_.values()[i]), home.first, home.last});
  }
  const size_t peak = PeakBytes(lifetimes, moment + 1, kAlignment);
  const Placement placement = PlaceLifetimes(lifetimes, kAlignment, peak);
  for (size_t i = 0; i < placed.size(); ++i) placed[i]->offset = placement.offsets[i];
  workspace_ = placement.bytes;
}

std::string Writer::Declarations() {
  std::string out;
  if (workspace_ == 0) out += "  (void)workspace;\n";
  size_t number = 0;
  for (const Value* value : file_.pointers()) {
    const Home& home = HomeOf(value);
    const std::string type = StrCat(value->producer == nullptr ? "const " : "",
                                    value->type.dtype == DType::kFloat32 ? "float" : "uint8_t");
    out += StrCat("  ", type, " *const v", number++, " = (", type, " *)");
    out += home.parameter.empty() ? StrCat("(void *)((uint8_t *)workspace + ", home.offset, ")")
                                  : home.parameter;
    out += ";\n";
  }
  return out;
}

std::string Writer::Signature() const {
  return StrCat("void ", name_, "_run(", parameters_, "void *workspace)");
}

GeneratedC Writer::Write() {
  if (!IsIdentifier(name_)) {
    Fail(ErrorCode::kInvalidArgument, StrCat("\"", name_, "\" is no name in C"),
         {.value = "options.name", .hint = "Take letters, digits and _, no digit first."});
  }
  FindHomes();
  EmitNodes();
  PlaceRest();
  std::string upper = name_;
  for (char& c : upper) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  GeneratedC out;
  out.workspace_bytes = workspace_;
  out.constant_bytes = file_.constant_bytes();
  out.header =
      StrCat("/* Made by Requant. */\n#ifndef ", upper, "_H\n#define ", upper,
             "_H\n\n#include <stdint.h>\n\n#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n") +
      StrCat("/* Bytes of memory that ", name_, "_run needs, at a multiple of ", kAlignment,
             ". What is in them before and after a run does not matter. */\n#define ", upper,
             "_WORKSPACE_BYTES ", workspace_, "\n\n") +
      StrCat(calls_.Declarations(), comments_, Signature(),
             ";\n\n#ifdef __cplusplus\n}\n#endif\n\n#endif\n");
  out.source =
      StrCat(
          "/* Made by Requant: C99, with nothing but the standard library. Compile it without "
          "options\n   that let floats be computed in another way than written (-ffast-math). "
          "*/\n#include \"",
          name_, ".h\"\n", calls_.Includes(),
          "\n#include <float.h>\n#include <math.h>\n#include <stddef.h>\n#include "
          "<string.h>\n\n") +
      StrCat(file_.Definitions(), "\n", Signature(), " {\n", Declarations(), file_.statements(),
             "}\n");
  return out;
}

}  // namespace

bool IsIdentifier(std::string_view name) {
  const auto fits = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  };
  return !name.empty() && std::all_of(name.begin(), name.end(), fits) &&
         !(name[0] >= '0' && name[0] <= '9');
}

void CheckValues(const EmitContext& context) {
  const auto check = [&context](const Value* value) {
    if (value == nullptr) return;
    if (!value->type.IsStatic()) context.Unsupported("a shape that is not known");
    if (CType(value->type.dtype) == nullptr) {
      context.Unsupported(StrCat("a tensor of ", DTypeName(value->type.dtype)));
    }
    if (NumElements(value->type.StaticShape()) > std::numeric_limits<int32_t>::max()) {
      context.Unsupported("a tensor of more than 2^31 elements");
    }
  };
  for (const Value* value : context.node.inputs) check(value);
  for (const Value* value : context.node.outputs) check(value);
}

bool IsReshape(const Node& node) {
  static constexpr const char* kOps[] = {"Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity"};
  return std::any_of(std::begin(kOps), std::end(kOps),
                     [&node](const char* op) { return node.Is(op); });
}

GeneratedC GenerateC(const Graph& graph, const GenerateCOptions& options, const CKernels& kernels) {
  return Writer(graph, options, kernels).Write();
}

bool HasC(const Graph& graph, const Node& node, RequantizeMode requantize) {
  CFile scratch(graph, requantize, nullptr);
  try {
    if (IsReshape(node)) {
      CheckValues({graph, node, scratch});
    } else {
      Emit({graph, node, scratch});
    }
    return true;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kUnsupported) throw;
    return false;
  }
}

}  // namespace requant
