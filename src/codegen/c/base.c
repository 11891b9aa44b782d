#pragma once
#include <stdint.h>

/* An 8-bit element as a number. Bits of int8 are taken as they are (flip 0); those of uint8 have
   their highest bit turned (flip 128), which makes them int8 that are 128 less. */
static inline int32_t rq_byte(uint8_t bits, uint8_t flip) { return (int8_t)(bits ^ flip); }
