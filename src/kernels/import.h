#pragma once
// Linkage of the vector micro-kernels.
//
// The vector kernels are compiled on their own, freestanding, by a newer compiler than the rest of
// the core, and merged into the core's wasm afterwards. For the core they are therefore imports of
// a module called "kernels"; inside that module they are exports; in a native build they are plain
// C functions. Rows of tables are declared from lists (kernels/rows.h), other functions by hand:
// RQ_KERNEL(rq_conv_sum_rows) void rq_conv_sum_rows(...).
//
// Kernels for few bits are in a module of their own, which is fetched for the first model that
// needs them (bindings/cmake/low_bits_sources.txt). Their declarations say RQ_LOW_BITS_KERNEL, and
// their rows are missing until the module is loaded (kernels/variant/missing.h).

#if defined(__EMSCRIPTEN__)
#define RQ_KERNEL(name) extern "C" __attribute__((import_module("kernels"), import_name(#name)))
#define RQ_LOW_BITS_KERNEL(name) \
  extern "C" __attribute__((import_module("low_bits"), import_name(#name)))
#elif defined(__wasm__)
#define RQ_KERNEL(name) extern "C" __attribute__((export_name(#name), visibility("default")))
#define RQ_LOW_BITS_KERNEL(name) RQ_KERNEL(name)
#else
#define RQ_KERNEL(name) extern "C"
#define RQ_LOW_BITS_KERNEL(name) RQ_KERNEL(name)
#endif

// Kernels among the extended operators are part of the core, whose linker sees them; the module of
// all kernels, for threads, exports them.
#if defined(__wasm__) && !defined(__EMSCRIPTEN__)
#define RQ_LATE_KERNEL(name) RQ_KERNEL(name)
#else
#define RQ_LATE_KERNEL(name) extern "C"
#endif
