// Checks shared by several dialects.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "core/base/dtype.h"
#include "core/dialects/dialect.h"
#include "topk/status.h"
#include "topk/v1/tensor.pb.h"

namespace topk {

/// Returns `data_type` as a DType, or INVALID_ARGUMENT for `field` if the type
/// is not in `allowed`. The message lists the types that `owner` allows.
Result<DType> CheckDataType(int data_type, std::span<const DType> allowed,
                            std::string_view field, std::string_view owner);

/// Returns the element type of the request's tensor, or INVALID_ARGUMENT if
/// `version` does not allow the type. Also rejects strides, which only DirectML
/// allows.
Result<DType> CheckTensor(const v1::Tensor& tensor,
                          const OperatorVersion& version);

/// Returns the value of K, a number or a tensor. A tensor must have one of
/// `types`, and the shape [] if `rank` is 0 or [1] if `rank` is 1. Returns
/// INVALID_ARGUMENT if K is missing, exceeds 2^63 - 1, or is a tensor of
/// another type or shape. MakePlan() checks the other limits. `field` is the
/// path of K.
Result<int64_t> ReadK(const v1::KInput& k, std::span<const DType> types,
                      int rank, std::string_view field, std::string_view owner);

/// Returns INVALID_ARGUMENT for a missing K.
Status MissingK(std::string_view field, std::string_view owner);

/// Returns INVALID_ARGUMENT for an attribute that was added in version `since`
/// but is set in a request for the older `version`.
Status NoSuchAttribute(std::string_view dialect, std::string_view attribute,
                       const OperatorVersion& version, int since);

}  // namespace topk
