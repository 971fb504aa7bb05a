#include "server/oip/data_types.h"

#include <array>

namespace topk {
namespace {

constexpr std::array<OipType, 12> kTypes = {{
    {v1::DATA_TYPE_F16, "FP16", inference::TYPE_FP16},
    {v1::DATA_TYPE_BF16, "BF16", inference::TYPE_BF16},
    {v1::DATA_TYPE_F32, "FP32", inference::TYPE_FP32},
    {v1::DATA_TYPE_F64, "FP64", inference::TYPE_FP64},
    {v1::DATA_TYPE_I8, "INT8", inference::TYPE_INT8},
    {v1::DATA_TYPE_I16, "INT16", inference::TYPE_INT16},
    {v1::DATA_TYPE_I32, "INT32", inference::TYPE_INT32},
    {v1::DATA_TYPE_I64, "INT64", inference::TYPE_INT64},
    {v1::DATA_TYPE_U8, "UINT8", inference::TYPE_UINT8},
    {v1::DATA_TYPE_U16, "UINT16", inference::TYPE_UINT16},
    {v1::DATA_TYPE_U32, "UINT32", inference::TYPE_UINT32},
    {v1::DATA_TYPE_U64, "UINT64", inference::TYPE_UINT64},
}};
constexpr OipType kNone = {v1::DATA_TYPE_UNSPECIFIED, "",
                           inference::TYPE_INVALID};

}  // namespace

const OipType& FindOipType(int type) {
  for (const OipType& row : kTypes) {
    if (row.type == type) return row;
  }
  return kNone;
}

const OipType& FindOipType(std::string_view name) {
  for (const OipType& row : kTypes) {
    if (row.name == name) return row;
  }
  return kNone;
}

}  // namespace topk
