#include "core/base/dtype.h"

#include <array>
#include <limits>

#include "core/base/checked.h"

namespace topk {
namespace {

constexpr std::array<DTypeInfo, 23> kTable = {{
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
    {DType::kU1, "u1", 1, 1, false, 0, 0, BitOrder::kHighFirst},
    {DType::kU2, "u2", 2, 1, false, 0, 0},
    {DType::kU3, "u3", 3, 1, false, 0, 0},
    {DType::kU4, "u4", 4, 1, false, 0, 0},
    {DType::kU6, "u6", 6, 1, false, 0, 0},
    {DType::kI4, "i4", 4, 1, false, 0x80, 0},
    // Its sixteen values ascend with their codes.
    {DType::kNF4, "nf4", 4, 1, false, 0, 0},
    // Neither infinity nor NaN.
    {DType::kF4E2M1, "f4e2m1", 4, 1, true, 0x80, 0x70},
    // No infinity; of each sign one NaN.
    {DType::kF8E4M3, "f8e4m3", 8, 1, true, 0x80, 0x7E},
    {DType::kF8E5M2, "f8e5m2", 8, 1, true, 0x80, 0x7C},
    // Powers of two, ascending; the greatest code is the one NaN.
    {DType::kF8E8M0, "f8e8m0", 8, 1, false, 0, 0},
}};

// InfoOf() indexes the table by number.
constexpr bool RowsAreInOrder() {
  for (size_t i = 0; i < kTable.size(); ++i) {
    if (static_cast<size_t>(kTable[i].type) != i + 1) return false;
  }
  return true;
}
static_assert(RowsAreInOrder());

}  // namespace

std::span<const DTypeInfo> DTypes() { return kTable; }

const DTypeInfo& InfoOf(DType type) {
  return kTable[static_cast<size_t>(type) - 1];
}

const DTypeInfo* FindDType(int number) {
  for (const DTypeInfo& row : kTable) {
    if (static_cast<int>(row.type) == number) return &row;
  }
  return nullptr;
}

const DTypeInfo* FindDType(std::string_view name) {
  for (const DTypeInfo& row : kTable) {
    if (row.name == name) return &row;
  }
  return nullptr;
}

bool CheckedBytes(const DTypeInfo& type, int64_t count, int64_t* bytes) {
  if (!type.packed()) return CheckedMultiply(count, type.bytes, bytes);
  // Eight elements of `bits` bits take `bits` bytes.
  *bytes = count / 8 * type.bits + (count % 8 * type.bits + 7) / 8;
  return true;
}

int64_t MaxIndex(DType index_type) {
  switch (index_type) {
    case DType::kI32:
      return std::numeric_limits<int32_t>::max();
    case DType::kU32:
      return std::numeric_limits<uint32_t>::max();
    default:
      return std::numeric_limits<int64_t>::max();
  }
}

}  // namespace topk
