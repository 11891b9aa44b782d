// Broadcasting operators: arithmetic, logic, comparisons, Where and PRelu.
//
// A function exists once for each of three computing classes: float32 and float64 compute in double
// (+, -, *, / of two floats rounded from double are the correctly rounded float results, because
// 53 >= 2 * 24 + 2), integers up to 64 bits in int64 modulo 2^64, uint64 in itself.
#include <cmath>
#include <cstring>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/error.h"
#include "base/str_cat.h"
#include "ops/elementwise/cast.h"
#include "ops/elementwise/elementwise.h"
#include "ops/elementwise/float_loops.h"
#include "ops/infer_util.h"
#include "ops/table.h"

namespace requant {
namespace {

/// The class that computes elements of T.
template <typename T>
using ComputeOf =
    std::conditional_t<std::is_floating_point_v<T>, double,
                       std::conditional_t<std::is_same_v<T, uint64_t>, uint64_t, int64_t>>;

/// One function in all three classes; `Result` void means "the class itself".
template <typename Result>
struct Classes {
  template <typename C>
  using Returned = std::conditional_t<std::is_void_v<Result>, C, Result>;

  const char* name;
  Returned<double> (*real)(double, double);
  Returned<int64_t> (*integer)(int64_t, int64_t);
  Returned<uint64_t> (*natural)(uint64_t, uint64_t);

