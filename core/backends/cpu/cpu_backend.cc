// The CPU backend: chooses the algorithm for a plan, and whether to run it on
// the calling thread or in parallel on oneTBB's threads.
//
// Results do not depend on how the work is split, because ties are resolved by
// index (selection.h).
//
// Tests: conformance/, unit/long_slices_test.cc.
#include "core/backends/cpu/cpu_backend.h"

#include <optional>
#include <vector>

#include "core/backends/cpu/blocks.h"
#include "core/backends/cpu/cost.h"
#include "core/backends/cpu/element_fold.h"
#include "core/backends/cpu/execution_context.h"
#include "core/backends/cpu/run_tiles.h"
#include "core/backends/cpu/unpacked.h"
#include "core/base/deferred_free.h"
#include "core/base/with_sort_key_encoder.h"

namespace topk {
namespace {

using cpu::InstructionSet;
using cpu::kName;
using cpu::Resources;
using cpu::Schedule;

// Concatenates the chunks of a tensor, and then runs the plan on the tensor.
class Concatenation final : public Fold {
 public:
  Concatenation(const Plan& plan, const PreparedPlan& prepared,
                const Outputs& outputs, const Cancellation* cancellation)
      : Fold(plan),
        prepared_(prepared),
        outputs_(outputs),
        cancellation_(cancellation) {
    whole_.reserve(static_cast<size_t>(plan.input.bytes));
  }

  Execution Finish() override {
    if (IsCancelled(cancellation_)) return {};  // bytes may be missing
    const std::span<const std::byte> whole = whole_;
    return prepared_.Run(std::span(&whole, 1), outputs_, cancellation_);
  }

 private:
  void Take(std::span<const std::byte> chunk) override {
    constexpr int64_t kBlock = int64_t{256} << 10;  // 0.2 ms for new pages
    cpu::ForEachBlock(0, static_cast<int64_t>(chunk.size()), kBlock,
                      cancellation_, [&](int64_t begin, int64_t end) {
                        whole_.insert(whole_.end(), chunk.begin() + begin,
                                      chunk.begin() + end);
                      });
  }

  const PreparedPlan& prepared_;
  const Outputs outputs_;
  const Cancellation* const cancellation_;
  std::vector<std::byte, DeferredFreeAllocator<std::byte>> whole_;
};

// The plan of a tensor without slices.
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
  Result<std::unique_ptr<Fold>> StartFold(
      const Outputs& outputs, const Cancellation* cancellation) const override {
    return std::unique_ptr<Fold>(
        std::make_unique<Concatenation>(plan_, *this, outputs, cancellation));
  }

 private:
  const Plan& plan_;
  const Execution execution_;
};

class CpuPlan final : public PreparedPlan {
 public:
  CpuPlan(const Plan& plan, Arrival arrival, Resources& resources)
      : plan_(plan),
        arrival_(arrival),
        resources_(resources),
        schedule_(cpu::Choose(plan, resources.threads, resources.task)) {
    // Strided tensors must be concatenated. Contiguous tensors that arrive as
    // streams are never concatenated, because a fold buffers at most one outer
    // index. Other contiguous tensors are concatenated only if that is faster.
    if (arrival != Arrival::kWhole && plan.input.contiguous &&
        (arrival == Arrival::kStream ||
         schedule_.algorithm == cpu::Algorithm::kScan)) {
      fold_.emplace(cpu::ChooseFold(plan, resources.threads, resources.task));
    }
  }

  int64_t EstimateNanoseconds() const override {
    return cpu::EstimateNanoseconds(plan_, schedule_);
  }

  Cost cost() const override {
    if (fold_) return cpu::FoldCost(*fold_);
    Cost cost = cpu::RunCost(plan_, schedule_);
    if (arrival_ != Arrival::kWhole) {
      cost.working_bytes += cost.input_bytes;
      cost.nanoseconds += CopyNanoseconds(cost.input_bytes);
    }
    return cost;
  }

  Size FeedNanoseconds(Size bytes) const override {
    return fold_ ? cpu::FeedNanoseconds(plan_, fold_->positions, bytes)
                 : CopyNanoseconds(bytes);
  }

  // A concatenated tensor is computed when all data has arrived. A fold writes
  // a slice when its last element arrives, and then only packs values smaller
  // than a byte, which takes at most 1 ns per value.
  Size FinishNanoseconds() const override {
    if (!fold_) return cost().nanoseconds;
    const bool packs = InfoOf(plan_.dtype).packed() && plan_.wants_values;
    return FeedNanoseconds(0) + Size(packs ? plan_.output_elements() : 0);
  }

  Execution Run(Chunks chunks, const Outputs& outputs,
                const Cancellation* cancellation) const override {
    if (chunks.size() != 1) {
      const auto fold = *StartFold(outputs, cancellation);
      for (const auto& chunk : chunks) fold->Feed(chunk);
      return fold->Finish();
    }
    resources_.Run(schedule_, [&] {
      cpu::RunSchedule(plan_, schedule_, resources_.set, chunks[0].data(),
                       outputs, cancellation);
    });
    return {kName, NameOf(schedule_), resources_.set.name};
  }

  Result<std::unique_ptr<Fold>> StartFold(
      const Outputs& outputs, const Cancellation* cancellation) const override {
    if (!fold_) {
      return std::unique_ptr<Fold>(
          std::make_unique<Concatenation>(plan_, *this, outputs, cancellation));
    }
    return WithSortKeyEncoder(
        plan_,
        [&]<class Key, bool kFloat>(
            const SortKeyEncoder<Key, kFloat>&) -> std::unique_ptr<Fold> {
          return std::make_unique<cpu::ElementFold<Key, kFloat>>(
              *fold_, outputs, resources_, cancellation);
        });
  }

 private:
  const Plan& plan_;
  const Arrival arrival_;
  Resources& resources_;
  const Schedule schedule_;
  // Set if the chunks are processed one by one instead of being concatenated.
  std::optional<const cpu::FoldPlan> fold_;
};

class CpuBackend final : public Backend {
 public:
  CpuBackend(int threads, const InstructionSet& set, double task)
      : resources_{threads, set, task, cpu::ArenaPool(threads)} {}

  std::string_view name() const override { return kName; }
  std::string_view instruction_set() const override {
    return resources_.set.name;
  }
  int threads() const override { return resources_.threads; }

  std::unique_ptr<const PreparedPlan> Prepare(const Plan& plan,
                                              Arrival arrival) const override {
    if (plan.slices() == 0) {
      return std::make_unique<EmptyPlan>(plan, resources_.set);
    }
    return std::make_unique<CpuPlan>(plan, arrival, resources_);
  }

 private:
  mutable Resources resources_;
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
