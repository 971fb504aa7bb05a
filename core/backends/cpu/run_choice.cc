#include "core/backends/cpu/run_choice.h"

#include <algorithm>

#include "core/backends/cpu/columns.h"
#include "core/backends/cpu/rows.h"
#include "core/backends/cpu/run.h"
#include "core/backends/cpu/transposed.h"
#include "core/backends/cpu/unpacked.h"

namespace topk::cpu {

namespace {

void Select(const Plan& plan, const Choice& choice, const InstructionSet& set,
            const std::byte* tensor, const Outputs& outputs,
            const Cancellation* cancellation) {
  WithSortKeyEncoder(plan, [&]<class Key, bool kFloat>(
                               const SortKeyEncoder<Key, kFloat>& map) {
    const Run<Key, kFloat> run = {
        plan, choice, set,     set.kernels<Key, kFloat>(),
        map,  tensor, outputs, cancellation};
    const auto each = [&](auto do_range) {
      ForEachRange(choice.units(plan), choice.grain, cancellation, do_range);
    };
    if (choice.algorithm == Algorithm::kTransposed) {
      each([&](int64_t begin, int64_t end) {
        TransposedRunner<Key, kFloat>(run).Do(begin, end);
      });
    } else if (choice.columns()) {
      each([&](int64_t begin, int64_t end) {
        ColumnRunner<Key, kFloat>(run).Do(begin, end);
      });
    } else {
      each([&](int64_t begin, int64_t end) {
        RowRunner<Key, kFloat>(run).Do(begin, end);
      });
    }
  });
}

}  // namespace

void RunChoice(const Plan& plan, const Choice& choice,
               const InstructionSet& set, const std::byte* tensor,
               const Outputs& outputs, const Cancellation* cancellation) {
  if (choice.algorithm == Algorithm::kNothing) return;
  if (!InfoOf(plan.dtype).packed()) {
    Select(plan, choice, set, tensor, outputs, cancellation);
    return;
  }
  const PackedValues values(plan);
  Select(plan, choice, set, tensor, values.Instead(outputs), cancellation);
  if (!plan.wants_values || IsCancelled(cancellation)) return;
  constexpr int64_t kBlock = kBlockBytes;
  const int64_t blocks = (plan.selected() + kBlock - 1) / kBlock;
  ForEachRange(blocks, choice.inline_here ? blocks : 1, cancellation,
               [&](int64_t begin, int64_t end) {
                 ForEachBlock(begin * kBlock,
                              std::min(end * kBlock, plan.selected()), kBlock,
                              cancellation, [&](int64_t from, int64_t to) {
                                values.Write(from, to, outputs);
                              });
               });
}

}  // namespace topk::cpu
