// A tensor that came in pieces, for backends that need it in one.
#pragma once

#include <span>
#include <vector>

#include "core/base/cancellation.h"
#include "core/base/deferred_free.h"
#include "core/plan/plan.h"

namespace topk {

/// The bytes of a tensor.
using WholeTensor = std::vector<std::byte, DeferredFreeAllocator<std::byte>>;

/// Appends a piece for which there is capacity. If cancelled (null = never)
/// some bytes may be left out.
void Append(std::span<const std::byte> piece, const Cancellation* cancellation,
            WholeTensor& tensor);

/// Returns the pieces together, without padding. If cancelled (null = never)
/// some are missing.
WholeTensor Concatenate(const Plan& plan,
                        std::span<const std::span<const std::byte>> pieces,
                        const Cancellation* cancellation);

}  // namespace topk
