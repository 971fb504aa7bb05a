// A deleter for objects of C libraries.
#pragma once

namespace topk {

/// A std::unique_ptr deleter that calls kFree(), e.g. FreeWith<X509_free>.
template <auto kFree>
struct FreeWith {
  template <class T>
  void operator()(T* object) const {
    kFree(object);
  }
};

}  // namespace topk
