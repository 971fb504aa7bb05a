// The checks that several dialects share.
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

/// Returns the element type if it is one of `allowed`; otherwise
/// INVALID_ARGUMENT that names `field` and `owner`, whose rule is broken, and
/// ends with `remedy`.
Result<DType> CheckDataType(int data_type, std::span<const DType> allowed,
                            std::string_view field, std::string_view owner,
                            std::string_view remedy = "");

/// Returns the element type of the request's tensor. INVALID_ARGUMENT if the
/// version does not accept the type, naming the one of `versions` that does, or
/// if the tensor has strides, which only DirectML allows.
Result<DType> CheckTensor(const v1::Tensor& tensor,
                          const OperatorVersion& version,
                          std::span<const OperatorVersion> versions);

/// The K tensors that a version of an operator accepts.
struct KRule {
  std::span<const DType> data_types;
  /// The shape that is required: [] (0) or [1] (1).
  int rank;
};

/// Returns K, whichever way it was sent; `field` is its path. INVALID_ARGUMENT
/// if it is missing, a tensor that breaks the rule, or above 2^63 - 1. MakePlan
/// checks the rest of its range.
Result<int64_t> ReadK(const v1::KInput& k, const KRule& rule,
                      std::string_view field, std::string_view owner);

/// Sets K of an outline, whichever way it was sent.
void SetK(const v1::KInput& k, Outline& outline);

/// INVALID_ARGUMENT: k is missing.
Status MissingK(std::string_view field, std::string_view owner);

/// INVALID_ARGUMENT: a version does not have an attribute of a newer one.
Status NoSuchAttribute(std::string_view dialect, std::string_view attribute,
                       const OperatorVersion& version, int since);

}  // namespace topk
