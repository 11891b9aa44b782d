#include "base/str_cat.h"

#include "base/number_text.h"

namespace requant {

void StrPiece::AppendTo(std::string& out) const {
  switch (kind_) {
    case Kind::kText:
      out += text_;
      break;
    case Kind::kChar:
      out += static_cast<char>(integer_);
      break;
    case Kind::kSigned:
      out += std::to_string(integer_);
      break;
    case Kind::kUnsigned:
      out += std::to_string(static_cast<uint64_t>(integer_));
      break;
    case Kind::kReal:
      out += NumberText(real_);
      break;
  }
}

std::string JoinPieces(std::initializer_list<StrPiece> pieces) {
  std::string out;
  for (const StrPiece& piece : pieces) piece.AppendTo(out);
  return out;
}

}  // namespace requant
