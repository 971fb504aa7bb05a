// Packs and unpacks elements smaller than a byte.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/base/dtype.h"

namespace topk {

/// The smallest number of elements that fills whole bytes for any packed type.
inline constexpr int64_t kPackedGroup = 8;

/// Unpacks `count` elements of a packed tensor, starting at element `first`.
/// Each element fills the highest bits of its own byte. The other bits are 0.
/// Reads only the bytes that contain these elements. REQUIRES: type.packed().
void Unpack(const DTypeInfo& type, const std::byte* packed, int64_t first,
            int64_t count, std::byte* bytes);

/// The reverse of Unpack() with first = 0. Writes ceil(count * type.bits / 8)
/// bytes and sets the unused bits of the last byte to 0. REQUIRES:
/// type.packed().
void Pack(const DTypeInfo& type, const std::byte* bytes, int64_t count,
          std::byte* packed);

/// Returns the bits of element `i` of a tensor, packed or not, in the lowest
/// bits of the result.
uint64_t ReadBits(const DTypeInfo& type, const std::byte* data, int64_t i);

/// Sign-extends an element. REQUIRES: `type` is a signed integer type.
int64_t SignExtended(const DTypeInfo& type, uint64_t bits);

}  // namespace topk
