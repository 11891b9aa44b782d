#pragma once
#include <stddef.h>

#include "requantize/base.c"
#include "requantize/output.c"

/* `batches` products of [rows][inner] and [inner][columns]. Strides count elements. */
typedef struct {
  int32_t batches, rows, columns, inner;
  int32_t a_batch, a_row, a_step;
  int32_t a_zero, b_zero; /* 128 less if flipped; b_zero is for a dynamic operand */
  uint8_t a_flip, b_flip;
  const int32_t* bias; /* or NULL */
  int32_t bias_row, bias_column;
  rq_output output;
} rq_matmul;
