// Calls of functions that a core in JavaScript may have to load first.
#pragma once

#include <utility>

#include "base/operators.h"

namespace requant {

[[noreturn]] void FailNotLoaded(const char* function);

template <typename Signature>
class LateFunction;

/// A function among the extended operators (bindings/README.md), for callers in the main module.
/// They must not call it by name, which is a direct call that the main module cannot make, but
/// through the function table: through the pointer in this object. So no compiler may see at a call
/// which function the pointer holds. A compiler sees one source file at a time; so a LateFunction
/// is defined in a file without calls, the late_functions.cpp of its layer, by a line
///
///     const LateFunction<decltype(JoinPairs)> kJoinPairs{JoinPairs, "JoinPairs"};
///
/// and declared `extern` beside the function itself. A direct call that came about nevertheless
/// fails the build (web/scripts/modules/manifest.mjs).
template <typename Result, typename... Arguments>
class LateFunction<Result(Arguments...)> {
 public:
  constexpr LateFunction(Result (*function)(Arguments...), const char* name)
      : function_(function), name_(name) {}

  /// Whether it can be called.
  bool loaded() const { return OperatorsLoaded(); }

  /// Calls the function; throws kInternal, naming it, unless it is loaded.
  Result operator()(Arguments... arguments) const {
    if (!loaded()) FailNotLoaded(name_);
    return function_(std::forward<Arguments>(arguments)...);
  }

  /// In WebAssembly its entry of the function table, elsewhere its address. A graph that needs the
  /// function tells this number, and the loader looks whether the entry is empty.
  const void* entry() const { return reinterpret_cast<const void*>(function_); }

 private:
  Result (*function_)(Arguments...);
  const char* name_;
};

}  // namespace requant
