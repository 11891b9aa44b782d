#include "plan/saved/build_id.h"

namespace requant {

const char kBuildId[33] = "requant-build-id-not-stamped-yet";

}  // namespace requant
