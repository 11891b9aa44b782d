// Texts that only late code uses.
#pragma once

/// `RQ_LATE_TEXT("...")` is a const char* of that text, which a page downloads with the extended
/// operators. Other texts are in the main module, whoever uses them, since the linker merges equal
/// ones. web/scripts/modules/move_data.mjs moves the section; only code of operators_sources.txt
/// may use the macro.
#ifdef __wasm__
#define RQ_LATE_SECTION __attribute__((section("late")))
#else
#define RQ_LATE_SECTION
#endif
#define RQ_LATE_TEXT(text)                                    \
  ([]() -> const char* {                                      \
    static constexpr char kLateText[] RQ_LATE_SECTION = text; \
    return kLateText;                                         \
  }())
