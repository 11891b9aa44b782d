#include "plan/archive.h"

#include <algorithm>

#include "base/str_cat.h"

namespace requant {
namespace {

constexpr const char* kRemedy = "create the session from the model again";

}  // namespace

void DamagedPlan(const char* what) {
  Fail(ErrorCode::kInvalidModel, StrCat("the saved plan is damaged: ", what), {.hint = kRemedy});
}

void ForeignPlan(const std::string& why) {
  Fail(ErrorCode::kUnsupported, StrCat("the saved plan is not for this engine: ", why),
       {.hint = kRemedy});
}

void PlanArchive::NoKernel(const std::string& name) {
  ForeignPlan(StrCat("it uses kernel '", name, "', which cannot run here"));
}

void PlanArchive::Bytes(void* data, size_t size) {
  if (!reading()) {
    const auto* bytes = static_cast<const uint8_t*>(data);
    out_->insert(out_->end(), bytes, bytes + size);
    return;
  }
  if (size > in_.size()) DamagedPlan("it ends too early");
  std::memcpy(data, in_.data(), size);
  in_ = in_.subspan(size);
}

uint32_t PlanArchive::Count(size_t count, size_t bytes) {
  auto number = static_cast<uint32_t>(count);
  One(number);
  if (reading() && number > in_.size() / bytes) DamagedPlan("a list is longer than the file");
  return number;
}

void PlanArchive::One(std::string& text) {
  const size_t count = Count(text.size(), 1);
  if (reading()) text.resize(count);
  if (count > 0) Bytes(text.data(), count);
}

void PlanArchive::Blob(const void*& pointer) {
  constexpr uint32_t kNull = 0xffffffff;
  const auto found = std::find(blobs.rbegin(), blobs.rend(), pointer);
  if (!reading() && pointer != nullptr && found == blobs.rend()) {
    Fail(ErrorCode::kInternal, "a step points to what is not the plan's");
  }
  // kNull when the pointer is in no blob
  auto index = static_cast<uint32_t>(blobs.rend() - found) - 1;
  One(index);
  if (!reading()) return;
  if (index != kNull && index >= blobs.size()) DamagedPlan("it has not that many weights");
  pointer = index == kNull ? nullptr : blobs[index];
}

}  // namespace requant
