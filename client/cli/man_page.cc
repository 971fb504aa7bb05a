#include "client/cli/man_page.h"

#include <vector>

#include "client/cli/command_tree.h"
#include "core/base/text.h"

namespace topk::cli {
namespace {

// A text that roff takes as it is.
std::string Roff(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '\\':
        out += "\\e";
        break;
      case '-':
        out += "\\-";
        break;
      case '\'':
        out += "\\(aq";
        break;
      default:
        out += c;
    }
  }
  // A line that begins with a dot is a request.
  return out.starts_with('.') ? "\\&" + out : out;
}

// "\fB--dialect\fR \fIonnx|openvino|directml\fR".
std::string Heading(const CLI::Option& option) {
  std::string text;
  for (const std::string& name : NamesOf(option)) {
    text += StrCat(text.empty() ? "" : ", ", "\\fB", Roff(name), "\\fR");
  }
  if (option.get_positional()) {
    text += StrCat("\\fI", Roff(option.get_name(true)), "\\fR");
  }
  if (!TakesValue(option) || option.get_positional()) return text;
  std::string values;
  for (const std::string& choice : ChoicesOf(option)) {
    // A long list may break after each.
    values += StrCat(values.empty() ? "" : "|\\:", Roff(choice));
  }
  return StrCat(text, " \\fI", values.empty() ? Roff(ValueOf(option)) : values,
                "\\fR");
}

std::string Entry(const CLI::Option& option) {
  std::string text = StrCat(".TP\n", Heading(option), "\n",
                            Roff(option.get_description()), ".\n");
  if (option.get_required()) text += "Required.\n";
  if (!option.get_default_str().empty()) {
    text += StrCat("Default: ", Roff(option.get_default_str()), ".\n");
  }
  if (!option.get_envname().empty()) {
    text += StrCat("Variable: \\fB", Roff(option.get_envname()), "\\fR.\n");
  }
  return text;
}

std::string Entries(const CLI::App& command) {
  std::string text;
  for (const CLI::Option* option : PositionalsOf(command)) {
    text += Entry(*option);
  }
  for (const CLI::Option* option : FlagsOf(command)) text += Entry(*option);
  return text;
}

}  // namespace

std::string ManPage(const CLI::App& app, std::string_view version) {
  std::string synopsis;
  std::string commands;
  for (const CLI::App* command : CommandsOf(app)) {
    std::string usage = StrCat("\\fBtopk ", Roff(command->get_name()), "\\fR");
    for (const CLI::Option* positional : PositionalsOf(*command)) {
      usage += StrCat(" \\fI", Roff(positional->get_name(true)), "\\fR");
    }
    usage += " [\\fIoptions\\fR]";
    synopsis += StrCat(synopsis.empty() ? "" : ".br\n", usage, "\n");
    commands += StrCat(".SS ", usage, "\n", Roff(command->get_description()),
                       ".\n", Entries(*command));
  }
  return StrCat(".TH TOPK 1 \"\" \"topk ", Roff(version),
                "\" \"User Commands\"\n.SH NAME\ntopk \\- ",
                Roff(app.get_description()), "\n.SH SYNOPSIS\n", synopsis,
                ".SH DESCRIPTION\n", Roff(app.get_footer()), "\n.SH OPTIONS\n",
                Entries(app), ".SH COMMANDS\n", commands);
}

}  // namespace topk::cli
