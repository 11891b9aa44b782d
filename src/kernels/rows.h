#pragma once
// The lists of kernels: a family's rows are written once, in its `.inc`, from which its kernel.h
// declares the kernels, its table.cpp makes the table, and entry.cpp the entries of threads.
//
//   ROW(linkage, run, name, isa, ...)
//
// `run` is the kernel, `...` is what the row of the table has between `isa` and `run`. Linkages:
//
//   SCALAR      a function of the core (reference.cpp)
//   VECTOR      a kernel of the kernel module that threads may share
//   LATE        a kernel of the core, among the extended operators (late_vector.cpp), that threads
//               have with the other kernels
//   LOW_BITS    a kernel of the module for few bits that threads may share (kernels/import.h)
//   ONE_THREAD  a kernel of the kernel module that stays on one thread
//   AGAIN       the kernel of another row, with other packing
#include "kernels/import.h"

#define RQ_DECLARE_SCALAR(run, Params) \
  namespace requant {                  \
  void run(const Params* params);      \
  }
#define RQ_DECLARE_VECTOR(run, Params) RQ_KERNEL(run) void run(const requant::Params* params);
#define RQ_DECLARE_ONE_THREAD(run, Params) RQ_DECLARE_VECTOR(run, Params)
#define RQ_DECLARE_LOW_BITS(run, Params) \
  RQ_LOW_BITS_KERNEL(run) void run(const requant::Params* params);
#define RQ_DECLARE_LATE(run, Params) RQ_LATE_KERNEL(run) void run(const requant::Params* params);
#define RQ_DECLARE_AGAIN(run, Params)

// An operation is named once, by its scalar row.
#define RQ_OPERATION_SCALAR(op) op,
#define RQ_OPERATION_VECTOR(op)
