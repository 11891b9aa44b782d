// Broadcasting arithmetic, PRelu and Pow.
#include <cmath>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/str_cat.h"
#include "ops/elementwise/binary_classes.h"
#include "ops/elementwise/cast.h"
#include "ops/elementwise/float_loops.h"
#include "ops/elementwise/integer_loops.h"
#include "ops/infer_util.h"
#include "ops/table.h"

namespace requant {
namespace {

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

/// out = function(a, b), whose shape is that of both.
void Apply(const Classes<void>& function, const Tensor& a, const Tensor& b, Tensor& out) {
  if (kCombineIntegers.loaded() && kCombineIntegers(function.name, a, b, out)) return;
  VisitDType(a.dtype(), [&](auto tag) {
    using T = decltype(tag);
    Broadcast<T, T>(a, b, out, function.get<ComputeOf<T>>());
  });
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
    const Tensor& next = context.input(slot);
    const Shape shape = BroadcastShapes(result.shape(), next.shape());
    const bool last = slot + 1 == context.inputs.size();
    Tensor out = last ? context.Output(0, first.dtype(), shape) : Tensor(first.dtype(), shape);
    Apply(function, result, next, out);
    result = std::move(out);
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
  const Shape shape = BroadcastShapes(x.shape(), context.input(1).shape());
  if (shape != x.shape()) {
    Fail(ErrorCode::kShapeMismatch, StrCat("the slope ", ShapeToString(context.input(1).shape()),
                                           " cannot be broadcast to ", ShapeToString(x.shape())));
  }
  Tensor out = context.Output(0, x.dtype(), shape);
  Apply(ArithmeticOf(context.node), x, context.input(1), out);
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

constexpr OpDef ArithmeticRow(const char* name, QuantRule quant) {
  return {name, "", 7, 2, 2, 1, InferArithmetic, EvaluateArithmetic, quant, FusionRule::kBroadcast};
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
};

}  // namespace

std::span<const OpDef> ArithmeticOps() { return kOps; }

}  // namespace requant
