// A reference to a function object, like C++26's std::function_ref. Functions
// that take one need not be templates.
#pragma once

#include <concepts>

namespace topk {

template <class Signature>
class FunctionRef;

/// Calls a function object, which must outlive this reference.
template <class... Arguments>
class FunctionRef<void(Arguments...)> {
 public:
  template <class Fn>
  requires(!std::same_as<Fn, FunctionRef>)
      FunctionRef(const Fn& fn)  // NOLINT: converts, as std::function does
      : object_(&fn), call_([](const void* object, Arguments... arguments) {
          (*static_cast<const Fn*>(object))(arguments...);
        }) {}

  void operator()(Arguments... arguments) const {
    call_(object_, arguments...);
  }

 private:
  const void* object_;
  void (*call_)(const void*, Arguments...);
};

}  // namespace topk
