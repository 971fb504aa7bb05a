#include "core/base/dtype.h"

#include <array>
#include <limits>

namespace topk {
namespace {

constexpr std::array<DTypeInfo, 12> kTable = {{
    {DType::kF16, "f16", 2, true, 0x8000, 0x7C00},
    {DType::kBF16, "bf16", 2, true, 0x8000, 0x7F80},
    {DType::kF32, "f32", 4, true, 0x80000000, 0x7F800000},
    {DType::kF64, "f64", 8, true, 0x8000000000000000, 0x7FF0000000000000},
    {DType::kI8, "i8", 1, false, 0x80, 0},
    {DType::kI16, "i16", 2, false, 0x8000, 0},
    {DType::kI32, "i32", 4, false, 0x80000000, 0},
    {DType::kI64, "i64", 8, false, 0x8000000000000000, 0},
    {DType::kU8, "u8", 1, false, 0, 0},
    {DType::kU16, "u16", 2, false, 0, 0},
    {DType::kU32, "u32", 4, false, 0, 0},
    {DType::kU64, "u64", 8, false, 0, 0},
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
