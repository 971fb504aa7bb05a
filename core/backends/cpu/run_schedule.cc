#include "core/backends/cpu/run_schedule.h"

#include "core/backends/cpu/run.h"
#include "core/backends/cpu/run_units.h"
#include "core/backends/cpu/unpacked.h"

namespace topk::cpu {

void RunSchedule(const Plan& plan, const Schedule& schedule,
                 const InstructionSet& set, const std::byte* tensor,
                 const Outputs& outputs, const Cancellation* cancellation) {
  if (schedule.algorithm == Algorithm::kNothing) return;
  const PackedValues values(plan, outputs);
  const Outputs unpacked = values.unpacked();
  WithSortKeyEncoder(plan, [&]<class Key, bool kFloat>(
                               const SortKeyEncoder<Key, kFloat>& encoder) {
    const Run<Key, kFloat> run = {
        plan,    schedule, set,      set.kernels<Key, kFloat>(),
        encoder, tensor,   unpacked, cancellation};
    RunUnits(run, 0, schedule.units(plan));
  });
  if (!IsCancelled(cancellation))
    values.Write(schedule.run_inline, cancellation);
}

}  // namespace topk::cpu
