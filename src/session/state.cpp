#include "session/state.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <utility>

#include "base/checked_math.h"
#include "base/error.h"
#include "base/str_cat.h"
#include "kernels/token_codes/table.h"
#include "tensor/text.h"
#include "tensor/token_rows.h"

namespace requant {
namespace {

Shape WithTokens(const Tensor& tensor, int axis, int64_t tokens) {
  Shape shape = tensor.shape();
  shape[static_cast<size_t>(axis)] = tokens;
  return shape;
}

/// Copies the first tokens of every row.
void CopyTokens(const Tensor& from, Tensor& to, int axis, int64_t tokens) {
  const TokenRows rows = RowsAlong(from.dtype(), from.shape(), axis);
  const size_t in = rows.tokens * rows.bytes;
  const size_t out = static_cast<size_t>(to.dim(axis)) * rows.bytes;
  const size_t bytes = static_cast<size_t>(tokens) * rows.bytes;
  if (bytes == 0) return;
  const auto* source = static_cast<const uint8_t*>(from.raw());
  auto* target = static_cast<uint8_t*>(to.raw());
  for (size_t row = 0; row < rows.rows; ++row) {
    std::memcpy(target + row * out, source + row * in, bytes);
  }
}

const Value& InputOf(const Graph& graph, const std::string& name) {
  const Value* input = graph.FindValue(name);
  if (input == nullptr || !graph.IsInput(input) || input->is_constant()) {
    Fail(ErrorCode::kInvalidArgument, StrCat("the model has no input '", name, "'"),
         {.value = name, .hint = "see inputNames"});
  }
  return *input;
}

/// The axis of the tokens of an input, given or found.
int TokenAxis(const Value& input, int given) {
  if (!input.type.shape || DTypeBits(input.type.dtype) < 8 || IsText(input.type.dtype)) {
    Fail(ErrorCode::kUnsupported,
         StrCat("input '", input.name, "' of type ", TypeToString(input.type),
                " cannot be remembered"),
         {.value = input.name});
  }
  const SymbolicShape& shape = *input.type.shape;
  const int rank = static_cast<int>(shape.size());
  if (given >= 0 && given < rank) return given;
  std::vector<int> open;
  for (int i = 1; i < rank; ++i) {
    if (!shape[static_cast<size_t>(i)].known()) open.push_back(i);
  }
  if (given < 0 && open.empty()) {
    Fail(ErrorCode::kUnsupported,
         StrCat("input '", input.name, "' of type ", TypeToString(input.type), " cannot grow"),
         {.value = input.name, .hint = "export the model with an open number of past tokens"});
  }
  if (given >= rank || open.size() != 1) {
    Fail(ErrorCode::kInvalidArgument,
         given >= rank ? StrCat("input '", input.name, "' has no axis ", given)
                       : StrCat("input '", input.name, "' of type ", TypeToString(input.type),
                                " has ", open.size(), " open axes behind the first"),
         {.value = input.name, .hint = "name the axis of the tokens"});
  }
  return open[0];
}

}  // namespace

int64_t SessionState::Kept::room() const { return memory.empty() ? 0 : memory.dim(axis); }

Tensor SessionState::Kept::Dense() const {
  Tensor dense(memory.dtype(), WithTokens(memory, axis, tokens));
  CopyTokens(memory, dense, axis, tokens);
  return dense;
}

void SessionState::Kept::Recode(bool to_codes) {
  if (coded == to_codes) return;
  if (to_codes) width = memory.shape().back();
  const size_t floats = CheckedMul(static_cast<size_t>(width), sizeof(float));
  const size_t codes = TokenCodesBytes(static_cast<size_t>(width));
  const int64_t last = memory.shape().back();
  Shape shape = memory.shape();
  shape.back() = to_codes ? static_cast<int64_t>(codes) : width;
  Tensor other(to_codes ? DType::kUint8 : DType::kFloat32, std::move(shape));
  const TokenCodesParams call{std::as_const(memory).raw(),
                              other.raw(),
                              last == 0 ? 0 : static_cast<size_t>(memory.count() / last),
                              static_cast<size_t>(width),
                              to_codes ? floats : codes,
                              to_codes ? codes : floats};
  TokenCodesRow(to_codes ? TokenCodesOp::kEncode : TokenCodesOp::kDecode)(&call);
  memory = std::move(other);
  coded = to_codes;
}

SessionState::SessionState(Session& session, std::vector<RememberedPair> pairs, int64_t room)
    : pairs_(std::move(pairs)), first_room_(room) {
  const Graph& graph = session.graph();
  std::vector<StatePair> names;
  std::set<std::string> seen;
  for (RememberedPair& pair : pairs_) {
    const Value& input = InputOf(graph, pair.past);
    const auto& outputs = graph.outputs();
    const auto output = std::find_if(outputs.begin(), outputs.end(), [&](const Value* value) {
      return value->name == pair.present;
    });
    if (output == outputs.end()) {
      Fail(ErrorCode::kInvalidArgument, StrCat("the model has no output '", pair.present, "'"),
           {.value = pair.present, .hint = "see outputNames"});
    }
    if (!seen.insert(pair.past).second || !seen.insert("> " + pair.present).second) {
      Fail(
          ErrorCode::kInvalidArgument,
          StrCat("'", pair.past, "' and '", pair.present, "' are not the only pair of these names"),
          {.value = pair.past});
    }
    pair.axis = TokenAxis(input, pair.axis);
    Kept& kept = kept_.emplace_back();
    kept.axis = pair.axis;
    kept.output = static_cast<size_t>(output - outputs.begin());
    if (!pair.once) names.push_back({pair.past, pair.present, pair.coded});
  }
  session_ = session.WithState(std::move(names));
}

Tensor SessionState::EmptyPast(const Value& input, int axis, const TensorMap& feeds) const {
  Shape shape;
  for (const Dim& dim : *input.type.shape) {
    const bool tokens = static_cast<int>(shape.size()) == axis;
    shape.push_back(tokens ? 0 : dim.known() ? dim.value : 1);
    if (tokens || dim.known() || dim.symbol.empty()) continue;
    // A feed of this run may say how large the batch is.
    for (const Value* other : session_->graph().inputs()) {
      const auto feed = feeds.find(other->name);
      if (feed == feeds.end() || !other->type.shape) continue;
      const SymbolicShape& dims = *other->type.shape;
      for (size_t i = 0; i < dims.size() && i < feed->second.shape().size(); ++i) {
        if (dims[i] == dim) shape.back() = feed->second.shape()[i];
      }
    }
  }
  return {input.type.dtype, std::move(shape)};
}

void SessionState::Reserve(Kept& kept, int64_t room) {
  if (kept.room() == room) return;
  Tensor larger(kept.memory.dtype(), WithTokens(kept.memory, kept.axis, room));
  CopyTokens(kept.memory, larger, kept.axis, kept.tokens);
  kept.memory = std::move(larger);
}

std::vector<Tensor> SessionState::Run(const TensorMap& feeds) {
  const Graph& graph = session_->graph();
  TensorMap all = feeds;
  const auto feed = [&](size_t i) {
    Kept& kept = kept_[i];
    // Plans read growing values by their room, and as codes, others have none to spare.
    Shape shape = WithTokens(kept.memory, kept.axis, kept.tokens);
    if (kept.coded) shape.back() = kept.width;
    all[pairs_[i].past] = Tensor::Unowned(kept.coded ? DType::kFloat32 : kept.memory.dtype(),
                                          std::move(shape), kept.memory.raw());
  };
  for (size_t i = 0; i < pairs_.size(); ++i) {
    if (feeds.contains(pairs_[i].past)) {
      Fail(ErrorCode::kInvalidArgument,
           StrCat("input '", pairs_[i].past, "' is remembered and cannot be fed"),
           {.value = pairs_[i].past, .hint = "leave it out"});
    }
    Kept& kept = kept_[i];
    if (kept.memory.empty()) {
      kept.memory = EmptyPast(InputOf(graph, pairs_[i].past), kept.axis, feeds);
    }
    feed(i);
  }
  session_->PrepareFor(all);
  // For each output, how many tokens it will have if it stays in place, or -1.
  std::vector<int64_t> grown(graph.outputs().size(), -1);
  std::vector<bool> codes(grown.size());
  if (const Plan* plan = session_->plan()) {
    for (const GrowingOutput& one : plan->growing) {
      const auto output = static_cast<size_t>(one.output);
      const Slot& slot = plan->slots[static_cast<size_t>(plan->outputs[output])];
      grown[output] = slot.shape[static_cast<size_t>(one.axis)];
      codes[output] = one.coded;
    }
  }
  std::map<std::string, int64_t> room;
  std::vector<uint8_t> unwanted(grown.size());
  for (size_t i = 0; i < pairs_.size(); ++i) {
    Kept& kept = kept_[i];
    const int64_t tokens = grown[kept.output];
    kept.in_place = tokens >= 0;
    kept.Recode(codes[kept.output]);
    if (kept.in_place) {
      if (tokens > kept.room()) {
        Reserve(kept, std::max({tokens, CheckedMul64(kept.room(), 2), first_room_}));
      }
      room[pairs_[i].past] = kept.room();
    } else {
      Reserve(kept, kept.tokens);
      unwanted[kept.output] = pairs_[i].once && begun_;
    }
    feed(i);
  }
  std::vector<Tensor> results = session_->Run(all, room, unwanted);
  for (Kept& kept : kept_) {
    if (kept.in_place) {
      kept.tokens = grown[kept.output];
    } else if (!unwanted[kept.output]) {
      kept.memory = std::move(results[kept.output]);
      kept.tokens = kept.memory.dim(kept.axis);
    }
    results[kept.output] = Tensor();
  }
  begun_ = true;
  return results;
}

size_t SessionState::bytes() const {
  size_t sum = 0;
  for (const Kept& kept : kept_)
    sum = CheckedAdd(sum, kept.memory.empty() ? 0 : kept.memory.bytes());
  return sum;
}

void SessionState::Truncate(size_t pair, int64_t tokens) {
  Kept& kept = kept_.at(pair);
  if (tokens < 0 || tokens > kept.tokens) {
    Fail(
        ErrorCode::kInvalidArgument,
        StrCat("cannot keep ", tokens, " of ", kept.tokens, " tokens of '", pairs_[pair].past, "'"),
        {.value = pairs_[pair].past});
  }
  kept.tokens = tokens;
}

void SessionState::Select(std::span<const int64_t> images) {
  if (images.empty()) Fail(ErrorCode::kInvalidArgument, "no sequence is selected");
  for (size_t i = 0; i < kept_.size(); ++i) {
    const Tensor& memory = kept_[i].memory;
    // Images of the batch are the first axis, in front of the tokens.
    const int64_t batch = memory.empty() ? 0 : memory.dim(0);
    for (const int64_t image : images) {
      if (image >= 0 && image < batch && kept_[i].axis > 0) continue;
      Fail(ErrorCode::kInvalidArgument,
           StrCat("there is no sequence ", image, " among ", batch, " of '", pairs_[i].past, "'"),
           {.value = pairs_[i].past});
    }
  }
  for (Kept& kept : kept_) {
    Shape shape = kept.memory.shape();
    const size_t each = kept.memory.bytes() / static_cast<size_t>(std::max<int64_t>(1, shape[0]));
    shape[0] = static_cast<int64_t>(images.size());
    Tensor made(kept.memory.dtype(), std::move(shape));
    for (size_t i = 0; each > 0 && i < images.size(); ++i) {
      std::memcpy(static_cast<uint8_t*>(made.raw()) + i * each,
                  static_cast<const uint8_t*>(std::as_const(kept.memory).raw()) +
                      static_cast<size_t>(images[i]) * each,
                  each);
    }
    kept.memory = std::move(made);
  }
}

SessionState SessionState::Clone() const {
  SessionState twin;
  twin.session_ = session_;
  twin.pairs_ = pairs_;
  twin.first_room_ = first_room_;
  twin.begun_ = begun_;
  twin.kept_ = kept_;
  for (Kept& kept : twin.kept_) {
    if (!kept.memory.empty()) kept.memory = kept.Dense();
  }
  return twin;
}

Tensor SessionState::Get(size_t pair) const {
  const Kept& kept = kept_.at(pair);
  if (kept.memory.empty()) return {};
  Kept dense = kept;
  dense.memory = kept.Dense();
  dense.Recode(false);
  return std::move(dense.memory);
}

void SessionState::Set(size_t pair, const Tensor& tensor) {
  Kept& kept = kept_.at(pair);
  std::map<std::string, int64_t> symbols;
  CheckFeed(InputOf(session_->graph(), pairs_[pair].past), tensor, symbols);
  Tensor own(tensor.dtype(), tensor.shape());
  if (own.bytes() > 0) std::memcpy(own.raw(), tensor.raw(), own.bytes());
  kept.memory = std::move(own);
  kept.coded = false;
  kept.tokens = kept.memory.dim(kept.axis);
  begun_ = true;
}

}  // namespace requant
