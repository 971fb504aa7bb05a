// The CPU backend: chooses how to run a plan, and where: here, or in an arena
// of its own threads.
//
// Why no cut can be seen in the answer: the order is total (selection.h).
//
// Tests: conformance/, exhaustive/, unit/cuts_test.cc.
#include "core/backends/cpu/cpu_backend.h"

#include <tbb/task_arena.h>

#include "core/backends/cpu/chooser.h"
#include "core/backends/cpu/cost.h"
#include "core/backends/cpu/cpu_fold.h"
#include "core/backends/cpu/pieces.h"
#include "core/backends/cpu/run_choice.h"

namespace topk {
namespace {

using cpu::Choice;
using cpu::InstructionSet;

class CpuBackend final : public Backend {
 public:
  CpuBackend(int threads, const InstructionSet& set, double task)
      : threads_(threads), set_(set), task_(task), arena_(threads) {}

  std::string_view name() const override { return "cpu"; }
  std::string_view instruction_set() const override { return set_.name; }
  int threads() const override { return threads_; }

  Status Supports(const Plan&) const override { return {}; }

  std::string_view KernelFor(const Plan& plan) const override {
    return NameOf(cpu::Choose(plan, threads_, task_));
  }

  int64_t EstimateNanoseconds(const Plan& plan) const override {
    return cpu::EstimateNanoseconds(plan, cpu::Choose(plan, threads_, task_),
                                    threads_);
  }

  bool FoldsWell(const Plan& plan) const override {
    return plan.input.packed && cpu::Choose(plan, threads_, task_).algorithm ==
                                    cpu::Algorithm::kScan;
  }

  Cost RunCost(const Plan& plan) const override {
    return cpu::RunCost(plan, cpu::Choose(plan, threads_, task_), threads_);
  }

  Cost FoldCost(const Plan& plan) const override { return cpu::FoldCost(plan); }

  Size FeedNanoseconds(const Plan& plan, Size bytes) const override {
    return cpu::FeedNanoseconds(plan, bytes);
  }

  Execution Run(const Plan& plan, std::span<const std::byte> tensor,
                const Outputs& outputs,
                const Cancellation* cancellation) const override {
    const Choice choice = cpu::Choose(plan, threads_, task_);
    const auto run = [&] {
      cpu::RunChoice(plan, choice, set_, tensor.data(), outputs, cancellation);
    };
    // Entering the arena is a hand-over too: a small tensor stays here.
    if (choice.inline_here) {
      run();
    } else {
      cpu::RunIn(arena_, run);
    }
    return {name(), NameOf(choice), set_.name};
  }

  Result<std::unique_ptr<Fold>> Start(
      const Plan& plan, const Outputs& outputs,
      const Cancellation* cancellation) const override {
    return cpu::MakeFold(plan, outputs, set_,
                         cpu::SortPieces(plan.k, threads_, task_), arena_,
                         cancellation);
  }

 private:
  const int threads_;
  const InstructionSet set_;
  const double task_;
  mutable tbb::task_arena arena_;
};

}  // namespace

std::unique_ptr<Backend> MakeCpuBackend(int threads, const InstructionSet& set,
                                        double task) {
  return std::make_unique<CpuBackend>(threads, set, task);
}

}  // namespace topk
