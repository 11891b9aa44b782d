#pragma once
#include <stdint.h>

/* Reads an 8-bit element as int8. Flip 0 keeps the bits of int8; flip 128 inverts the highest bit
   of uint8, which subtracts 128. */
static inline int32_t rq_byte(uint8_t bits, uint8_t flip) { return (int8_t)(bits ^ flip); }
