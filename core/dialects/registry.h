// Converts a request of any dialect to a plan.
#pragma once

#include <span>

#include "core/dialects/dialect.h"
#include "core/plan/plan.h"
#include "topk/status.h"
#include "topk/v1/topk.pb.h"

namespace topk {

/// The maximum length of a request_id.
inline constexpr size_t kMaxRequestIdBytes = 256;

/// Returns all dialects.
std::span<const Dialect* const> Dialects();

/// Find a dialect by its spec or its attributes. Return null if there is none.
const Dialect* FindDialect(const v1::Spec& spec);
const Dialect* FindDialect(v1::TopKRequest::AttributesCase attributes);

/// Validates a request and returns its plan, or an error for the first rule
/// that the request breaks. Ignores Tensor.source, so that the header of a
/// stream can be validated before the data arrives.
Result<Plan> Lower(const v1::TopKRequest& request, const Limits& limits);

}  // namespace topk
