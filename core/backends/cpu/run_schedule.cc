#include "core/backends/cpu/run_schedule.h"

#include <algorithm>

#include "core/backends/cpu/run.h"
#include "core/backends/cpu/run_units.h"
#include "core/backends/cpu/unpacked.h"

namespace topk::cpu {

namespace {

void Select(const Plan& plan, const Schedule& schedule,
            const InstructionSet& set, const std::byte* tensor,
            const Outputs& outputs, const Cancellation* cancellation) {
  WithSortKeyEncoder(plan, [&]<class Key, bool kFloat>(
                               const SortKeyEncoder<Key, kFloat>& encoder) {
    const Run<Key, kFloat> run = {
        plan,    schedule, set,     set.kernels<Key, kFloat>(),
        encoder, tensor,   outputs, cancellation};
    RunUnits(run, 0, schedule.units(plan));
  });
}

}  // namespace

void RunSchedule(const Plan& plan, const Schedule& schedule,
                 const InstructionSet& set, const std::byte* tensor,
                 const Outputs& outputs, const Cancellation* cancellation) {
  if (schedule.algorithm == Algorithm::kNothing) return;
  if (!InfoOf(plan.dtype).packed()) {
    Select(plan, schedule, set, tensor, outputs, cancellation);
    return;
  }
  const PackedValues values(plan);
  Select(plan, schedule, set, tensor, values.WithUnpackedValues(outputs),
         cancellation);
  if (!plan.wants_values || IsCancelled(cancellation)) return;
  constexpr int64_t kBlock = kBlockBytes;
  const int64_t blocks = (plan.selected() + kBlock - 1) / kBlock;
  ForEachRange(blocks, schedule.run_inline ? blocks : 1, cancellation,
               [&](int64_t begin, int64_t end) {
                 ForEachBlock(begin * kBlock,
                              std::min(end * kBlock, plan.selected()), kBlock,
                              cancellation, [&](int64_t from, int64_t to) {
                                values.Write(from, to, outputs);
                              });
               });
}

}  // namespace topk::cpu
