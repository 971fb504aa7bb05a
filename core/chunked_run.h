// One run of a plan over a tensor that arrives in chunks.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "core/backends/backend.h"
#include "core/base/cancellation.h"
#include "core/base/deferred_free.h"

namespace topk {

/// Folds a plan over chunks, or concatenates the chunks and runs the plan on
/// the whole tensor.
class ChunkedRun {
 public:
  /// Starts a run. `plan`, `prepared`, `outputs` and `cancellation` (null =
  /// never cancelled) must outlive the result. If `folds`, returns the errors
  /// of StartFold(). REQUIRES: !folds || plan.input.packed.
  static Result<ChunkedRun> Start(const Plan& plan,
                                  const PreparedPlan& prepared, bool folds,
                                  const Outputs& outputs,
                                  const Cancellation* cancellation);

  /// Takes the next bytes of the tensor. Ignores padding.
  void Feed(std::span<const std::byte> chunk);

  /// Writes the rest of the outputs. If the run was cancelled, the outputs are
  /// incomplete. REQUIRES: all of plan.input.bytes were fed.
  Execution Finish();

  /// The fold, or null if the chunks are concatenated.
  const Fold* fold() const { return fold_.get(); }

 private:
  ChunkedRun(const Plan& plan, const PreparedPlan& prepared,
             const Outputs& outputs, const Cancellation* cancellation)
      : prepared_(&prepared),
        outputs_(outputs),
        cancellation_(cancellation),
        missing_(static_cast<size_t>(plan.input.bytes)) {}

  const PreparedPlan* prepared_;
  Outputs outputs_;
  const Cancellation* cancellation_;
  size_t missing_;
  std::unique_ptr<Fold> fold_;
  std::vector<std::byte, DeferredFreeAllocator<std::byte>> whole_;
};

}  // namespace topk
