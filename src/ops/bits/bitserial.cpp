// BitSerialConv and BitSerialMatMul: products of packed codes, plane by plane, as TVM's
// topi.nn.bitserial_conv2d and bitserial_dense define them
// (python/tvm/topi/nn/bitserial_conv2d.py):
//
//   y = sum over planes i of x and j of w of P(x_i, w_j) 2^(i + j), summed over k (and the window)
//   form "and"    P = popcount(x & w)                       codes x and w as they are
//   form "mixed"  P = popcount(x & w) - popcount(x & ~w)    weights 2 w - (2^b - 1)
//   form "xnor"   P = k - 2 popcount(x ^ w)                 both 2 x - (2^b - 1)
//
// Inputs: x packed by BitPack, w packed as well. BitSerialConv takes x [N, C, H, W] and w [M, C /
// group, kH, kW], BitSerialMatMul x [..., K] and w [K, M], before packing along C or K.
// Attributes: `form`, default "mixed" (TVM's unipolar = True; "and" is its False); `length`, the
// number of channels or K; `bits` and `weight_bits`, default 1; `bit_axis` and `weight_bit_axis`,
// the dimensions of the planes, default the last; `out_type`, "int32" (default) or "int16", to
// which sums saturate; for BitSerialConv those of ConvInteger, and `channels_last`: with 1 (TVM's
// bitserial_conv2d_nhwc) x is [N, H, W, C], packed along C, and y is [N, oH, oW, M]; w stays as it
// is. Padding counts as 0 in every form.
//
// Before running, RewriteBitSerial makes a ConvInteger or MatMulInteger of constant weights, whose
// kernels for few bits the planner chooses by the codes; a BitPack of known codes before it
// disappears.
#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/late_text.h"
#include "base/str_cat.h"
#include "ops/bits/bitpack.h"
#include "ops/infer_util.h"
#include "ops/shape/select.h"

