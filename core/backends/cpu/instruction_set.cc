#include "core/backends/cpu/instruction_set.h"

#include <string>

#include "core/base/text.h"

namespace topk::cpu {

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
