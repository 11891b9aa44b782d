// Decoders of one layer in the forms that exporters give them.
#pragma once

#include <string>
#include <vector>

#include "api/requant.h"
#include "base/str_cat.h"

namespace requant {

/// A decoder of one layer, which computes y from x and its past.
struct Form {
  const char* name;
  std::string text;
  std::vector<RememberedPair> pairs;
  bool in_place;
};

inline const std::vector<RememberedPair> kKeysAndValues = {{"pk", "nk", 2}, {"pv", "nv", -1}};

inline std::string Decoder(const std::string& opset, const std::string& body) {
  return StrCat("graph \"\" ", opset, R"(
input %x: float32[B, N, 8]
input %pk: float32[B, 2, P, 4]
input %pv: float32[B, 2, P, 4]
const %wq: float32[8, 8] = {1, 0, 2, 0, -1, 0, 0.5, 0, 0, 1, 0, 1, 0, 1, 0, 1, 1, 1, 0, 0, 2, 0, 0, 1, 0, 0, 1, 1, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 1, 0, 0, 0, 1, 0, 1, 0, 1, 2, 0, 0, 0, 0, 1, 0, 0, 0, 1, 1, 0, 0, 0, 0, 1}
const %wk: float32[8, 8] = {0, 1, 0, 0.5, 0, 0, 1, 0, 1, 0, 0, 0, 1, 0, 0, -1, 0, 0, 1, 0, 0, 1, 0, 0, 1, 1, 0, 0, 0, 0, 2, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0, -1, 0, 0, 0, 1, 0, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, 0, 1, 0, 0, 1}
const %four: int64[4] = {0, 0, 2, 4}
const %back: int64[3] = {0, 0, 8}
%q = MatMul(%x, %wq)
%k = MatMul(%x, %wk)
%v = Mul(%q, %k)
)",
                body, "output %y\noutput %nk\noutput %nv\n");
}

inline std::string Heads(const std::string& name) {
  return StrCat("%", name, "r = Reshape(%", name, ", %four)\n%", name, "h = Transpose(%", name,
                "r) {perm = [0, 2, 1, 3]}\n");
}

/// Softmax(q k^T) v written out.
inline std::string Plain(const std::string& keys, const std::string& values) {
  return StrCat("%t = Transpose(%", keys,
                ") {perm = [0, 1, 3, 2]}\n%s = MatMul(%qh, %t)\n%p = Softmax(%s) {axis = -1}\n%m = "
                "MatMul(%p, %",
                values, ")\n%mt = Transpose(%m) {perm = [0, 2, 1, 3]}\n%y = Reshape(%mt, %back)\n");
}

inline const std::string kJoined = Heads("q") + Heads("k") + Heads("v") +
                                   "%nk = Concat(%pk, %kh) {axis = 2}\n"
                                   "%nv = Concat(%pv, %vh) {axis = -2}\n";

/// Four heads of q for two of the keys, which are repeated, by head as rotary embedding leaves
/// them.
inline const std::string kRepeated = kJoined + R"(const %one: int64[1] = {1}
const %two: int64[1] = {2}
const %five: int64[1] = {4}
const %zero: int64[1] = {0}
const %wide: int64[3] = {0, 0, 16}
%ks = Shape(%nk)
%front = Slice(%ks, %zero, %two)
%batch = Slice(%ks, %zero, %one)
%rest = Slice(%ks, %two, %five)
%copies = Concat(%front, %two, %rest) {axis = 0}
%heads = Concat(%batch, %five, %rest) {axis = 0}
%ku = Unsqueeze(%nk, %two)
%ke = Expand(%ku, %copies)
%kk = Reshape(%ke, %heads)
%vu = Unsqueeze(%nv, %two)
%ve = Expand(%vu, %copies)
%vv = Reshape(%ve, %heads)
%qn = Neg(%qh)
%q4 = Concat(%qh, %qn) {axis = 1}
%t = Transpose(%kk) {perm = [0, 1, 3, 2]}
%s = MatMul(%q4, %t)
%p = Softmax(%s) {axis = -1}
%m = MatMul(%p, %vv)
%mt = Transpose(%m) {perm = [0, 2, 1, 3]}
%y = Reshape(%mt, %wide)
)";

