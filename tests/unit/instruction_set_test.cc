// TOPK_INSTRUCTION_SET selects the instruction set that runs. cli_test.py
// forces each one.
#include "core/backends/cpu/instruction_set.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "core/backends/registry.h"

namespace topk::testing {
namespace {

TEST(InstructionSet, EachHasItsOwnKernels) {
  const auto sets = cpu::SupportedInstructionSets();
  for (size_t i = 1; i < sets.size(); ++i) {
    EXPECT_NE((sets[i].kernels<uint32_t, true>().scan),
              (sets[0].kernels<uint32_t, true>().scan));
  }
}

TEST(InstructionSet, AnUnknownOneHasNoBackend) {
  setenv(kInstructionSetVariable, "mmx", 1);
  EXPECT_ANY_THROW(MakeBackends(1));
  unsetenv(kInstructionSetVariable);
}

}  // namespace
}  // namespace topk::testing
