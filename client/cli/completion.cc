#include "client/cli/completion.h"

#include "core/base/text.h"

namespace topk::cli {
namespace {

std::string FlagsOf(const CLI::App& app) {
  std::string flags;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) {
      flags += Cat(flags.empty() ? "" : " ", "--", name);
    }
  }
  return flags;
}

}  // namespace

std::string BashCompletion(const CLI::App& app) {
  std::string commands;
  std::string cases;
  for (const CLI::App* command :
       app.get_subcommands([](const CLI::App*) { return true; })) {
    commands += Cat(commands.empty() ? "" : " ", command->get_name());
    cases += Cat("    ", command->get_name(), ") words=\"", FlagsOf(*command),
                 "\" ;;\n");
  }
  return Cat(
      "# bash completion for topk; source it, or keep it in\n"
      "# /usr/share/bash-completion/completions/topk\n"
      "_topk() {\n"
      "  local current=${COMP_WORDS[COMP_CWORD]} words\n"
      "  if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
      "    words=\"",
      commands, " ", FlagsOf(app),
      "\"\n"
      "  else case ${COMP_WORDS[1]} in\n",
      cases,
      "    *) words= ;;\n"
      "  esac fi\n"
      "  if [[ $current == -* || $COMP_CWORD -eq 1 ]]; then\n"
      "    mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$current\")\n"
      "  else\n"
      "    mapfile -t COMPREPLY < <(compgen -f -- \"$current\")\n"
      "  fi\n"
      "}\n"
      "complete -o filenames -F _topk topk\n");
}

}  // namespace topk::cli
