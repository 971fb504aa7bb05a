// A deleter for types of C libraries.
#pragma once

namespace topk {

/// The deleter of a type that kFree() frees, e.g. FreeWith<X509_free>.
template <auto kFree>
struct FreeWith {
  template <class T>
  void operator()(T* object) const {
    kFree(object);
  }
};

}  // namespace topk
