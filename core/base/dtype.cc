#include "core/base/dtype.h"

#include <iterator>
#include <limits>

#include "core/base/checked.h"

namespace topk {
namespace {

// InfoOf() indexes the table by number.
constexpr bool RowsAreInOrder() {
  for (size_t i = 0; i < std::size(kDTypes); ++i) {
    if (static_cast<size_t>(kDTypes[i].type) != i + 1) return false;
  }
  return true;
}
static_assert(RowsAreInOrder());

}  // namespace

const DTypeInfo& InfoOf(DType type) {
  return kDTypes[static_cast<size_t>(type) - 1];
}

const DTypeInfo* FindDType(int number) {
  for (const DTypeInfo& row : kDTypes) {
    if (static_cast<int>(row.type) == number) return &row;
  }
  return nullptr;
}

const DTypeInfo* FindDType(std::string_view name) {
  for (const DTypeInfo& row : kDTypes) {
    if (row.name == name) return &row;
  }
  return nullptr;
}

bool CheckedBytes(const DTypeInfo& type, int64_t count, int64_t* bytes) {
  if (!type.packed()) return CheckedMultiply(count, type.bytes, bytes);
  // Eight elements of n bits occupy n bytes.
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
