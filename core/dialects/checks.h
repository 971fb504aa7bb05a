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
/// INVALID_ARGUMENT naming the field and `owner`, whose rule it breaks.
Result<DType> CheckDataType(int data_type, std::span<const DType> allowed,
                            std::string_view field, std::string_view owner);

/// INVALID_ARGUMENT if the tensor has strides: only DirectML's have.
Status CheckNoStrides(const v1::Tensor& tensor, std::string_view field,
                      std::string_view owner);

/// The K tensors that a version of an operator accepts.
struct KRule {
  std::span<const DType> data_types;
  /// The shape that is required: [] (0) or [1] (1).
  int rank;
};

/// Returns K, whichever way it was sent; `field` is its path. INVALID_ARGUMENT
/// if it is missing, or a tensor that breaks the rule. Its range is MakePlan's
/// to check; a U64 above 2^63 - 1 comes back as 2^63 - 1.
Result<int64_t> ReadK(const v1::KInput& k, const KRule& rule,
                      std::string_view field, std::string_view owner);

/// Sets K of an outline, whichever way it was sent.
void SetK(const v1::KInput& k, Outline& outline);

/// INVALID_ARGUMENT: a dialect does not have a flag.
Status NoSuchFlag(std::string_view flag, std::string_view title);

}  // namespace topk
