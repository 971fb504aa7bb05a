#include "client/cli/completion.h"

#include <vector>

#include "client/cli/command_tree.h"
#include "core/base/text.h"

namespace topk::cli {
namespace {

std::string Joined(const std::vector<std::string>& words,
                   std::string_view between) {
  std::string text;
  for (const std::string& word : words) {
    text += StrCat(text.empty() ? "" : between, word);
  }
  return text;
}

std::vector<std::string> AllNames(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* flag : FlagsOf(command)) {
    for (const std::string& name : NamesOf(*flag)) names.push_back(name);
  }
  return names;
}

// A text with a backslash before each of some characters.
std::string Escaped(std::string_view text, std::string_view characters) {
  std::string out;
  for (const char c : text) {
    if (characters.find(c) != std::string_view::npos) out += '\\';
    out += c;
  }
  return out;
}

// --- bash: compgen by the word before ---------------------------------------

// Returns the shell code that completes an option's values.
std::string BashValues(const CLI::Option& option) {
  const std::vector<std::string> choices = ChoicesOf(option);
  if (!choices.empty()) return StrCat("-W \"", Joined(choices, " "), "\"");
  const std::string value = ValueOf(option);
  return value == kFile ? "-f" : value == kFolder ? "-d" : "";
}

std::string BashCommand(const CLI::App& command) {
  std::string text =
      StrCat("    ", command.get_name(), ")\n      case $previous in\n");
  for (const CLI::Option* flag : FlagsOf(command)) {
    if (!TakesValue(*flag)) continue;
    text += StrCat("        ", Joined(NamesOf(*flag), "|"), ") offer=(",
                   BashValues(*flag), ") ;;\n");
  }
  text += "        *)\n";
  for (const CLI::Option* positional : PositionalsOf(command)) {
    text += StrCat("          offer=(", BashValues(*positional), ")\n");
  }
  return StrCat(text, "          [[ $current == -* ]] && offer=(-W \"",
                Joined(AllNames(command), " "), "\") ;;\n      esac ;;\n");
}

std::string Bash(const CLI::App& app) {
  std::vector<std::string> words = AllNames(app);
  std::string cases;
  for (const CLI::App* command : CommandsOf(app)) {
    words.push_back(command->get_name());
    cases += BashCommand(*command);
  }
  return StrCat(
      "# bash completion for topk; source it, or keep it in\n"
      "# /usr/share/bash-completion/completions/topk\n"
      "_topk() {\n"
      "  local current=${COMP_WORDS[COMP_CWORD]} offer=()\n"
      "  local previous=${COMP_WORDS[COMP_CWORD - 1]}\n"
      "  # --flag=value is three words.\n"
      "  if [[ $current == = ]]; then\n"
      "    current=\n"
      "  elif [[ $previous == = ]]; then\n"
      "    previous=${COMP_WORDS[COMP_CWORD - 2]}\n"
      "  fi\n"
      "  if [[ $COMP_CWORD -eq 1 ]]; then\n"
      "    offer=(-W \"",
      Joined(words, " "),
      "\")\n"
      "  else case ${COMP_WORDS[1]} in\n",
      cases,
      "  esac fi\n"
      "  COMPREPLY=()\n"
      "  if [[ ${#offer[@]} -gt 0 ]]; then\n"
      "    mapfile -t COMPREPLY < <(compgen \"${offer[@]}\" -- \"$current\")\n"
      "  fi\n"
      "}\n"
      "complete -o filenames -F _topk topk\n");
}

// --- zsh: a specification for _arguments ------------------------------------

// A word in single quotes.
std::string Quoted(std::string_view text) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'') {
      out += "'\\''";
    } else {
      out += c;
    }
  }
  return out + "'";
}

// ":what it is:what offers it".
std::string ZshValues(const CLI::Option& option) {
  const std::string value = ValueOf(option);
  const std::vector<std::string> choices = ChoicesOf(option);
  return StrCat(":", value, ":",
                !choices.empty()   ? StrCat("(", Joined(choices, " "), ")")
                : value == kFile   ? "_files"
                : value == kFolder ? "_files -/"
                                   : " ");
}

