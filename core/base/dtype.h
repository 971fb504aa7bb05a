// The table of element types: how elements are encoded and compared.
#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>

namespace topk {

static_assert(std::endian::native == std::endian::little,
              "the wire is little-endian and is read in place");

/// An element type. The values equal those of topk.v1.DataType.
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

/// A row of the table: everything that the rest of the code knows about a type.
///
/// Elements smaller than 8 bits are packed without gaps across the whole
/// tensor. The first element of a byte is in the lowest bits, or for 1-bit
/// elements in the highest bit. Computations use one byte per element, with the
/// element in the highest bits (see packing.h). `sign` and `infinity` describe
/// that byte.
struct DTypeInfo {
  DType type;
  /// The user-visible name, e.g. "f32".
  std::string_view name;
  /// Bits per element in a tensor.
  int bits;
  /// Bytes per element in computations: 1, 2, 4 or 8.
  int bytes;
  /// True if elements are ordered by sign and magnitude, as in IEEE 754.
  bool is_float;
  /// Floats: the sign bit. Integers: the bits to flip for an unsigned
  /// comparison.
  uint64_t sign;
  /// Floats: the bits of the largest magnitude that is not NaN. This is
  /// infinity if the type has an infinity.
  uint64_t infinity;
  /// True if several elements share a byte.
  bool packed() const { return bits < 8; }
};

/// The table, in the order of the DType numbers.
inline constexpr DTypeInfo kDTypes[] = {
    {DType::kF16, "f16", 16, 2, true, 0x8000, 0x7C00},
    {DType::kBF16, "bf16", 16, 2, true, 0x8000, 0x7F80},
    {DType::kF32, "f32", 32, 4, true, 0x80000000, 0x7F800000},
    {DType::kF64, "f64", 64, 8, true, 0x8000000000000000, 0x7FF0000000000000},
    {DType::kI8, "i8", 8, 1, false, 0x80, 0},
    {DType::kI16, "i16", 16, 2, false, 0x8000, 0},
    {DType::kI32, "i32", 32, 4, false, 0x80000000, 0},
    {DType::kI64, "i64", 64, 8, false, 0x8000000000000000, 0},
    {DType::kU8, "u8", 8, 1, false, 0, 0},
    {DType::kU16, "u16", 16, 2, false, 0, 0},
    {DType::kU32, "u32", 32, 4, false, 0, 0},
    {DType::kU64, "u64", 64, 8, false, 0, 0},
    {DType::kU1, "u1", 1, 1, false, 0, 0},
    {DType::kU2, "u2", 2, 1, false, 0, 0},
    {DType::kU3, "u3", 3, 1, false, 0, 0},
    {DType::kU4, "u4", 4, 1, false, 0, 0},
    {DType::kU6, "u6", 6, 1, false, 0, 0},
    {DType::kI4, "i4", 4, 1, false, 0x80, 0},
    // The sixteen codes are in ascending order of their values.
    {DType::kNF4, "nf4", 4, 1, false, 0, 0},
    // No infinity, no NaN.
    {DType::kF4E2M1, "f4e2m1", 4, 1, true, 0x80, 0x70},
    // No infinity, one NaN per sign.
    {DType::kF8E4M3, "f8e4m3", 8, 1, true, 0x80, 0x7E},
    {DType::kF8E5M2, "f8e5m2", 8, 1, true, 0x80, 0x7C},
    // Larger codes are larger powers of two. The largest code is the only NaN.
    {DType::kF8E8M0, "f8e8m0", 8, 1, false, 0, 0},
};

/// Returns the row of kDTypes for `type`. REQUIRES: `type` is a valid DType.
const DTypeInfo& InfoOf(DType type);

/// Returns the table row with this number or name, or null if there is none.
const DTypeInfo* FindDType(int number);
const DTypeInfo* FindDType(std::string_view name);

/// Returns the name of the type with this number, or else the number.
std::string TypeName(int number);

/// Sets *bytes to the size of a contiguous tensor of `count` elements. Returns
/// false if the size overflows. REQUIRES: count >= 0.
bool CheckedBytes(const DTypeInfo& type, int64_t count, int64_t* bytes);

/// Returns the largest value of an index type, capped at the int64 maximum.
/// REQUIRES: `index_type` is I32, I64, U32 or U64.
int64_t MaxIndex(DType index_type);

}  // namespace topk
