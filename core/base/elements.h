// Access to unaligned elements in memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace topk {

/// Returns the address of the element at `position`.
template <class Key>
const std::byte* At(const std::byte* elements, int64_t position) {
  return elements + position * static_cast<int64_t>(sizeof(Key));
}

/// Returns the element at `position`.
template <class Key>
Key Load(const std::byte* elements, int64_t position) {
  Key bits;
  std::memcpy(&bits, At<Key>(elements, position), sizeof(Key));
  return bits;
}

/// Sets the element at `position`.
template <class Key>
void Store(std::byte* elements, int64_t position, Key bits) {
  std::memcpy(elements + position * static_cast<int64_t>(sizeof(Key)), &bits,
              sizeof(Key));
}

}  // namespace topk
