#pragma once

#include <dlfcn.h>

namespace slipstream::cuda {

/// A function, returning a status, of a library that is opened at run time. Converts to false if
/// the library or the function is missing.
template <typename Signature>
class Symbol;

template <typename... Arguments>
class Symbol<int(Arguments...)> {
 public:
  Symbol(void* library, const char* name)
      : function_(library == nullptr ? nullptr
                                     : reinterpret_cast<Function*>(dlsym(library, name))) {}
  explicit operator bool() const { return function_ != nullptr; }
  int operator()(Arguments... arguments) const { return function_(arguments...); }

 private:
  using Function = int(Arguments...);
  Function* function_;
};

}  // namespace slipstream::cuda
