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
};

/// A row of the table: all that the rest of the code knows of a type.
struct DTypeInfo {
  DType type;
  /// As users write it, e.g. "f32".
  std::string_view name;
  /// The size of an element, in bytes: 1, 2, 4 or 8.
  int bytes;
  /// Whether the order is that of IEEE 754 (sign and magnitude, NaN).
  bool is_float;
  /// Integers: what to xor with the bits to get an unsigned order.
  /// Floats: the sign bit.
  uint64_t sign;
  /// Floats: the bits of +infinity; a greater magnitude is a NaN.
  uint64_t infinity;
};

/// Returns the whole table.
std::span<const DTypeInfo> DTypes();

/// Returns a type's row. REQUIRES: the type is one of the enumerators.
const DTypeInfo& InfoOf(DType type);

/// Returns the row with this number or name, or nullptr.
const DTypeInfo* FindDType(int number);
const DTypeInfo* FindDType(std::string_view name);

/// Returns the greatest value that an integer type of indices can hold, as far
/// as int64 reaches. REQUIRES: I32, I64, U32 or U64.
int64_t MaxIndex(DType index_type);

}  // namespace topk
