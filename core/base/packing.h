// Elements of less than a byte: from the bits of a tensor to bytes, and back.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/base/dtype.h"

namespace topk {

/// The number of elements that fill whole bytes for every element width.
inline constexpr int64_t kPackedGroup = 8;

/// Writes `count` elements of a packed tensor, from the element `first` on, as
/// bytes, each with the element in its highest bits and zeros below. Reads only
/// bytes that contain these elements. REQUIRES: type.packed().
void Unpack(const DTypeInfo& type, const std::byte* packed, int64_t first,
            int64_t count, std::byte* bytes);

/// The reverse of Unpack() from the first element on: writes the
/// ceil(count * type.bits / 8) bytes of `count` elements; bits of the last byte
/// that are nobody's are zero. REQUIRES: type.packed().
void Pack(const DTypeInfo& type, const std::byte* bytes, int64_t count,
          std::byte* packed);

/// Returns the bits of element `i` of a tensor, packed or not, in the lowest
/// bits.
uint64_t ReadBits(const DTypeInfo& type, const std::byte* data, int64_t i);

/// Returns the number with these bits. REQUIRES: an integer type with a sign.
int64_t SignExtended(const DTypeInfo& type, uint64_t bits);

/// Returns the integer that a tensor of one element is; 2^63 - 1 for a U64
/// above it. REQUIRES: !type.is_float, and `data` has type.bytes bytes.
int64_t ReadInteger(const DTypeInfo& type, const std::byte* data);

}  // namespace topk
