#include "core/base/dtype.h"

#include <algorithm>
#include <iterator>

#include "core/base/checked.h"

namespace topk {
namespace {

// Returns whether InfoOf() can index the table by DType number.
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
  const bool known = number >= 1 && number <= std::ssize(kDTypes);
  return known ? &InfoOf(static_cast<DType>(number)) : nullptr;
}

const DTypeInfo* FindDType(std::string_view name) {
  const auto* row = std::ranges::find(kDTypes, name, &DTypeInfo::name);
  return row == std::end(kDTypes) ? nullptr : row;
}

std::string TypeName(int number) {
  const DTypeInfo* const row = FindDType(number);
  return row == nullptr ? std::to_string(number) : std::string(row->name);
}

bool CheckedBytes(const DTypeInfo& type, int64_t count, int64_t* bytes) {
  if (!type.packed()) return CheckedMultiply(count, type.bytes, bytes);
  // Eight elements of n bits occupy n bytes.
  *bytes = count / 8 * type.bits + (count % 8 * type.bits + 7) / 8;
  return true;
}

int64_t MaxIndex(DType index_type) {
  const DTypeInfo& type = InfoOf(index_type);
  const int bits = std::min(type.sign != 0 ? type.bits - 1 : type.bits, 63);
  return static_cast<int64_t>((uint64_t{1} << bits) - 1);
}

}  // namespace topk
