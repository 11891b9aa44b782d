#include <cstring>

#include "tflite/read.h"
#include "tflite/schema.h"

namespace requant {

bool IsTflite(std::span<const uint8_t> file) {
  return file.size() >= 8 && std::memcmp(file.data() + 4, tflite::kIdentifier, 4) == 0;
}

}  // namespace requant
