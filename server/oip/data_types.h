// The protocol's names of our element types.
#pragma once

#include <string_view>

#include "inference/model_config.pb.h"
#include "topk/v1/tensor.pb.h"

namespace topk {

/// One type in the terms of topk.v1, of the protocol and of its model
/// configuration.
struct OipType {
  v1::DataType type;
  std::string_view name;
  inference::DataType config;
};

/// Returns the row of a type; a row with an empty name for an unknown type.
const OipType& FindOipType(int type);

/// Returns the row of a name; a row with an empty name for a type that is not
/// supported, e.g. BOOL and BYTES.
const OipType& FindOipType(std::string_view name);

}  // namespace topk
