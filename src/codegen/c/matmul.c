#pragma once
#include <stddef.h>

#include "base.c"
#include "output.c"

/* [rows][inner] by [inner][columns], `batches` of them. Strides count elements. */
typedef struct {
  int32_t batches, rows, columns, inner;
  int32_t a_batch, a_row, a_step;
  int32_t a_zero, b_zero; /* less 128 where they are flipped; b_zero of a computed operand */
  uint8_t a_flip, b_flip;
  const int32_t* bias; /* or NULL */
  int32_t bias_row, bias_column;
  rq_output output;
} rq_matmul;
