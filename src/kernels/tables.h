#pragma once
// The tables of all families (families.inc).
#include "kernels/conv/table.h"
#include "kernels/dwconv/table.h"
#include "kernels/elementwise/table.h"
#include "kernels/layer_norm/table.h"
#include "kernels/layout/table.h"
#include "kernels/lut/table.h"
#include "kernels/matmul_nbits/table.h"
#include "kernels/pool/table.h"
#include "kernels/quantize/table.h"
#include "kernels/reduce/table.h"
#include "kernels/resize/table.h"
#include "kernels/softmax/table.h"
