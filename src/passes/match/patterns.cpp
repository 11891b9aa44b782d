#include "passes/match/patterns.h"

#include <cmath>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "passes/match/clip.h"
#include "passes/rewrite.h"

namespace requant {
namespace {

constexpr int kMaxSteps = 200;  // bounds one search: expressions are small, graphs are not

bool IsNumber(char c) { return c == '-' || (c >= '0' && c <= '9'); }

/// Reads digits with a dot and a sign; the library's function is larger than all patterns together.
double NumberAt(const char* c) {
  const bool negative = *c == '-';
  double digits = 0;
  double unit = 1;
  bool fraction = false;
  for (c += negative ? 1 : 0; *c == '.' || IsNumber(*c); ++c) {
    if (*c == '.') {
      fraction = true;
      continue;
    }
    digits = digits * 10 + (*c - '0');
    if (fraction) unit *= 10;
  }
  return (negative ? -digits : digits) / unit;
}

bool IsNear(double value, double wanted) {
  return std::fabs(value - wanted) <= 1e-5 * std::fabs(wanted);
}

/// The name of an operator: up to the parenthesis.
std::string_view NameAt(const char* term) {
  const std::string_view text = term;
  return text.substr(0, text.find_first_of("(,)"));
}

/// The terms between the parentheses that follow the name.
std::vector<const char*> Arguments(const char* term) {
  std::vector<const char*> out;
  int depth = 0;
  for (const char* c = term; *c != 0; ++c) {
    if (*c == ')' && --depth == 0) break;
    if ((*c == '(' && depth++ == 0) || (*c == ',' && depth == 1)) out.push_back(c + 1);
  }
  return out;
}

/// "Op", or "@Op" of com.microsoft.
bool IsNamed(const Node& node, std::string_view name) {
  if (name == "@Silu") {
    return (node.Is(Op::kQuickGelu) && node.attributes.Float("alpha", 1.702F) == 1.0F) ||
           (node.Is(Op::kSwish) && node.attributes.Float("alpha", 1.0F) == 1.0F);
  }
  return name[0] == '@' ? node.Is(name.substr(1), kMicrosoftDomain) : node.Is(name);
}

struct Bindings {
  Value* x = nullptr;
  Value* g = nullptr;
  Value* b = nullptr;
  double e = 0;
};

class Matcher {
 public:
  explicit Matcher(const Graph& graph) : graph_(graph) {}

  Bindings bound;

  bool Match(Value* value, const char* term) {
    if (value == nullptr || ++steps_ > kMaxSteps) return false;
    if (*term == 'x') return Bind(bound.x, value);
    if (*term == 'g' || *term == 'b') {
      const bool fits = value->is_constant() && value->constant.rank() == 1 && IsFloat32(value);
      return fits && Bind(*term == 'g' ? bound.g : bound.b, value);
    }
    if (IsNumber(*term)) return ScalarOf(value) == NumberAt(term);
    if (value->producer == nullptr || value->producer->output() != value) return false;
    const Node& node = *value->producer;
    const std::vector<const char*> terms = Arguments(term);
    const std::string_view name = NameAt(term);
    if (name == "Mul" || name == "Add") {
      return MatchFlat({value}, name == "Mul" ? 1 : 0, terms, name == "Mul");
    }
    if (name == "Clip") {
      const std::optional<ClipRange> range = MatchClip(graph_, node);
      return range && range->low == NumberAt(terms[1]) && range->high == NumberAt(terms[2]) &&
             Match(range->x, terms[0]);
    }
    if (name == "Mean") return IsLastMean(node) && Match(node.input(0), terms[0]);
    if (!IsNamed(node, name) || node.inputs.size() != terms.size()) return false;
    if (name == "HardSigmoid" && !(IsNear(double{node.attributes.Float("alpha", 0.2F)}, 1.0 / 6) &&
                                   IsNear(double{node.attributes.Float("beta", 0.5F)}, 0.5))) {
      return false;
    }
    if (node.attributes.Has("approximate")) return false;
    for (size_t i = 0; i < terms.size(); ++i) {
      if (!Match(node.input(i), terms[i])) return false;
    }
    return true;
  }

 private:
  static bool Bind(Value*& place, Value* value) {
    if (place == nullptr) place = value;
    return place == value;
  }

