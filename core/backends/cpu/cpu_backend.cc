// The CPU backend: chooses an algorithm, cuts a tensor into tasks for oneTBB,
// and hands each to a runner of rows or of columns.
//
// Why no cut can be seen in the answer: the order is total (selection.h).
//
// Tests: conformance/, exhaustive/, unit/cuts_test.cc.
#include "core/backends/cpu/cpu_backend.h"

#include <tbb/task_arena.h>

#include "core/backends/cpu/chooser.h"
#include "core/backends/cpu/columns.h"
#include "core/backends/cpu/cpu_fold.h"
#include "core/backends/cpu/key_maps.h"
#include "core/backends/cpu/rows.h"

namespace topk {
namespace {

using cpu::Algorithm;
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

  Execution Run(const Plan& plan, std::span<const std::byte> tensor,
                const Outputs& outputs) const override {
    const Choice choice = cpu::Choose(plan, threads_, task_);
    const auto run = [&] {
      cpu::WithKeyMap(
          plan, [&]<class Key, bool kFloat>(const KeyMap<Key, kFloat>& map) {
            RunChoice<Key, kFloat>({plan, choice, set_.kernels<Key, kFloat>(),
                                    map, tensor.data(), outputs});
          });
    };
    // Entering the arena is a hand-over too: a small tensor stays here.
    if (choice.inline_here) {
      run();
    } else {
      arena_.execute(run);
    }
    return {name(), NameOf(choice), set_.name};
  }

  std::unique_ptr<Fold> Start(const Plan& plan,
                              const Outputs& outputs) const override {
    return cpu::MakeFold(plan, outputs, set_,
                         cpu::SortPieces(plan.k, threads_, task_), arena_);
  }

 private:
  template <class Key, bool kFloat>
  static void RunChoice(const cpu::Run<Key, kFloat>& run) {
    const Plan& plan = run.plan;
    const Choice& choice = run.choice;
    const int64_t tiles = (plan.inner + choice.tile - 1) / choice.tile;
    switch (choice.algorithm) {
      case Algorithm::kNothing:
        return;
      case Algorithm::kColumns:
      case Algorithm::kScanColumns:
        cpu::ForEachRange(plan.outer * tiles, choice.grain,
                          [&](int64_t begin, int64_t end) {
                            cpu::ColumnRunner<Key, kFloat>(run).Do(begin, end);
                          });
        return;
      default:
        cpu::ForEachRange(plan.slices(), choice.grain,
                          [&](int64_t begin, int64_t end) {
                            cpu::RowRunner<Key, kFloat>(run).Do(begin, end);
                          });
    }
  }

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
