// The one table of settings.
#pragma once

#include <CLI/CLI.hpp>
#include <cctype>
#include <functional>
#include <string>
#include <utility>

namespace topk {

/// Makes each row of the table a flag --like-this, a variable
/// TOPKD_LIKE_THIS of the environment and a key of the config file.
class ConfigTable {
 public:
  explicit ConfigTable(CLI::App& app) : app_(app) {}

  /// Rows from now on stand under this heading of --help.
  void Heading(std::string heading) { heading_ = std::move(heading); }

  /// A value, or several if it is a vector.
  template <class Value>
  CLI::Option* Row(const std::string& name, Value& value,
                   const std::string& help) {
    return Finish(
        name, app_.add_option("--" + name, value, help)->capture_default_str());
  }
  /// A value that is set by a function.
  CLI::Option* Row(const std::string& name,
                   const std::function<void(const std::string&)>& set,
                   const std::string& help) {
    return Finish(
        name, app_.add_option_function<std::string>("--" + name, set, help));
  }
  /// Adds a flag without a value: `value` is true if the flag is given.
  CLI::Option* Switch(const std::string& name, bool& value,
                      const std::string& help) {
    return Finish(name, app_.add_flag("--" + name, value, help));
  }

 private:
  CLI::Option* Finish(const std::string& name, CLI::Option* option) const {
    std::string variable = "TOPKD_" + name;
    for (char& c : variable) {
      c = c == '-' ? '_' : static_cast<char>(std::toupper(c));
    }
    return option->envname(variable)->group(heading_);
  }

  CLI::App& app_;
  std::string heading_;
};

}  // namespace topk
