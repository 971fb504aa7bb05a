#include "client/cli/help.h"

#include <string>

#include "client/cli/terminal.h"

namespace topk::cli {
namespace {

constexpr size_t kIndent = 30;  // CLI11's own

class Fitting final : public CLI::Formatter {
 public:
  std::string make_option(const CLI::Option* option,
                          bool is_positional) const override {
    return Entry(
        make_option_name(option, is_positional) + make_option_opts(option),
        make_option_desc(option));
  }
  std::string make_subcommand(const CLI::App* command) const override {
    return Entry(command->get_name(), command->get_description());
  }
  std::string make_description(const CLI::App* app) const override {
    return Wrapped(app->get_description(), columns_, 0) + "\n";
  }
  std::string make_footer(const CLI::App* app) const override {
    return Wrapped(app->get_footer(), columns_, 0) + "\n";
  }

 private:
  // A long list of values has a place to break after each.
  std::string Breakable(const std::string& head) const {
    if (head.size() + 2 <= static_cast<size_t>(columns_)) return head;
    std::string text;
    for (const char c : head) {
      text += c;
      if (c == ',') text += ' ';
    }
    return text;
  }

  std::string Entry(const std::string& head,
                    const std::string& description) const {
    std::string text = "  " + Wrapped(Breakable(head), columns_, 2);
    const size_t width = text.size() - (text.rfind('\n') + 1);
    if (width >= kIndent || text.find('\n') != std::string::npos) {
      text += "\n" + std::string(kIndent, ' ');
    } else {
      text.append(kIndent - width, ' ');
    }
    return text + Wrapped(description, columns_, int{kIndent}) + "\n";
  }

  const int columns_ = TerminalColumns() > 0 ? TerminalColumns()
                                             : kDefaultColumns;
};

}  // namespace

std::shared_ptr<CLI::FormatterBase> HelpFormatter() {
  return std::make_shared<Fitting>();
}

}  // namespace topk::cli
