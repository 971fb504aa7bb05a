#include "core/chunked_run.h"

#include <algorithm>
#include <utility>

namespace topk {

Result<ChunkedRun> ChunkedRun::Start(const Plan& plan,
                                     const PreparedPlan& prepared, bool folds,
                                     const Outputs& outputs,
                                     const Cancellation* cancellation) {
  ChunkedRun run(plan, prepared, outputs, cancellation);
  if (folds) {
    auto fold = prepared.StartFold(outputs, cancellation);
    if (!fold.ok()) return fold.status();
    run.fold_ = *std::move(fold);
  } else {
    run.whole_.reserve(run.missing_);
  }
  return run;
}

void ChunkedRun::Feed(std::span<const std::byte> chunk) {
  chunk = chunk.first(std::min(chunk.size(), missing_));
  missing_ -= chunk.size();
  if (fold_ != nullptr) return fold_->Feed(chunk);
  constexpr size_t kBlock = size_t{256} << 10;  // 0.2 ms for new pages
  while (!chunk.empty() && !IsCancelled(cancellation_)) {
    const auto block = chunk.first(std::min(chunk.size(), kBlock));
    whole_.insert(whole_.end(), block.begin(), block.end());
    chunk = chunk.subspan(block.size());
  }
}

Execution ChunkedRun::Finish() {
  if (IsCancelled(cancellation_)) return {};
  return fold_ != nullptr ? fold_->Finish()
                          : prepared_->Run(whole_, outputs_, cancellation_);
}

}  // namespace topk