  template <typename C>
  auto get() const {
    if constexpr (std::is_same_v<C, double>) {
      return real;
    } else if constexpr (std::is_same_v<C, int64_t>) {
      return integer;
    } else {
      return natural;
    }
  }
};

/// out = function(a, b), broadcast; T is the element type of a and b, R of out.
template <typename T, typename R, typename Apply>
void Broadcast(const Tensor& a, const Tensor& b, Tensor& out, Apply apply) {
  using C = ComputeOf<T>;
  const T* pa = a.data<T>();
  const T* pb = b.data<T>();
  R* to = static_cast<R*>(out.raw());
  ForEachRow(PlanRows(out.shape(), {&a.shape(), &b.shape()}), [&](const RowStep& row) {
    const T* ra = pa + row.input[0];
    const T* rb = pb + row.input[1];
    for (int64_t i = 0; i < row.length; ++i) {
      to[row.output + i] = static_cast<R>(
          apply(static_cast<C>(ra[i * row.step[0]]), static_cast<C>(rb[i * row.step[1]])));
    }
  });
}

void RequireComputable(DType dtype, const Node& node) {
  if (IsNumeric(dtype)) return;
  Fail(ErrorCode::kTypeMismatch, StrCat(node.op_type, " of ", DTypeName(dtype)));
}

// --- arithmetic

[[noreturn]] void DivisionByZero() {
  Fail(ErrorCode::kInvalidArgument, "integer division by zero");
}

int64_t Wrap(uint64_t value) { return static_cast<int64_t>(value); }
uint64_t Bits(int64_t value) { return static_cast<uint64_t>(value); }

int64_t DivideIntegers(int64_t a, int64_t b) {
  if (b == 0) DivisionByZero();
  return b == -1 ? Wrap(0 - Bits(a)) : a / b;  // the least integer / -1 wraps
}

uint64_t DivideNaturals(uint64_t a, uint64_t b) {
  if (b == 0) DivisionByZero();
  return a / b;
}

/// Python's %: the sign of the divisor.
int64_t ModuloIntegers(int64_t a, int64_t b) {
  if (b == 0) DivisionByZero();
  if (b == -1) return 0;
  const int64_t rest = a % b;
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

int64_t RemainderIntegers(int64_t a, int64_t b) {
  if (b == 0) DivisionByZero();
  return b == -1 ? 0 : a % b;
}

uint64_t ModuloNaturals(uint64_t a, uint64_t b) {
  if (b == 0) DivisionByZero();
  return a % b;
}

/// Greater or smaller with numpy's rule that NaN wins.
double Larger(double a, double b) { return a > b || std::isnan(a) ? a : b; }
double Smaller(double a, double b) { return a < b || std::isnan(a) ? a : b; }

constexpr Classes<void> kArithmetic[] = {
    {"Add", [](double a, double b) { return a + b; },
     [](int64_t a, int64_t b) { return Wrap(Bits(a) + Bits(b)); },
     [](uint64_t a, uint64_t b) { return a + b; }},
    {"Sub", [](double a, double b) { return a - b; },
     [](int64_t a, int64_t b) { return Wrap(Bits(a) - Bits(b)); },
     [](uint64_t a, uint64_t b) { return a - b; }},
    {"Mul", [](double a, double b) { return a * b; },
     [](int64_t a, int64_t b) { return Wrap(Bits(a) * Bits(b)); },
     [](uint64_t a, uint64_t b) { return a * b; }},
    {"Div", [](double a, double b) { return a / b; }, DivideIntegers, DivideNaturals},
    {"Max", Larger, [](int64_t a, int64_t b) { return a > b ? a : b; },
     [](uint64_t a, uint64_t b) { return a > b ? a : b; }},
    {"Min", Smaller, [](int64_t a, int64_t b) { return a < b ? a : b; },
     [](uint64_t a, uint64_t b) { return a < b ? a : b; }},
    {"Mod", [](double a, double b) { return std::fmod(a, b); }, ModuloIntegers, ModuloNaturals},
    {"PRelu", [](double x, double slope) { return x < 0 ? slope * x : x; },
     [](int64_t x, int64_t slope) { return x < 0 ? Wrap(Bits(slope) * Bits(x)) : x; },
     [](uint64_t x, uint64_t) { return x; }},
};

/// fmod = 1: the sign of the dividend, as C's %.
constexpr Classes<void> kRemainder = {"Mod", [](double a, double b) { return std::fmod(a, b); },
                                      RemainderIntegers, ModuloNaturals};

const Classes<void>& ArithmeticOf(const Node& node) {
  if (node.op_type == "Mod" && node.attributes.Int("fmod", 0) != 0) return kRemainder;
  for (const Classes<void>& row : kArithmetic) {
    if (node.op_type == row.name) return row;
  }
  Fail(ErrorCode::kInternal, StrCat("no function for ", node.op_type));
}

Tensor Arithmetic(const Classes<void>& function, const Tensor& a, const Tensor& b) {
  Tensor out(a.dtype(), BroadcastShapes(a.shape(), b.shape()));
  VisitDType(a.dtype(), [&](auto tag) {
    using T = decltype(tag);
    Broadcast<T, T>(a, b, out, function.get<ComputeOf<T>>());
  });
  return out;
}

void InferArithmetic(InferContext& context) {
  for (size_t slot = 0; slot < context.inputs.size(); ++slot) RequireNumeric(context, slot);
  ElementwiseBroadcast(context);
}

void InferMod(InferContext& context) {
  if (context.attributes().Int("fmod", 0) == 0 && IsFloat(context.inputs[0].dtype)) {
    Fail(ErrorCode::kInvalidModel, "Mod of floats needs the attribute fmod = 1");
  }
  InferArithmetic(context);
}

void EvaluateArithmetic(EvalContext& context) {
  const Tensor& first = context.input(0);
  RequireComputable(first.dtype(), context.node);
  const Classes<void>& function = ArithmeticOf(context.node);
  // Min, Max and Sum take any number of inputs, a single one too.
  Tensor result = first;
  for (size_t slot = 1; slot < context.inputs.size(); ++slot) {
    result = Arithmetic(function, result, context.input(slot));
  }
  context.outputs[0] = std::move(result);
}

/// Sum and Mean of floats: one sum in double, rounded once.
void InferFloatSum(InferContext& context) {
  for (size_t slot = 0; slot < context.inputs.size(); ++slot) RequireFloat(context, slot);
  ElementwiseBroadcast(context);
}

template <typename T>
void SumInputs(const EvalContext& context, double divisor, Tensor& out) {
  std::vector<double> sums(static_cast<size_t>(out.count()), 0.0);
  for (size_t slot = 0; slot < context.inputs.size(); ++slot) {
    const Tensor& x = context.input(slot);
    const T* from = x.data<T>();
    ForEachRow(PlanRows(out.shape(), {&x.shape()}), [&](const RowStep& row) {
      double* to = sums.data() + row.output;
      for (int64_t i = 0; i < row.length; ++i) to[i] += from[row.input[0] + i * row.step[0]];
    });
  }
  for (size_t i = 0; i < sums.size(); ++i) out.data<T>()[i] = static_cast<T>(sums[i] / divisor);
}

void EvaluateFloatSum(EvalContext& context) {
  Shape shape;
  for (size_t slot = 0; slot < context.inputs.size(); ++slot) {
    shape = BroadcastShapes(shape, context.input(slot).shape());
  }
  Tensor out(context.input(0).dtype(), std::move(shape));
  const double divisor =
      context.node.op_type == "Mean" ? static_cast<double>(context.inputs.size()) : 1.0;
  if (out.dtype() == DType::kFloat64) {
    SumInputs<double>(context, divisor, out);
  } else {
    SumInputs<float>(context, divisor, out);
  }
  context.outputs[0] = std::move(out);
}

// --- PRelu

void InferPRelu(InferContext& context) {
  RequireNumeric(context, 0);
  RequireSameDType(context, 0, 1);
  const SymbolicShape* x = context.shape(0);
  const SymbolicShape* slope = context.shape(1);
  if (x && slope) {
    // Unidirectional: the slope stretches to x, never the other way round.
    const SymbolicShape joint = BroadcastSymbolic(*x, *slope);
    bool grows = joint.size() != x->size();
    for (size_t i = 0; !grows && i < joint.size(); ++i) {
      grows = joint[i].known() && (*x)[i].known() && joint[i].value != (*x)[i].value;
    }
    if (grows) {
      Fail(ErrorCode::kShapeMismatch,
           StrCat("the slope ", TypeToString(context.inputs[1]), " cannot be broadcast to ",
                  TypeToString(context.inputs[0])));
    }
  }
  SameAsInput(context);
}

void EvaluatePRelu(EvalContext& context) {
  const Tensor& x = context.input(0);
  RequireComputable(x.dtype(), context.node);
  Tensor out = Arithmetic(ArithmeticOf(context.node), x, context.input(1));
  if (out.shape() != x.shape()) {
    Fail(ErrorCode::kShapeMismatch, StrCat("the slope ", ShapeToString(context.input(1).shape()),
                                           " cannot be broadcast to ", ShapeToString(x.shape())));
  }
  context.outputs[0] = std::move(out);
}

// --- Pow

void InferPow(InferContext& context) {
  RequireNumeric(context, 0);
  RequireNumeric(context, 1);
  SetOutput(context, 0, context.inputs[0].dtype, BroadcastOfInputs(context));
}

/// base^exponent modulo 2^64; a negative exponent gives the truncated real result.
int64_t PowerOfIntegers(int64_t base, int64_t exponent) {
  if (exponent < 0) {
    if (base == 1) return 1;
    if (base == -1) return exponent % 2 ? -1 : 1;
    if (base == 0) DivisionByZero();
    return 0;
  }
  uint64_t result = 1;
  uint64_t square = Bits(base);
  for (auto rest = Bits(exponent); rest != 0; rest >>= 1) {
    if (rest & 1) result *= square;
    square *= square;
  }
  return Wrap(result);
}

void EvaluatePow(EvalContext& context) {
  const Tensor& base = context.input(0);
  const Tensor& exponent = context.input(1);
  RequireComputable(base.dtype(), context.node);
  RequireComputable(exponent.dtype(), context.node);
  Tensor out = context.Output(0, base.dtype(), BroadcastShapes(base.shape(), exponent.shape()));
  if (base.dtype() == DType::kFloat32 && exponent.count() == 1 && out.count() == base.count() &&
      float_loops::Power(base.data<float>(), out.data<float>(), out.count(),
                         exponent.AsDouble(0))) {
    context.outputs[0] = std::move(out);
    return;
  }
  // One loop serves all ten types, few of whose powers are ever taken.
  const bool integers = IsInteger(base.dtype()) && IsInteger(exponent.dtype());
  Tensor powers(integers ? DType::kInt64 : DType::kFloat64, out.shape());
  const std::vector<double> reals = integers ? std::vector<double>{} : Doubles(base);
  const std::vector<double> real_exponents = integers ? std::vector<double>{} : Doubles(exponent);
  const double* bases = reals.data();
  const double* exponents = real_exponents.data();
  ForEachRow(PlanRows(out.shape(), {&base.shape(), &exponent.shape()}), [&](const RowStep& row) {
    auto* whole = static_cast<int64_t*>(powers.raw()) + row.output;
    auto* real = static_cast<double*>(powers.raw()) + row.output;
    for (int64_t i = 0; i < row.length; ++i) {
      const int64_t from = row.input[0] + i * row.step[0], at = row.input[1] + i * row.step[1];
      if (integers) {
        whole[i] = PowerOfIntegers(base.AsInt64(from), exponent.AsInt64(at));
      } else {
        real[i] = std::pow(bases[from], exponents[at]);
      }
    }
  });
  context.outputs[0] = CastTensor(powers, base.dtype());
}

// --- comparisons and logic

constexpr Classes<bool> kComparisons[] = {
    {"Equal", [](double a, double b) { return a == b; },
     [](int64_t a, int64_t b) { return a == b; }, [](uint64_t a, uint64_t b) { return a == b; }},
    {"Greater", [](double a, double b) { return a > b; },
     [](int64_t a, int64_t b) { return a > b; }, [](uint64_t a, uint64_t b) { return a > b; }},
    {"GreaterOrEqual", [](double a, double b) { return a >= b; },
     [](int64_t a, int64_t b) { return a >= b; }, [](uint64_t a, uint64_t b) { return a >= b; }},
    {"Less", [](double a, double b) { return a < b; }, [](int64_t a, int64_t b) { return a < b; },
     [](uint64_t a, uint64_t b) { return a < b; }},
    {"LessOrEqual", [](double a, double b) { return a <= b; },
     [](int64_t a, int64_t b) { return a <= b; }, [](uint64_t a, uint64_t b) { return a <= b; }},
};

void InferComparison(InferContext& context) {
  const bool bools = context.node.op_type == "Equal" && context.inputs[0].dtype == DType::kBool;
  if (!bools) RequireNumeric(context, 0);
  ElementwiseBroadcast(context);
  if (!context.outputs.empty()) context.outputs[0].dtype = DType::kBool;
}

void EvaluateComparison(EvalContext& context) {
  const Tensor& a = context.input(0);
  const Tensor& b = context.input(1);
  Tensor out(DType::kBool, BroadcastShapes(a.shape(), b.shape()));
  for (const Classes<bool>& row : kComparisons) {
    if (context.node.op_type != row.name) continue;
    const bool visited = VisitDType(a.dtype(), [&](auto tag) {
      using T = decltype(tag);
      Broadcast<T, uint8_t>(a, b, out, row.get<ComputeOf<T>>());
    });
    if (!visited) RequireComputable(a.dtype(), context.node);
  }
  context.outputs[0] = std::move(out);
}

void InferLogic(InferContext& context) {
  RequireDType(context, 0, {DType::kBool});
  RequireDType(context, 1, {DType::kBool});
  ElementwiseBroadcast(context);
}

void EvaluateLogic(EvalContext& context) {
  const Tensor& a = context.input(0);
  const Tensor& b = context.input(1);
  Tensor out = context.Output(0, DType::kBool, BroadcastShapes(a.shape(), b.shape()));
  const char kind = context.node.op_type[0];  // And, Or, Xor
  ForEachRow(PlanRows(out.shape(), {&a.shape(), &b.shape()}), [&](const RowStep& row) {
    float_loops::Logic(kind, a.data<uint8_t>() + row.input[0], row.step[0],
                       b.data<uint8_t>() + row.input[1], row.step[1],
                       out.data<uint8_t>() + row.output, row.length);
  });
  context.outputs[0] = std::move(out);
}

// --- Where

void InferWhere(InferContext& context) {
  RequireDType(context, 0, {DType::kBool});
  RequireSameDType(context, 1, 2);
  const DType dtype = context.inputs[1].dtype != DType::kUndefined ? context.inputs[1].dtype
                                                                   : context.inputs[2].dtype;
  if (dtype != DType::kUndefined && DTypeBits(dtype) < 8) {
    Fail(ErrorCode::kUnsupported, StrCat("Where of ", DTypeName(dtype)));
  }
  SetOutput(context, 0, dtype, BroadcastOfInputs(context));
}

/// Selects a row of elements of 4 bytes, as most are.
void WhereWords(const RowStep& row, const uint8_t* choose, const void* yes, const void* no,
                void* out) {
  choose += row.input[0];
  const auto* a = static_cast<const uint32_t*>(yes) + row.input[1];
  const auto* b = static_cast<const uint32_t*>(no) + row.input[2];
  auto* to = static_cast<uint32_t*>(out) + row.output;
  const auto [step, a_step, b_step] = row.step;
  for (int64_t i = 0; i < row.length; ++i) {
    const uint32_t first = *a;
    const uint32_t second = *b;
    to[i] = *choose != 0 ? first : second;
    choose += step;
    a += a_step;
    b += b_step;
  }
}

void EvaluateWhere(EvalContext& context) {
  const Tensor& condition = context.input(0);
  const Tensor& yes = context.input(1);
  const Tensor& no = context.input(2);
  if (yes.dtype() != no.dtype() || DTypeBits(yes.dtype()) < 8) {
    Fail(ErrorCode::kTypeMismatch,
         StrCat("Where of ", DTypeName(yes.dtype()), " and ", DTypeName(no.dtype())));
  }
  Tensor out = context.Output(
      0, yes.dtype(), BroadcastShapes(BroadcastShapes(condition.shape(), yes.shape()), no.shape()));
  const auto width = static_cast<int64_t>(DTypeBits(yes.dtype()) / 8);
  const auto* choose = condition.data<uint8_t>();
  const auto* from_yes = static_cast<const uint8_t*>(yes.raw());
  const auto* from_no = static_cast<const uint8_t*>(no.raw());
  auto* to = static_cast<uint8_t*>(out.raw());
  const RowPlan plan = PlanRows(out.shape(), {&condition.shape(), &yes.shape(), &no.shape()});
  ForEachRow(plan, [&](const RowStep& row) {
    if (width == 4) return WhereWords(row, choose, from_yes, from_no, to);
    for (int64_t i = 0; i < row.length; ++i) {
      const bool first = choose[row.input[0] + i * row.step[0]] != 0;
      const uint8_t* from = first ? from_yes + (row.input[1] + i * row.step[1]) * width
                                  : from_no + (row.input[2] + i * row.step[2]) * width;
      std::memcpy(to + (row.output + i) * width, from, static_cast<size_t>(width));
    }
  });
  context.outputs[0] = std::move(out);
}

constexpr OpDef ArithmeticRow(const char* name, QuantRule quant) {
  return {name, "", 7, 2, 2, 1, InferArithmetic, EvaluateArithmetic, quant, FusionRule::kBroadcast};
}

constexpr OpDef ComparisonRow(const char* name, int since_version) {
  return {name,
          "",
          since_version,
          2,
          2,
          1,
          InferComparison,
          EvaluateComparison,
          QuantRule::kFloat,
          FusionRule::kBroadcast};
}

constexpr OpDef LogicRow(const char* name) {
  return {
      name, "", 7, 2, 2, 1, InferLogic, EvaluateLogic, QuantRule::kFloat, FusionRule::kBroadcast};
}

constexpr OpDef kOps[] = {
    ArithmeticRow("Add", QuantRule::kAdd),
    ArithmeticRow("Sub", QuantRule::kAdd),
    ArithmeticRow("Mul", QuantRule::kMul),
    ArithmeticRow("Div", QuantRule::kFloat),
    {"Pow", "", 7, 2, 2, 1, InferPow, EvaluatePow, QuantRule::kFloat, FusionRule::kBroadcast},
    {"Mod", "", 10, 2, 2, 1, InferMod, EvaluateArithmetic, QuantRule::kFloat,
     FusionRule::kBroadcast},
    {"Min", "", 6, 1, kVariadic, 1, InferArithmetic, EvaluateArithmetic, QuantRule::kFloat,
     FusionRule::kBroadcast},
    {"Max", "", 6, 1, kVariadic, 1, InferArithmetic, EvaluateArithmetic, QuantRule::kFloat,
     FusionRule::kBroadcast},
    {"Sum", "", 6, 1, kVariadic, 1, InferFloatSum, EvaluateFloatSum, QuantRule::kFloat,
     FusionRule::kBroadcast},
    {"Mean", "", 6, 1, kVariadic, 1, InferFloatSum, EvaluateFloatSum, QuantRule::kFloat,
     FusionRule::kBroadcast},
    {"PRelu", "", 7, 2, 2, 1, InferPRelu, EvaluatePRelu, QuantRule::kFloat, FusionRule::kBroadcast},
    ComparisonRow("Equal", 7),
    ComparisonRow("Greater", 7),
    ComparisonRow("GreaterOrEqual", 12),
    ComparisonRow("Less", 7),
    ComparisonRow("LessOrEqual", 12),
    LogicRow("And"),
    LogicRow("Or"),
    LogicRow("Xor"),
    {"Where", "", 9, 3, 3, 1, InferWhere, EvaluateWhere, QuantRule::kFloat, FusionRule::kBroadcast},
};

}  // namespace

std::span<const OpDef> BinaryOps() { return kOps; }

}  // namespace requant
