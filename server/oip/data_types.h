// The names of element types in the Open Inference Protocol.
#pragma once

#include <algorithm>
#include <iterator>
#include <string_view>

#include "inference/model_config.pb.h"
#include "topk/v1/tensor.pb.h"

namespace topk {

/// An element type of topk.v1, with its names in the protocol: in requests and
/// in model configurations.
struct OipType {
  v1::DataType type;
  std::string_view name;
  inference::DataType config;
};

/// The supported types. The last row stands for all other types.
inline constexpr OipType kOipTypes[] = {
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
    {v1::DATA_TYPE_UNSPECIFIED, "", inference::TYPE_INVALID}};

/// Returns the row of kOipTypes for a type or a name. If the type is not
/// supported, e.g. BOOL or BYTES, returns the last row, whose name is empty.
inline const OipType& FindOipType(int type) {
  return *std::ranges::find(kOipTypes, std::end(kOipTypes) - 1, type,
                            &OipType::type);
}
inline const OipType& FindOipType(std::string_view name) {
  return *std::ranges::find(kOipTypes, std::end(kOipTypes) - 1, name,
                            &OipType::name);
}

}  // namespace topk