namespace requant {
namespace {

enum class Form : uint8_t { kAnd, kMixed, kXnor };

struct BitSerial {
  bool conv = true;
  bool channels_last = false;
  Form form = Form::kMixed;
  DType out = DType::kInt32;
  int64_t length = -1;
  BitPacking x, w;
};

/// `x_rank` and `w_rank` are those of the codes.
BitSerial ReadBitSerial(const Node& node, int64_t x_rank, int64_t w_rank) {
  BitSerial made;
  made.conv = node.op_type == "BitSerialConv";
  const std::string form = node.attributes.String("form", "mixed");
  const std::string out = node.attributes.String("out_type", "int32");
  if (form != "and" && form != "mixed" && form != "xnor") {
    Fail(ErrorCode::kInvalidModel, StrCat(node.op_type, RQ_LATE_TEXT(" of the form '"), form, "'"),
         {.node = node.name, .hint = RQ_LATE_TEXT("the forms are and, mixed and xnor")});
  }
  if (out != "int16" && out != "int32") {
    Fail(ErrorCode::kInvalidModel, StrCat(node.op_type, RQ_LATE_TEXT(" with results of "), out),
         {.node = node.name, .hint = RQ_LATE_TEXT("results are int16 or int32")});
  }
  made.form = form == "and" ? Form::kAnd : form == "mixed" ? Form::kMixed : Form::kXnor;
  made.out = out == "int16" ? DType::kInt16 : DType::kInt32;
  made.length = node.attributes.Int("length", -1);
  if (x_rank < (made.conv ? 3 : 1) || w_rank != (made.conv ? x_rank : 2)) {
    Fail(ErrorCode::kShapeMismatch,
         StrCat(node.op_type, RQ_LATE_TEXT(" of codes of "), x_rank, RQ_LATE_TEXT(" and "), w_rank,
                RQ_LATE_TEXT(" dimensions")),
         {.node = node.name});
  }
  made.channels_last = made.conv && node.attributes.Int("channels_last", 0) != 0;
  made.x.axis = made.conv && !made.channels_last ? 1 : x_rank - 1;
  made.w.axis = made.conv ? 1 : 0;
  made.x.bits = node.attributes.Int("bits", 1);
  made.w.bits = node.attributes.Int("weight_bits", 1);
  made.x.bit_axis = NormalizeAxis(node.attributes.Int("bit_axis", -1), x_rank + 1, "bit_axis");
  made.w.bit_axis =
      NormalizeAxis(node.attributes.Int("weight_bit_axis", -1), w_rank + 1, "weight_bit_axis");
  const int64_t most_x = made.form == Form::kXnor ? 7 : 8;
  const int64_t most_w = made.form == Form::kAnd ? 8 : 7;
  if (made.x.bits < 1 || made.x.bits > most_x || made.w.bits < 1 || made.w.bits > most_w) {
    Fail(ErrorCode::kInvalidModel,
         StrCat(node.op_type, RQ_LATE_TEXT(" of "), made.x.bits, RQ_LATE_TEXT(" by "), made.w.bits,
                RQ_LATE_TEXT(" bits")),
         {.node = node.name,
          .hint = RQ_LATE_TEXT("codes have 1 to 8 bits, signs of several planes 1 to 7")});
  }
  return made;
}

/// The codes of a packed operand of known type and, unless it is -1, length.
Tensor CodesOfPacked(const Tensor& packed, BitPacking packing, int64_t length) {
  packing.width = WordBits(packed.dtype());
  const int64_t axis = packing.axis >= packing.bit_axis ? packing.axis + 1 : packing.axis;
  return UnpackBits(packed, packing, length < 0 ? packed.dim(axis) * packing.width : length);
}

/// 2 u - (2^bits - 1) as int8.
Tensor Signed(const Tensor& codes, int64_t bits) {
  Tensor out(DType::kInt8, codes.shape());
  const int32_t most = (1 << bits) - 1;
  for (int64_t i = 0; i < codes.count(); ++i) {
    out.data<int8_t>()[i] = static_cast<int8_t>(2 * codes.data<uint8_t>()[i] - most);
  }
  return out;
}

int64_t WeightLength(const BitSerial& serial, const Node& node) {
  const int64_t group = serial.conv ? node.attributes.Int("group", 1) : 1;
  return serial.length < 0 || group < 1 ? -1 : serial.length / group;
}

Tensor WeightsOf(const BitSerial& serial, const Node& node, const Tensor& packed) {
  const Tensor codes = CodesOfPacked(packed, serial.w, WeightLength(serial, node));
  return serial.form == Form::kAnd ? codes : Signed(codes, serial.w.bits);
}

Tensor Saturated(const Tensor& sums) {
  Tensor out(DType::kInt16, sums.shape());
  for (int64_t i = 0; i < sums.count(); ++i) {
    out.data<int16_t>()[i] =
        static_cast<int16_t>(std::clamp(sums.data<int32_t>()[i], -32768, 32767));
  }
  return out;
}

/// The row of the operator that adds up the products.
const OpDef& Products(const BitSerial& serial) {
  return *FindOp(serial.conv ? "ConvInteger" : "MatMulInteger", "");
}

/// The permutation of `rank` dimensions that moves the channels behind the batch, or back.
std::vector<int64_t> ChannelsToSecond(int64_t rank) {
  std::vector<int64_t> perm = {0, rank - 1};
  for (int64_t i = 1; i < rank - 1; ++i) perm.push_back(i);
  return perm;
}
std::vector<int64_t> ChannelsToLast(int64_t rank) {
  std::vector<int64_t> perm = {0};
  for (int64_t i = 2; i < rank; ++i) perm.push_back(i);
  perm.push_back(1);
  return perm;
}

SymbolicShape Permuted(const SymbolicShape& shape, const std::vector<int64_t>& perm) {
  SymbolicShape out;
  for (const int64_t axis : perm) out.push_back(shape[static_cast<size_t>(axis)]);
  return out;
}

SymbolicShape Unpacked(const SymbolicShape& packed, const BitPacking& packing, int64_t length) {
  SymbolicShape shape = packed;
  shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(packing.bit_axis));
  shape[static_cast<size_t>(packing.axis)] = length < 0 ? Dim() : Dim(length);
  return shape;
}

}  // namespace

void InferBitSerial(InferContext& context) {
  for (const size_t slot : {0, 1}) {
    RequireDType(context, slot, {DType::kUint8, DType::kUint16, DType::kUint32, DType::kUint64});
    RequireMinRank(context, slot, 2);
  }
  const SymbolicShape* x = context.shape(0);
  const SymbolicShape* w = context.shape(1);
  const bool narrow = context.attributes().String("out_type", "int32") == "int16";
  if (x == nullptr || w == nullptr) {
    SetOutput(context, 0, narrow ? DType::kInt16 : DType::kInt32, std::nullopt);
    return;
  }
  const BitSerial serial = ReadBitSerial(context.node, static_cast<int64_t>(x->size()) - 1,
                                         static_cast<int64_t>(w->size()) - 1);
  InferContext inner{context.graph, context.node, context.opset, {}, {}, {}, nullptr};
  SymbolicShape codes = Unpacked(*x, serial.x, serial.length);
  const auto rank = static_cast<int64_t>(codes.size());
  if (serial.channels_last) codes = Permuted(codes, ChannelsToSecond(rank));
  inner.inputs = {{DType::kUint8, std::move(codes)},
                  {DType::kUint8, Unpacked(*w, serial.w, WeightLength(serial, context.node))}};
  inner.constants.resize(2);
  inner.outputs.resize(1);
  Products(serial).infer(inner);
  std::optional<SymbolicShape> shape = inner.outputs[0].shape;
  if (serial.channels_last && shape) shape = Permuted(*shape, ChannelsToLast(rank));
  SetOutput(context, 0, serial.out, std::move(shape));
}