  static bool IsLastMean(const Node& node) {
    const int64_t rank = RankOf(node.input(0));
    if (!node.Is(Op::kReduceMean) || rank < 1 || node.attributes.Int("keepdims", 1) == 0)
      return false;
    std::vector<int64_t> axes = node.attributes.Ints("axes");
    if (node.constant(1)) axes = node.constant(1)->ToInts();
    return axes.size() == 1 && (axes[0] == -1 || axes[0] == rank - 1);
  }

  using Leaves = std::vector<Value*>;

  /// Replaces `leaf` by the operands of the operator that computes it; its number multiplies or
  /// adds to `scalar`.
  static bool Open(const Value* leaf, bool product, Leaves& leaves, double& scalar) {
    if (leaf->producer == nullptr) return false;
    const Node& node = *leaf->producer;
    Value* a = node.input(0);
    Value* b = node.input(1);
    if (a == nullptr || b == nullptr) return false;
    const std::optional<double> right = ScalarOperand(b, a);
    if (right && (node.Is(Op::kDiv) || node.Is(Op::kSub)) && product == node.Is(Op::kDiv)) {
      scalar = product ? scalar / *right : scalar - *right;
      leaves.push_back(a);
      return true;
    }
    if (product && right && node.Is(Op::kPow) && (*right == 2 || *right == 3)) {
      leaves.insert(leaves.end(), static_cast<size_t>(*right), a);
      return true;
    }
    if (!node.Is(product ? "Mul" : "Add")) return false;
    for (const auto& [operand, other] : {std::pair{a, b}, std::pair{b, a}}) {
      const std::optional<double> number = ScalarOperand(operand, other);
      if (number) {
        scalar = product ? scalar * *number : scalar + *number;
      } else {
        leaves.push_back(operand);
      }
    }
    return true;
  }

  bool MatchFlat(const Leaves& leaves, double scalar, const std::vector<const char*>& terms,
                 bool product) {
    std::vector<const char*> wanted;
    double number = product ? 1 : 0;
    bool any_number = false;
    for (const char* term : terms) {
      if (*term == 'e') {
        any_number = true;
      } else if (IsNumber(*term)) {
        number = NumberAt(term);
      } else {
        wanted.push_back(term);
      }
    }
    if (leaves.size() > wanted.size() || ++steps_ > kMaxSteps) return false;
    if (leaves.size() == wanted.size() && (any_number ? scalar > 0 : IsNear(scalar, number))) {
      Leaves rest = leaves;
      if (Assign(rest, wanted, 0)) {
        if (any_number) bound.e = scalar;
        return true;
      }
    }
    for (size_t i = 0; i < leaves.size(); ++i) {
      Leaves opened = leaves;
      opened.erase(opened.begin() + static_cast<ptrdiff_t>(i));
      double with = scalar;
      if (Open(leaves[i], product, opened, with) && MatchFlat(opened, with, terms, product)) {
        return true;
      }
    }
    return false;
  }

  /// Whether some order of the leaves from `first` on matches the terms.
  bool Assign(Leaves& leaves, const std::vector<const char*>& terms, size_t first) {
    if (first == terms.size()) return true;
    for (size_t i = first; i < leaves.size(); ++i) {
      const Bindings saved = bound;
      std::swap(leaves[first], leaves[i]);
      // MatchFlat opens a leaf that is a whole product itself.
      if (Match(leaves[first], terms[first]) && Assign(leaves, terms, first + 1)) return true;
      std::swap(leaves[first], leaves[i]);
      bound = saved;
    }
    return false;
  }

  const Graph& graph_;
  int steps_ = 0;
};

class Builder {
 public:
  Builder(Graph& graph, Node* root, const Bindings& bound)
      : graph_(graph), root_(root), bound_(bound) {}

  /// Turns the root into what the term says, after the values named in front (q=Mul(x,x);...).
  void Root(const char* term) {
    for (; term[1] == '='; term = std::strchr(term, ';') + 1) {
      Value* value = Make(term + 2);
      made_.emplace_back(std::string(1, *term), value);
    }
    const std::vector<Value*> inputs = Inputs(term);
    TruncateInputs(graph_, root_, 0);
    for (size_t i = 0; i < inputs.size(); ++i) graph_.SetInput(root_, i, inputs[i]);
    std::string domain = root_->domain;
    std::string name = Name(term, domain, root_->attributes);
    root_->Retype(std::move(name), std::move(domain));
  }

