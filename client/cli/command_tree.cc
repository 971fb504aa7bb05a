#include "client/cli/command_tree.h"

#include <algorithm>
#include <sstream>

namespace topk::cli {
namespace {

std::vector<const CLI::Option*> Options(const CLI::App& command,
                                        bool positional) {
  return command.get_options([positional](const CLI::Option* option) {
    return option->get_positional() == positional;
  });
}

}  // namespace

std::vector<const CLI::App*> CommandsOf(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

std::vector<const CLI::Option*> FlagsOf(const CLI::App& command) {
  return Options(command, false);
}

std::vector<const CLI::Option*> PositionalsOf(const CLI::App& command) {
  return Options(command, true);
}

std::vector<std::string> NamesOf(const CLI::Option& option) {
  std::vector<std::string> names;
  for (const std::string& name : option.get_snames()) {
    names.push_back("-" + name);
  }
  for (const std::string& name : option.get_lnames()) {
    names.push_back("--" + name);
  }
  return names;
}

bool TakesValue(const CLI::Option& option) {
  return option.get_items_expected_max() > 0;
}

std::string ValueOf(const CLI::Option& option) {
  // CLI11 appends what its checks want: "TEXT:{a,b}", "INT:INT in [1 - 5]".
  const std::string type = option.get_type_name();
  return type.substr(0, type.find(':'));
}

std::vector<std::string> ChoicesOf(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const size_t begin = type.find(":{");
  std::vector<std::string> choices;
  if (begin == std::string::npos || type.back() != '}') return choices;
  std::istringstream list(type.substr(begin + 2, type.size() - begin - 3));
  for (std::string choice; std::getline(list, choice, ',');) {
    choices.push_back(choice);
  }
  return choices;
}

std::string Briefly(const std::string& description) {
  return description.substr(
      0, std::min(description.find("; "), description.find(". ")));
}

}  // namespace topk::cli
