// Elements of memory that need not be aligned.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace topk {

/// Returns where the element of a number is.
template <class Key>
const std::byte* At(const std::byte* elements, int64_t position) {
  return elements + position * static_cast<int64_t>(sizeof(Key));
}

/// Returns the element of a number.
template <class Key>
Key Load(const std::byte* elements, int64_t position) {
  Key bits;
  std::memcpy(&bits, At<Key>(elements, position), sizeof(Key));
  return bits;
}

/// Sets the element of a number.
template <class Key>
void Store(std::byte* elements, int64_t position, Key bits) {
  std::memcpy(elements + position * static_cast<int64_t>(sizeof(Key)), &bits,
              sizeof(Key));
}

}  // namespace topk
