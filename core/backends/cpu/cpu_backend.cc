// The CPU backend: chooses the algorithm for a plan, and whether to run it on
// the calling thread or in parallel on oneTBB's threads.
//
// Results do not depend on how the work is split, because the order is total
// (selection.h).
//
// Tests: conformance/, unit/long_slices_test.cc.
#include "core/backends/cpu/cpu_backend.h"

#include <memory>

#include "core/backends/cpu/chooser.h"
#include "core/backends/cpu/cost.h"
#include "core/backends/cpu/cpu_fold.h"
#include "core/backends/cpu/run.h"
#include "core/backends/cpu/run_schedule.h"

namespace topk {
namespace {

using cpu::InstructionSet;
using cpu::Resources;
using cpu::Schedule;

constexpr std::string_view kName = "cpu";

class CpuPlan final : public PreparedPlan {
 public:
  CpuPlan(const Plan& plan, Resources& resources)
      : plan_(plan),
        resources_(resources),
        schedule_(cpu::Choose(plan, resources.threads, resources.task)) {}

  std::string_view kernel() const override { return NameOf(schedule_); }

  int64_t EstimateNanoseconds() const override {
    return cpu::EstimateNanoseconds(plan_, schedule_, resources_.threads);
  }

  Cost RunCost() const override {
    return cpu::RunCost(plan_, schedule_, resources_.threads);
  }

  Cost FoldCost() const override {
    return cpu::FoldCost(plan_, resources_.threads, resources_.task);
  }

  bool FoldsWell() const override {
    return plan_.input.packed && schedule_.algorithm == cpu::Algorithm::kScan;
  }

  Size FeedNanoseconds(Size bytes) const override {
    return cpu::FeedNanoseconds(plan_, bytes);
  }

  Execution Run(std::span<const std::byte> tensor, const Outputs& outputs,
                const Cancellation* cancellation) const override {
    const auto run = [&] {
      cpu::RunSchedule(plan_, schedule_, resources_.set, tensor.data(), outputs,
                       cancellation);
    };
    schedule_.run_inline ? run() : resources_.arenas.Run(run);
    return {kName, NameOf(schedule_), resources_.set.name};
  }

  Result<std::unique_ptr<Fold>> StartFold(
      const Outputs& outputs, const Cancellation* cancellation) const override {
    return cpu::MakeFold(plan_, outputs, resources_, cancellation);
  }

 private:
  const Plan& plan_;
  Resources& resources_;
  const Schedule schedule_;
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

  Result<std::unique_ptr<const PreparedPlan>> Prepare(
      const Plan& plan) const override {
    return std::unique_ptr<const PreparedPlan>(
        std::make_unique<CpuPlan>(plan, resources_));
  }

 private:
  mutable Resources resources_;
};

}  // namespace

std::unique_ptr<Backend> MakeCpuBackend(int threads, const InstructionSet& set,
                                        double task) {
  return std::make_unique<CpuBackend>(threads, set, task);
}

}  // namespace topk
