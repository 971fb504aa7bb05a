// A function that is borrowed for a call, as C++26's std::function_ref: one
// instantiation of its user serves every function.
#pragma once

#include <concepts>

namespace topk {

template <class Signature>
class FunctionRef;

/// Calls a function object that must outlive this one.
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
