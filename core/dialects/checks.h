// Checks shared by several dialects.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "core/base/dtype.h"
#include "core/base/status.h"
#include "core/dialects/dialect.h"
#include "topk/v1/tensor.pb.h"

namespace topk {

/// Returns the element type if it is in `allowed`. Otherwise, returns
/// INVALID_ARGUMENT with a message that names `owner`, whose rule is broken,
/// and ends with `remedy`. `field` is the path of the data type.
Result<DType> CheckDataType(int data_type, std::span<const DType> allowed,
                            std::string_view field, std::string_view owner,
                            std::string_view remedy = "");

/// Returns the element type of the request's tensor. Returns INVALID_ARGUMENT
/// if `version` does not accept the type (the message suggests one of
/// `versions`), or if the tensor has strides, which only DirectML allows.
Result<DType> CheckTensor(const v1::Tensor& tensor,
                          const OperatorVersion& version,
                          std::span<const OperatorVersion> versions);

/// The K tensors that an operator version accepts.
struct KRule {
  std::span<const DType> data_types;
  /// The required rank: 0 for shape [], 1 for shape [1].
  int rank;
};

/// Returns K, whether sent as a number or as a tensor. Returns INVALID_ARGUMENT
/// if K is missing, exceeds 2^63 - 1, or is a tensor that breaks `rule`.
/// MakePlan() checks the rest of the range. `field` is the path of K.
Result<int64_t> ReadK(const v1::KInput& k, const KRule& rule,
                      std::string_view field, std::string_view owner);

/// Copies K to `outline`, whether sent as a number or as a tensor.
void SetK(const v1::KInput& k, Outline& outline);

/// Returns INVALID_ARGUMENT: k is missing.
Status MissingK(std::string_view field, std::string_view owner);

/// Returns INVALID_ARGUMENT: version `since` added the attribute.
Status NoSuchAttribute(std::string_view dialect, std::string_view attribute,
                       const OperatorVersion& version, int since);

}  // namespace topk
