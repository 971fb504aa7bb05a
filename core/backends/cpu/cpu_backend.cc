// The CPU backend: chooses the algorithm for a plan, and whether to run it on
// the calling thread or in parallel on oneTBB's threads.
//
// Results do not depend on how the work is split, because ties are resolved by
// index (selection.h).
//
// Tests: conformance/, unit/long_slices_test.cc.
#include "core/backends/cpu/cpu_backend.h"

#include <memory>

#include "core/backends/cpu/chooser.h"
#include "core/backends/cpu/cost.h"
#include "core/backends/cpu/element_fold.h"
#include "core/backends/cpu/execution_context.h"
#include "core/backends/cpu/pieces.h"
#include "core/backends/cpu/run_tiles.h"
#include "core/backends/cpu/unpacked.h"
#include "core/base/with_sort_key_encoder.h"

namespace topk {
namespace {

using cpu::ArenaPool;
using cpu::InstructionSet;
using cpu::kName;
using cpu::Schedule;

// A fold over a tensor without slices, and its plan.
class EmptyFold final : public Fold {
 public:
  EmptyFold(const Plan& plan, const Execution& execution)
      : Fold(plan), execution_(execution) {}
  Execution Finish() override { return execution_; }

 private:
  void Take(std::span<const std::byte>) override {}

  const Execution execution_;
};

class EmptyPlan final : public PreparedPlan {
 public:
  EmptyPlan(const Plan& plan, const InstructionSet& set)
      : plan_(plan), execution_{kName, "nothing", set.name} {}
  int64_t EstimateNanoseconds() const override { return 0; }
  Cost cost() const override { return CostOfOutputs(plan_); }
  Size FeedNanoseconds(Size) const override { return 0; }
  Execution Run(Chunks, const Outputs&, const Cancellation*) const override {
    return execution_;
  }
  Result<std::unique_ptr<Fold>> StartFold(const Outputs&,
                                          const Cancellation*) const override {
    return std::unique_ptr<Fold>(
        std::make_unique<EmptyFold>(plan_, execution_));
  }

 private:
  const Plan& plan_;
  const Execution execution_;
};

class CpuPlan final : public PreparedPlan {
 public:
  CpuPlan(const Plan& plan, Arrival arrival, const Schedule& schedule,
          const InstructionSet& set, ArenaPool& arenas)
      : plan_(plan),
        arrival_(arrival),
        schedule_(schedule),
        set_(set),
        arenas_(arenas) {}

  int64_t EstimateNanoseconds() const override {
    return cpu::EstimateNanoseconds(plan_, schedule_);
  }

  Cost cost() const override { return cpu::CostOf(plan_, arrival_, schedule_); }

  Size FeedNanoseconds(Size bytes) const override {
    return plan_.input.contiguous
               ? cpu::FeedNanoseconds(plan_, schedule_.buffered, bytes)
               : CopyNanoseconds(bytes);
  }

  // A tensor that is not contiguous is computed when all data has arrived.
  // Otherwise, a fold computes at most the buffered positions, and packs values
  // smaller than a byte, which takes at most 1 ns per value.
  Size FinishNanoseconds() const override {
    if (!plan_.input.contiguous) return cost().nanoseconds;
    const bool packs = InfoOf(plan_.dtype).packed() && plan_.wants_values;
    return FeedNanoseconds(0) + Size(packs ? plan_.output_elements() : 0);
  }

  Execution Run(Chunks chunks, const Outputs& outputs,
                const Cancellation* cancellation) const override {
    if (arrival_ != Arrival::kWhole) {
      const auto fold = *StartFold(outputs, cancellation);
      for (const auto& chunk : chunks) fold->Feed(chunk);
      return fold->Finish();
    }
    arenas_.Run(schedule_.threads, [&] {
      cpu::RunSchedule(plan_, schedule_, set_, chunks[0].data(), outputs,
                       cancellation);
    });
    return {kName, NameOf(schedule_), set_.name};
  }

  Result<std::unique_ptr<Fold>> StartFold(
      const Outputs& outputs, const Cancellation* cancellation) const override {
    return WithSortKeyEncoder(
        plan_,
        [&]<class Key, bool kFloat>(
            const SortKeyEncoder<Key, kFloat>&) -> std::unique_ptr<Fold> {
          return std::make_unique<cpu::ElementFold<Key, kFloat>>(
              plan_, schedule_, set_, arenas_, outputs, cancellation);
        });
  }

 private:
  const Plan& plan_;
  const Arrival arrival_;
  const Schedule schedule_;
  const InstructionSet& set_;
  ArenaPool& arenas_;
};

class CpuBackend final : public Backend {
 public:
  CpuBackend(int threads, const InstructionSet& set, double task)
      : threads_(threads), set_(set), task_(task), arenas_(threads) {}

  std::string_view name() const override { return kName; }
  std::string_view instruction_set() const override { return set_.name; }
  int threads() const override { return threads_; }

  std::unique_ptr<const PreparedPlan> Prepare(const Plan& plan,
                                              Arrival arrival) const override {
    if (plan.slices() == 0) {
      return std::make_unique<EmptyPlan>(plan, set_);
    }
    return std::make_unique<CpuPlan>(
        plan, arrival, cpu::Choose(plan, arrival, threads_, task_), set_,
        arenas_);
  }

 private:
  const int threads_;
  const InstructionSet set_;
  const double task_;
  mutable ArenaPool arenas_;
};

}  // namespace

void cpu::RunSchedule(const Plan& plan, const Schedule& schedule,
                      const InstructionSet& set, const std::byte* tensor,
                      const Outputs& outputs,
                      const Cancellation* cancellation) {
  const PackedValues values(plan, outputs);
  const Outputs unpacked = values.unpacked();
  const ExecutionContext context = {plan,     schedule,     set,
                                    unpacked, cancellation, tensor};
  WithSortKeyEncoder(
      plan, [&]<class Key, bool kFloat>(const SortKeyEncoder<Key, kFloat>&) {
        RunTiles<Key, kFloat>(context, 0, plan.slices());
      });
  if (!IsCancelled(cancellation)) values.Write(schedule.threads, cancellation);
}

std::unique_ptr<Backend> MakeCpuBackend(int threads, const InstructionSet& set,
                                        double task) {
  return std::make_unique<CpuBackend>(threads, set, task);
}

}  // namespace topk
