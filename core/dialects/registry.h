// Converts a request of any dialect to a plan.
#pragma once

#include <span>
#include <string_view>

#include "core/dialects/dialect.h"
#include "core/plan/plan.h"
#include "topk/status.h"
#include "topk/v1/topk.pb.h"

namespace topk {

/// The maximum length of a request_id.
inline constexpr size_t kMaxRequestIdBytes = 256;

/// Returns all dialects.
std::span<const Dialect* const> Dialects();

/// Returns the dialect of `spec`, or null if there is none.
const Dialect* FindDialect(const v1::Spec& spec);

/// Returns UNIMPLEMENTED for a tensor in shared memory or CUDA memory that this
/// server does not let clients use.
Status MemoryNotAllowed(bool is_cuda, std::string_view field);

/// Validates a request and returns its plan, or an error for the first rule
/// that the request breaks. Ignores Tensor.source, so that the header of a
/// stream can be validated before the data arrives.
Result<Plan> Lower(const v1::TopKRequest& request, const Limits& limits);

}  // namespace topk