inline std::vector<Form> Forms() {
  std::vector<Form> forms;
  forms.push_back(
      {"written out", Decoder("opset 17", kJoined + Plain("nk", "nv")), kKeysAndValues, true});
  forms.push_back({"written out, opset 23", Decoder("opset 23", kJoined + Plain("nk", "nv")),
                   kKeysAndValues, true});
  forms.push_back({"repeated keys", Decoder("opset 17", kRepeated), kKeysAndValues, true});
  forms.push_back(
      {"repeated keys, opset 23", Decoder("opset 23", kRepeated), kKeysAndValues, true});
  // Nothing fuses the products behind a Relu, which gets a dense copy.
  forms.push_back({"with readers of a copy",
                   Decoder("opset 17", kJoined + "%rk = Relu(%nk)\n" + Plain("rk", "nv")),
                   kKeysAndValues, true});
  forms.push_back({"Attention with a past",
                   Decoder("opset 23",
                           "%y, %nk, %nv = Attention(%q, %k, %v, _, %pk, %pv) {q_num_heads = 2, "
                           "kv_num_heads = 2, is_causal = 1}\n"),
                   kKeysAndValues, true});
  forms.push_back({"Attention of joined keys",
                   Decoder("opset 23", kJoined + "%m = Attention(%qh, %nk, %nv)\n%mt = "
                                                 "Transpose(%m) {perm = [0, 2, 1, 3]}\n%y = "
                                                 "Reshape(%mt, %back)\n"),
                   kKeysAndValues, true});
  forms.push_back(
      {"MultiHeadAttention",
       Decoder("opset 17, com.microsoft 1",
               "%y, %nk, %nv = com.microsoft::MultiHeadAttention(%q, %k, %v, _, _, _, %pk, %pv) "
               "{num_heads = 2}\n"),
       kKeysAndValues, true});
  forms.push_back({"GroupQueryAttention",
                   Decoder("opset 17, com.microsoft 1", R"(const %zeros: int64[1] = {0}
const %one: int64[] = {1}
const %two: int64[] = {2}
%past_shape = Shape(%pk)
%past = Gather(%past_shape, %two)
%shape = Shape(%x)
%fresh = Gather(%shape, %one)
%batch = Gather(%shape, %zeros)
%long = Add(%past, %fresh)
%total = Cast(%long) {to = 6}
%less = Sub(%long, %one)
%last = Cast(%less) {to = 6}
%lasts = Expand(%last, %batch)
%y, %nk, %nv = com.microsoft::GroupQueryAttention(%q, %k, %v, %pk, %pv, %lasts, %total) {num_heads = 2, kv_num_heads = 2}
)"),
                   kKeysAndValues, true});
  forms.push_back({"new tokens in front",
                   Decoder("opset 17", Heads("q") + Heads("k") + Heads("v") +
                                           "%nk = Concat(%kh, %pk) {axis = 2}\n"
                                           "%nv = Concat(%vh, %pv) {axis = 2}\n" +
                                           Plain("nk", "nv")),
                   kKeysAndValues, false});
  forms.push_back({"a past that something else reads",
                   Decoder("opset 17", kJoined + Plain("nk", "nv") +
                                           "%zk = Relu(%pk)\n%zv = "
                                           "Relu(%pv)\noutput %zk\n"
                                           "output %zv\n"),
                   kKeysAndValues, false});
  return forms;
}

/// A merged decoder: the first run makes the keys, the others join theirs with the past.
inline const char* const kMerged = R"(graph "" opset 17
input %x: float32[B, N, 8]
input %pk: float32[B, 2, P, 4]
input %use_cache_branch: bool[1]
const %w: float32[8, 8] = {1, 0, 2, 0, -1, 0, 0.5, 0, 0, 1, 0, 1, 0, 1, 0, 1, 1, 1, 0, 0, 2, 0, 0, 1, 0, 0, 1, 1, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 1, 0, 0, 0, 1, 0, 1, 0, 1, 2, 0, 0, 0, 0, 1, 0, 0, 0, 1, 1, 0, 0, 0, 0, 1}
const %four: int64[4] = {0, 0, 2, 4}
const %back: int64[3] = {0, 0, 8}
%y, %nk = If(%use_cache_branch, %x, %w, %four, %pk, %back, %x, %w, %four, %pk, %back) {then_branch = { graph "" opset 17
capture %x: float32[B, N, 8]
capture %w: float32[8, 8]
capture %four: int64[4]
capture %pk: float32[B, 2, P, 4]
capture %back: int64[3]
%q = MatMul(%x, %w)
%r = Reshape(%q, %four)
%h = Transpose(%r) {perm = [0, 2, 1, 3]}
%nk = Concat(%pk, %h) {axis = 2}
%t = Transpose(%nk) {perm = [0, 1, 3, 2]}
%s = MatMul(%h, %t)
%p = Softmax(%s) {axis = -1}
%m = MatMul(%p, %nk)
%mt = Transpose(%m) {perm = [0, 2, 1, 3]}
%y = Reshape(%mt, %back)
output %y
output %nk
}, else_branch = { graph "" opset 17
capture %x: float32[B, N, 8]
capture %w: float32[8, 8]
capture %four: int64[4]
capture %pk: float32[B, 2, P, 4]
capture %back: int64[3]
%q = MatMul(%x, %w)
%r = Reshape(%q, %four)
%nk = Transpose(%r) {perm = [0, 2, 1, 3]}
%t = Transpose(%nk) {perm = [0, 1, 3, 2]}
%s = MatMul(%nk, %t)
%p = Softmax(%s) {axis = -1}
%m = MatMul(%p, %nk)
%mt = Transpose(%m) {perm = [0, 2, 1, 3]}
%y = Reshape(%mt, %back)
output %y
output %nk
}}
output %y
output %nk
)";

}  // namespace requant
