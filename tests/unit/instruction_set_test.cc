// TOPK_INSTRUCTION_SET selects the instruction set that runs.
#include "core/backends/cpu/instruction_set.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "core/backends/cpu/cpu_backend.h"
#include "core/backends/registry.h"
#include "tests/support/compute.h"
#include "tests/unit/run_plan.h"

namespace topk::testing {
namespace {

// Sets the environment variable for a scope.
class Forced {
 public:
  explicit Forced(const std::string& name) {
    setenv(kInstructionSetVariable, name.c_str(), 1);
  }
  ~Forced() {
    if (had_) {
      setenv(kInstructionSetVariable, before_.c_str(), 1);
    } else {
      unsetenv(kInstructionSetVariable);
    }
  }

 private:
  const bool had_ = std::getenv(kInstructionSetVariable) != nullptr;
  const std::string before_ = had_ ? std::getenv(kInstructionSetVariable) : "";
};

TEST(InstructionSet, EverySupportedOneCanBeForced) {
  const auto sets = cpu::SupportedInstructionSets();
  ASSERT_FALSE(sets.empty());
  EXPECT_EQ(sets.back().name, "scalar");
  const Plan plan = ValidPlan(Ask(DType::kF32, {3, 100}, 1, 4));
  const std::string tensor = SomeData(DType::kF32, 300, 1);
  for (const cpu::InstructionSet& set : sets) {
    const Forced forced{std::string(set.name)};
    ASSERT_TRUE(CheckEnvironment().ok());
    const auto backends = MakeBackends(1);
    EXPECT_EQ(backends.back()->instruction_set(), set.name);
    Answer answer;
    answer.values.resize(static_cast<size_t>(plan.values.bytes));
    answer.indices.resize(static_cast<size_t>(plan.indices.bytes));
    const Outputs outputs = {std::as_writable_bytes(std::span(answer.values)),
                             std::as_writable_bytes(std::span(answer.indices))};
    const auto data = std::as_bytes(std::span(tensor));
    const auto prepared = *backends.back()->Prepare(plan);
    EXPECT_EQ(RunWhole(*prepared, data, outputs).instruction_set, set.name);
    const auto fold = *prepared->StartFold(outputs, nullptr);
    fold->Feed(data);
    EXPECT_EQ(fold->Finish().instruction_set, set.name);
  }
}

TEST(InstructionSet, EachHasItsOwnKernels) {
  const auto sets = cpu::CompiledInstructionSets();
  for (size_t i = 1; i < sets.size(); ++i) {
    EXPECT_NE((sets[i].kernels<uint32_t, true>().scan),
              (sets[0].kernels<uint32_t, true>().scan));
  }
}

TEST(InstructionSet, ErrorListsTheKnownOnes) {
  for (const char* name : {"mmx", "AVX2", " ", "avx512f"}) {
    const Forced forced(name);
    const Status status = CheckEnvironment();
    EXPECT_EQ(status.code, Code::kInvalidArgument) << name;
    EXPECT_EQ(status.field, kInstructionSetVariable);
    for (const cpu::InstructionSet& set : cpu::SupportedInstructionSets()) {
      EXPECT_NE(status.message.find(set.name), std::string::npos);
    }
    EXPECT_NE(status.message.find(name), std::string::npos);
    EXPECT_ANY_THROW(MakeBackends(1));
  }
}

TEST(InstructionSet, DefaultsToTheBest) {
  const Forced forced("");
  EXPECT_EQ(MakeBackends(1).back()->instruction_set(),
            cpu::SupportedInstructionSets().front().name);
}

}  // namespace
}  // namespace topk::testing
