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
  /// Floats: the number of mantissa bits, the lowest ones.
  int mantissa_bits = 0;
  /// Of packed types alone.
  BitOrder bit_order = BitOrder::kLowFirst;

  /// Whether several elements share a byte.
  bool packed() const { return bits < 8; }
};

/// The table, by number.
inline constexpr DTypeInfo kDTypes[] = {
    {DType::kF16, "f16", 16, 2, true, 0x8000, 0x7C00, 10},
    {DType::kBF16, "bf16", 16, 2, true, 0x8000, 0x7F80, 7},
    {DType::kF32, "f32", 32, 4, true, 0x80000000, 0x7F800000, 23},
    {DType::kF64, "f64", 64, 8, true, 0x8000000000000000, 0x7FF0000000000000,
     52},
    {DType::kI8, "i8", 8, 1, false, 0x80, 0},
    {DType::kI16, "i16", 16, 2, false, 0x8000, 0},
    {DType::kI32, "i32", 32, 4, false, 0x80000000, 0},
    {DType::kI64, "i64", 64, 8, false, 0x8000000000000000, 0},
    {DType::kU8, "u8", 8, 1, false, 0, 0},
    {DType::kU16, "u16", 16, 2, false, 0, 0},
    {DType::kU32, "u32", 32, 4, false, 0, 0},
    {DType::kU64, "u64", 64, 8, false, 0, 0},
    {DType::kU1, "u1", 1, 1, false, 0, 0, 0, BitOrder::kHighFirst},
    {DType::kU2, "u2", 2, 1, false, 0, 0},
    {DType::kU3, "u3", 3, 1, false, 0, 0},
    {DType::kU4, "u4", 4, 1, false, 0, 0},
    {DType::kU6, "u6", 6, 1, false, 0, 0},
    {DType::kI4, "i4", 4, 1, false, 0x80, 0},
    // Its sixteen values ascend with their codes.
    {DType::kNF4, "nf4", 4, 1, false, 0, 0},
    // Neither infinity nor NaN.
    {DType::kF4E2M1, "f4e2m1", 4, 1, true, 0x80, 0x70, 1},
    // No infinity; of each sign one NaN.
    {DType::kF8E4M3, "f8e4m3", 8, 1, true, 0x80, 0x7E, 3},
    {DType::kF8E5M2, "f8e5m2", 8, 1, true, 0x80, 0x7C, 2},
    // Powers of two, ascending; the greatest code is the one NaN.
    {DType::kF8E8M0, "f8e8m0", 8, 1, false, 0, 0},
};

/// Returns the whole table.
inline std::span<const DTypeInfo> DTypes() { return kDTypes; }

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
