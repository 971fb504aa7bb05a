// The element types, one table row each, and their order.
#pragma once

#include <bit>
#include <cstdint>
#include <span>
#include <string_view>

namespace topk {

static_assert(std::endian::native == std::endian::little,
              "the wire is little-endian and is read in place");

/// An element type. The numbers are those of topk.v1.DataType.
enum class DType : int {
  kF16 = 1,
  kBF16 = 2,
  kF32 = 3,
  kF64 = 4,
  kI8 = 5,
  kI16 = 6,
  kI32 = 7,
  kI64 = 8,
  kU8 = 9,
  kU16 = 10,
  kU32 = 11,
  kU64 = 12,
  kU1 = 13,
  kU2 = 14,
  kU3 = 15,
  kU4 = 16,
  kU6 = 17,
  kI4 = 18,
  kNF4 = 19,
  kF4E2M1 = 20,
  kF8E4M3 = 21,
  kF8E5M2 = 22,
  kF8E8M0 = 23,
};

/// The end of a byte at which the elements of a packed type start.
enum class BitOrder { kLowFirst, kHighFirst };

/// A row of the table: all that the rest of the code knows of a type.
///
/// Elements of less than 8 bits are packed without gaps over the whole tensor.
/// They are computed with as bytes that have the element in the highest bits
/// (packing.h), of which the order is described here.
struct DTypeInfo {
  DType type;
  /// As users write it, e.g. "f32".
  std::string_view name;
  /// The size of an element in a tensor, in bits.
  int bits;
  /// The size of an element that is computed with, in bytes: 1, 2, 4 or 8.
  int bytes;
  /// Whether the order is that of IEEE 754 (sign and magnitude, NaN).
  bool is_float;
  /// Integers: what to xor with the bits to get an unsigned order.
  /// Floats: the sign bit.
  uint64_t sign;
  /// Floats: the bits of the greatest magnitude that is not a NaN: +infinity's,
  /// if the type has one.
  uint64_t infinity;
  /// Of packed types alone.
  BitOrder bit_order = BitOrder::kLowFirst;

  /// Whether several elements share a byte.
  bool packed() const { return bits < 8; }
};

/// Returns the whole table.
std::span<const DTypeInfo> DTypes();

/// Returns a type's row. REQUIRES: the type is one of the enumerators.
const DTypeInfo& InfoOf(DType type);

/// Returns the row with this number or name, or nullptr.
const DTypeInfo* FindDType(int number);
const DTypeInfo* FindDType(std::string_view name);

/// Sets the length of `count` >= 0 packed row-major elements, in bytes, and
/// returns whether it fits 63 bits.
bool CheckedBytes(const DTypeInfo& type, int64_t count, int64_t* bytes);

/// Returns the greatest value that an integer type of indices can hold, as far
/// as int64 reaches. REQUIRES: I32, I64, U32 or U64.
int64_t MaxIndex(DType index_type);

}  // namespace topk
