// From a request to a plan, whatever its dialect.
#pragma once

#include <span>

#include "core/base/status.h"
#include "core/dialects/dialect.h"
#include "core/plan/plan.h"
#include "topk/v1/topk.pb.h"

namespace topk {

/// The length of a request_id, at most.
inline constexpr size_t kMaxRequestIdBytes = 256;

/// Returns every dialect.
std::span<const Dialect* const> Dialects();

/// Returns the dialect that a request names, or whose attributes it has, or
/// nullptr.
const Dialect* FindDialect(const v1::Spec& spec);
const Dialect* FindDialect(v1::TopKRequest::AttributesCase attributes);

/// Returns the plan of a request, or the first rule it breaks. Looks at all but
/// the tensor's source, so a stream's header is lowered before its data comes.
Result<Plan> Lower(const v1::TopKRequest& request, const Limits& limits);

}  // namespace topk