// The arguments of _arguments for all flags.
std::string ZshFlags(const CLI::App& command, std::string_view indent) {
  std::string text;
  for (const CLI::Option* flag : FlagsOf(command)) {
    const std::vector<std::string> names = NamesOf(*flag);
    for (const std::string& name : names) {
      text += StrCat(
          " \\\n", indent,
          Quoted(StrCat("(", Joined(names, " "), ")", name, "[",
                        Escaped(Briefly(flag->get_description()), "[]:\\"), "]",
                        TakesValue(*flag) ? ZshValues(*flag) : "")));
    }
  }
  return text;
}

std::string Zsh(const CLI::App& app) {
  std::string commands;
  std::string cases;
  for (const CLI::App* command : CommandsOf(app)) {
    commands += StrCat(
        "    ",
        Quoted(StrCat(command->get_name(), ":",
                      Escaped(Briefly(command->get_description()), ":\\"))),
        "\n");
    cases += StrCat("    ", command->get_name(), ")\n      _arguments",
                    ZshFlags(*command, "        "));
    for (const CLI::Option* positional : PositionalsOf(*command)) {
      cases += StrCat(" \\\n        ", Quoted(ZshValues(*positional)));
    }
    cases += " ;;\n";
  }
  return StrCat(
      "#compdef topk\n"
      "# zsh completion for topk; source it after compinit, or keep it as\n"
      "# _topk in a folder of $fpath\n"
      "_topk() {\n"
      "  local curcontext=$curcontext state line\n"
      "  local -a commands=(\n",
      commands, "  )\n  _arguments -C", ZshFlags(app, "    "),
      " \\\n    '1:command:->command' '*::argument:->argument'\n"
      "  case $state in\n"
      "    command) _describe command commands; return ;;\n"
      "    argument) ;;\n"
      "    *) return ;;\n"
      "  esac\n"
      "  case $line[1] in\n",
      cases,
      "  esac\n"
      "}\n"
      "if [[ $funcstack[1] == _topk ]]; then _topk \"$@\"\n"
      "else compdef _topk topk; fi\n");
}

// --- fish: a line for each flag ---------------------------------------------

std::string FishValues(const CLI::Option& option) {
  const std::vector<std::string> choices = ChoicesOf(option);
  if (!choices.empty()) return StrCat(" -x -a '", Joined(choices, " "), "'");
  const std::string value = ValueOf(option);
  return value == kFile     ? " -r -F"
         : value == kFolder ? " -x -a '(__fish_complete_directories)'"
                            : " -x";
}

// The flags of a command, offered where `condition` holds.
std::string FishFlags(const CLI::App& command, const std::string& condition) {
  std::string text;
  for (const CLI::Option* flag : FlagsOf(command)) {
    text += StrCat("complete -c topk -n '", condition, "'");
    for (const std::string& name : flag->get_snames()) {
      text += StrCat(" -s ", name);
    }
    for (const std::string& name : flag->get_lnames()) {
      text += StrCat(" -l ", name);
    }
    text += StrCat(TakesValue(*flag) ? FishValues(*flag) : "", " -d '",
                   Escaped(Briefly(flag->get_description()), "'\\"), "'\n");
  }
  return text;
}

std::string Fish(const CLI::App& app) {
  std::string text =
      "# fish completion for topk; source it, or keep it in\n"
      "# ~/.config/fish/completions/topk.fish\n"
      "complete -c topk -f\n";
  text += FishFlags(app, "__fish_use_subcommand");
  for (const CLI::App* command : CommandsOf(app)) {
    const std::string& name = command->get_name();
    text +=
        StrCat("complete -c topk -n __fish_use_subcommand -a ", name, " -d '",
               Escaped(Briefly(command->get_description()), "'\\"), "'\n");
    const std::string seen = StrCat("__fish_seen_subcommand_from ", name);
    text += FishFlags(*command, seen);
    for (const CLI::Option* positional : PositionalsOf(*command)) {
      text += StrCat("complete -c topk -n '", seen, "'",
                     FishValues(*positional), "\n");
    }
  }
  return text;
}

constexpr CompletingShell kShells[] = {
    {"bash", Bash}, {"zsh", Zsh}, {"fish", Fish}};

}  // namespace

std::span<const CompletingShell> CompletingShells() { return kShells; }

}  // namespace topk::cli
