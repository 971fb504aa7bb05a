#include "core/backends/cpu/instruction_set.h"

#include <hwy/targets.h>

#include <string>

#include "core/base/text.h"

namespace topk::cpu {

std::vector<InstructionSet> SupportedInstructionSets() {
  // The last set is the compiler's baseline. The whole program requires it.
  const int64_t baseline = CompiledInstructionSets().back().target;
  const int64_t supported = hwy::SupportedTargets() | baseline;
  std::vector<InstructionSet> sets;
  for (const InstructionSet& set : CompiledInstructionSets()) {
    if ((set.target & supported) != 0) sets.push_back(set);
  }
  return sets;
}

Result<InstructionSet> ChooseInstructionSet(std::string_view name) {
  const std::vector<InstructionSet> supported = SupportedInstructionSets();
  if (name.empty()) return supported.front();
  std::string names;
  for (const InstructionSet& set : supported) {
    if (set.name == name) return set;
    names += StrCat(names.empty() ? "" : ", ", set.name);
  }
  return InvalidArgument(
      "INSTRUCTION_SET", "TOPK_INSTRUCTION_SET",
      StrCat("this machine cannot run the instruction set \"", name,
             "\"; it has ", names));
}

}  // namespace topk::cpu
