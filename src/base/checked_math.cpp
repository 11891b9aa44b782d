#include "base/checked_math.h"

namespace requant {

void FailSize() {
  Fail(ErrorCode::kOutOfMemory, "a size is larger than what this machine can address",
       {.hint = "use smaller tensors, or a smaller batch"});
}

}  // namespace requant
