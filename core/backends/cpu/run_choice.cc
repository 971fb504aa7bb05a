#include "core/backends/cpu/run_choice.h"

#include "core/backends/cpu/columns.h"
#include "core/backends/cpu/key_maps.h"
#include "core/backends/cpu/rows.h"

namespace topk::cpu {

void RunChoice(const Plan& plan, const Choice& choice,
               const InstructionSet& set, const std::byte* tensor,
               const Outputs& outputs, const Cancellation* cancellation) {
  if (choice.algorithm == Algorithm::kNothing) return;
  WithKeyMap(plan, [&]<class Key, bool kFloat>(const KeyMap<Key, kFloat>& map) {
    const Run<Key, kFloat> run = {
        plan,    choice,      set.kernels<Key, kFloat>(), map, tensor,
        outputs, cancellation};
    const auto each = [&](int64_t units, auto do_range) {
      ForEachRange(units, choice.inline_here ? units : choice.grain,
                   cancellation, do_range);
    };
    if (choice.columns()) {
      each(plan.outer * choice.tiles(plan), [&](int64_t begin, int64_t end) {
        ColumnRunner<Key, kFloat>(run).Do(begin, end);
      });
    } else {
      each(plan.slices(), [&](int64_t begin, int64_t end) {
        RowRunner<Key, kFloat>(run).Do(begin, end);
      });
    }
  });
}

}  // namespace topk::cpu