void EvaluateBitSerial(EvalContext& context) {
  const Tensor& x = context.input(0);
  const Tensor& w = context.input(1);
  const BitSerial serial = ReadBitSerial(context.node, x.rank() - 1, w.rank() - 1);
  Tensor codes = CodesOfPacked(x, serial.x, serial.length);
  if (serial.form == Form::kXnor) codes = Signed(codes, serial.x.bits);
  if (serial.channels_last) codes = Permute(codes, ChannelsToSecond(codes.rank()));
  const Tensor weights = WeightsOf(serial, context.node, w);
  const std::array<const Tensor*, 2> operands = {&codes, &weights};
  EvalContext inner{context.node, context.opset, context.requantize, operands, {}};
  inner.outputs.resize(1);
  Products(serial).evaluate(inner);
  Tensor sums = serial.out == DType::kInt16 ? Saturated(inner.outputs[0]) : inner.outputs[0];
  context.outputs[0] =
      serial.channels_last ? Permute(sums, ChannelsToLast(sums.rank())) : std::move(sums);
}

namespace {

class Rewriter {
 public:
  explicit Rewriter(Graph& graph) : graph_(graph) {}

  bool Run() {
    std::vector<Node*> nodes;
    for (const auto& node : graph_.nodes()) {
      const bool serial = node->domain == kRequantDomain && node->op_type.starts_with("BitSerial");
      if (serial && node->inputs[0]->type.IsStatic()) nodes.push_back(node.get());
    }
    for (Node* node : nodes) PackConstant(node->inputs[1]);
    std::erase_if(nodes, [](const Node* node) { return node->constant(1) == nullptr; });
    for (Node* node : nodes) Rewrite(*node);
    if (nodes.empty()) return false;
    graph_.SortTopologically();
    graph_.RemoveUnusedValues();
    return true;
  }

 private:
  /// Computes a BitPack of a constant.
  void PackConstant(Value* packed) {
    const Node* pack = packed->producer;
    if (pack == nullptr || pack->op_type != "BitPack" || pack->constant(0) == nullptr) return;
    const std::array<const Tensor*, 1> codes = {pack->constant(0)};
    graph_.MakeConstant(packed, EvaluateNode(graph_, *pack, codes, RequantizeMode::kUpward)[0]);
  }

  /// Adds an operator with up to two constants behind its operand.
  Value* Add(const Node& node, const char* op, const char* domain, Value* x, DType dtype,
             std::vector<Tensor> constants, AttributeMap attributes = {}) {
    std::vector<Value*> inputs = {x};
    const std::string name = StrCat(node.name, "_", op);
    for (Tensor& constant : constants) {
      inputs.push_back(graph_.AddConstant(name + "_by", std::move(constant)));
    }
    return graph_.AddOp(op, domain, std::move(inputs), name, {dtype, std::nullopt},
                        std::move(attributes), name);
  }

  /// The codes of x, uint8 in [0, 2^bits): those that a BitPack before has packed, or unpacked
  /// ones.
  Value* Codes(const Node& node, const BitSerial& serial) {
    Value* packed = node.inputs[0];
    const int64_t axis = serial.x.axis >= serial.x.bit_axis ? serial.x.axis + 1 : serial.x.axis;
    const Shape shape = packed->type.StaticShape();
    const int64_t width = WordBits(packed->type.dtype);
    const int64_t length =
        serial.length < 0 ? shape[static_cast<size_t>(axis)] * width : serial.length;
    if (Value* source = PackedCodes(*packed, serial, length)) return source;
    AttributeMap attributes;
    attributes.Set("axis", serial.x.axis);
    attributes.Set("bit_axis", serial.x.bit_axis);
    attributes.Set("bits", serial.x.bits);
    attributes.Set("length", length);
    Value* unpacked =
        Add(node, "BitUnpack", kRequantDomain, packed, DType::kUint8, {}, std::move(attributes));
    // The bounds tell the planner which codes there are.
    const auto most = static_cast<uint8_t>((1 << serial.x.bits) - 1);
    return Add(node, "Clip", "", unpacked, DType::kUint8,
               {Tensor::Scalar(uint8_t{0}), Tensor::Scalar(most)});
  }

