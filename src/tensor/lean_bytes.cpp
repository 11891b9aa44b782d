#include "tensor/lean_bytes.h"

#include <utility>

#include "base/error.h"

namespace requant {

Tensor LeanBytes::Borrow() const {
  if (!dropped_) return held_;
  if (!source_) Fail(ErrorCode::kInternal, "the bytes of a constant are gone");
  Tensor made(held_.dtype(), held_.shape());
  source_->Restore(part_, made.raw());
  return made;
}

Tensor LeanBytes::Keep() {
  held_ = Borrow();
  source_.reset();
  dropped_ = false;
  kept_ = true;
  return held_;
}

void LeanBytes::Drop(std::shared_ptr<const Source> source, size_t part) {
  if (kept_ || dropped_) return;
  source_ = std::move(source);
  part_ = part;
  dropped_ = true;
  held_ = Tensor::Unowned(held_.dtype(), held_.shape(), nullptr);
}

}  // namespace requant
