// TOPK_INSTRUCTION_SET selects the instruction set that runs. cli_test.py
// forces each one.
#include "core/backends/cpu/instruction_set.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "core/backends/cpu/cpu_backend.h"
#include "core/backends/registry.h"

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

TEST(InstructionSet, EachHasItsOwnKernels) {
  const auto sets = cpu::SupportedInstructionSets();
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