  /// The codes that a BitPack of the same form packed, where a Clip says that no bit is lost.
  static Value* PackedCodes(const Value& packed, const BitSerial& serial, int64_t length) {
    const Node* pack = packed.producer;
    if (pack == nullptr || pack->op_type != "BitPack" || pack->domain != kRequantDomain) {
      return nullptr;
    }
    Value* codes = pack->inputs[0];
    if (!codes->type.IsStatic() || codes->type.dtype != DType::kUint8) return nullptr;
    const auto rank = static_cast<int64_t>(codes->type.shape->size());
    const AttributeMap& a = pack->attributes;
    const bool same = NormalizeAxis(a.Int("axis", -1), rank) == serial.x.axis &&
                      NormalizeAxis(a.Int("bit_axis", -1), rank + 1) == serial.x.bit_axis &&
                      a.Int("bits", 1) == serial.x.bits &&
                      codes->type.StaticShape()[static_cast<size_t>(serial.x.axis)] == length;
    if (!same) return nullptr;
    const Node* clip = codes->producer;
    const Tensor* high = clip && clip->Is(Op::kClip) ? clip->constant(2) : nullptr;
    const bool fits =
        serial.x.bits == 8 || (high && high->AsInt64(0) < (int64_t{1} << serial.x.bits));
    return fits ? codes : nullptr;
  }

  void Rewrite(Node& node) {
    const auto rank_of = [](const Value* value) {
      return static_cast<int64_t>(value->type.shape->size()) - 1;
    };
    const BitSerial serial =
        ReadBitSerial(node, rank_of(node.inputs[0]), node.constant(1)->rank() - 1);
    Value* codes = Codes(node, serial);
    if (serial.form == Form::kXnor) codes = Signs(node, serial, codes);
    const int64_t rank = rank_of(node.inputs[0]);
    // Kernels take channels last, so the plan has neither of the two transpositions.
    if (serial.channels_last) {
      codes = Transposed(node, codes, codes->type.dtype, ChannelsToSecond(rank));
    }
    AttributeMap attributes;
    for (const char* name : {"strides", "pads", "dilations", "group", "auto_pad"}) {
      if (const Attribute* found = node.attributes.Find(name)) attributes.Set(name, *found);
    }
    Value* sums = Add(node, serial.conv ? "ConvInteger" : "MatMulInteger", "", codes, DType::kInt32,
                      {WeightsOf(serial, node, *node.constant(1))}, std::move(attributes));
    if (serial.out == DType::kInt16) {
      sums = Add(node, "Clip", "", sums, DType::kInt32,
                 {Tensor::Scalar(int32_t{-32768}), Tensor::Scalar(int32_t{32767})});
      AttributeMap to;
      to.Set("to", static_cast<int64_t>(DType::kInt16));
      sums = Add(node, "Cast", "", sums, DType::kInt16, {}, std::move(to));
    }
    if (serial.channels_last) sums = Transposed(node, sums, serial.out, ChannelsToLast(rank));
    graph_.ReplaceAndKeepName(node.outputs[0], sums);
  }

  Value* Transposed(const Node& node, Value* x, DType dtype, std::vector<int64_t> perm) {
    AttributeMap attributes;
    attributes.Set("perm", std::move(perm));
    return Add(node, "Transpose", "", x, dtype, {}, std::move(attributes));
  }

  /// 2 u - (2^bits - 1) of every code, by a table.
  Value* Signs(const Node& node, const BitSerial& serial, Value* codes) {
    Tensor table(DType::kInt8, {256});
    const int32_t most = (1 << serial.x.bits) - 1;
    for (int32_t u = 0; u < 256; ++u) {
      table.data<int8_t>()[u] = static_cast<int8_t>(2 * std::min(u, most) - most);
    }
    return Add(node, "Lut", kRequantDomain, codes, DType::kInt8, {table});
  }

  Graph& graph_;
};

}  // namespace

bool RewriteBitSerial(Graph& graph) { return Rewriter(graph).Run(); }

}  // namespace requant