 private:
  std::vector<Value*> Inputs(const char* term) {
    std::vector<Value*> out;
    for (const char* argument : Arguments(term)) out.push_back(Make(argument));
    return out;
  }

  Value* Make(const char* term) {
    if (*term == 'x') return bound_.x;
    if (*term == 'g') return bound_.g;
    if (*term == 'b') return bound_.b;
    // Equal text makes the same value.
    std::string text(NameAt(term));
    if ((*term >= 'A' && *term <= 'Z') || *term == '@') {
      int depth = 0;
      size_t length = 0;
      do {
        depth += term[length] == '(' ? 1 : term[length] == ')' ? -1 : 0;
        ++length;
      } while (depth > 0 || term[length - 1] != ')');
      text.assign(term, length);
    }
    for (const auto& [name, value] : made_) {
      if (name == text) return value;
    }
    Value* made = nullptr;
    if (IsNumber(*term)) {
      made = graph_.AddConstant(root_->name + "_number",
                                Tensor::Scalar(static_cast<float>(NumberAt(term))));
    } else {
      std::string domain;
      AttributeMap attributes;
      const std::string name = Name(term, domain, attributes);
      made = graph_.AddOp(name, domain, Inputs(term), root_->name + "_" + name, bound_.x->type,
                          std::move(attributes));
    }
    made_.emplace_back(std::move(text), made);
    return made;
  }

  std::string Name(const char* term, std::string& domain, AttributeMap& attributes) const {
    std::string name(NameAt(term));
    domain = "";
    attributes = {};
    if (name[0] == '@') {
      name.erase(0, 1);
      domain = kMicrosoftDomain;
      graph_.opsets.try_emplace(domain, 1);
    }
    if (name.back() == '~') {
      name.pop_back();
      attributes.Set("approximate", std::string("tanh"));
    }
    if (name == "Silu") {
      name = "QuickGelu";
      attributes.Set("alpha", 1.0F);
    } else if (name == "HardSigmoid") {
      attributes.Set("alpha", 1.0F / 6);
      attributes.Set("beta", 0.5F);
    } else if (name.ends_with("Normalization")) {
      attributes.Set("epsilon", static_cast<float>(bound_.e));
    }
    return name;
  }

  Graph& graph_;
  Node* root_;
  const Bindings& bound_;
  std::vector<std::pair<std::string, Value*>> made_;
};

/// Whether the rule can start at an operator of that name; rejects most nodes quickly.
bool MayStart(const PatternRule& rule, const Node& node) {
  if (rule.before[0] != '@' && rule.before[0] != node.op_type[0] &&
      !(rule.before[0] == 'M' && node.op_type[0] == 'D')) {
    return false;
  }
  const std::string_view name = NameAt(rule.before);
  return IsNamed(node, name) || (name == "Mul" && node.Is(Op::kDiv));
}

}  // namespace

bool ApplyPatterns(Graph& graph, Node* node, std::span<const PatternRule> rules) {
  if (node->outputs.size() != 1 || !IsFloat32(node->output())) return false;
  for (const PatternRule& rule : rules) {
    if (graph.opset() < rule.opset || !MayStart(rule, *node)) continue;
    Matcher matcher(graph);
    if (!matcher.Match(node->output(), rule.before)) continue;
    const Bindings& bound = matcher.bound;
    if (!IsFloat32(bound.x) || bound.x->is_constant()) continue;
    // Constants along the last axis must be as long as it is.
    const auto spans = [&](const Value* constant) {
      return constant == nullptr || (RankOf(bound.x) > 0 && bound.x->type.shape->back() ==
                                                                Dim(constant->constant.count()));
    };
    if (!spans(bound.g) || !spans(bound.b)) continue;
    if (rule.unless && Matcher(graph).Match(bound.x, rule.unless)) continue;
    Builder(graph, node, bound).Root(rule.after);
    return true;
  }
  return false;
}

bool RewriteByPatterns(Graph& graph, std::span<const PatternRule> rules) {
  return RewriteNodes(graph,
                      [rules](Graph& g, Node* node) { return ApplyPatterns(g, node, rules); });
}

}  // namespace requant
