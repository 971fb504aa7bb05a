// A tensor that came in pieces, for backends that need it in one.
#pragma once

#include <span>
#include <vector>

#include "core/base/cancellation.h"
#include "core/base/deferred_free.h"
#include "core/plan/plan.h"

namespace topk {

/// The bytes of a tensor, or a part of them.
using WholeTensor = std::vector<std::byte, DeferredFreeAllocator<std::byte>>;

/// Returns the pieces together, without padding. If cancelled (null = never)
/// some are missing.
WholeTensor Concatenate(const Plan& plan,
                        std::span<const std::span<const std::byte>> pieces,
                        const Cancellation* cancellation);

/// A tensor that arrives in pieces and is kept until all are there: in parts,
/// so that none is moved to grow.
class CollectedTensor {
 public:
  /// Takes the next bytes of a plan's tensor. If cancelled some may be left
  /// out.
  void Append(const Plan& plan, std::span<const std::byte> piece,
              const Cancellation* cancellation);

  /// The parts, in order; one at least.
  std::vector<std::span<const std::byte>> parts() const;

 private:
  std::vector<WholeTensor> parts_;
};

}  // namespace topk
