#include "core/backends/cpu/run_schedule.h"

#include <algorithm>

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
  if (values.count() == 0 || IsCancelled(cancellation)) return;
  constexpr int64_t kBlock = kBlockBytes;
  const int64_t blocks = (values.count() + kBlock - 1) / kBlock;
  ForEachRange(blocks, schedule.run_inline ? blocks : 1, cancellation,
               [&](int64_t begin, int64_t end) {
                 ForEachBlock(
                     begin * kBlock, std::min(end * kBlock, values.count()),
                     kBlock, cancellation,
                     [&](int64_t from, int64_t to) { values.Write(from, to); });
               });
}

}  // namespace topk::cpu
