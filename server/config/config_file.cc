#include "server/config/config_file.h"

#define TOML_EXCEPTIONS 0
#include <toml++/toml.h>

#include <algorithm>
#include <exception>
#include <sstream>
#include <string_view>

#include "core/base/number.h"
#include "core/base/text.h"
#include "core/security/small_file.h"

namespace topk {
namespace {

// Limits the recursion of toml++: each dot in a key may nest another table.
constexpr int kMaxDots = 3'000;

[[noreturn]] void Fail(const std::string& path, toml::source_position at,
                       const std::string& fault) {
  throw CLI::ConfigError(
      EscapeControls(StrCat(path, ":", at.line, ":", at.column, ": ", fault)));
}

bool IsSwitch(const CLI::Option& option) {
  return option.get_expected_min() == 0;
}

bool IsList(const CLI::Option& option) { return option.get_expected_max() > 1; }

bool IsText(const CLI::Option& option) {
  return option.get_type_name().starts_with("TEXT");
}

// Appends the text of `node`. Returns "", or an error if the type is wrong.
std::string Append(const CLI::Option& option, const toml::node& node,
                   std::vector<std::string>& texts) {
  if (IsSwitch(option)) {
    if (!node.is_boolean()) return "is not true or false";
    texts.emplace_back(node.ref<bool>() ? "true" : "false");
  } else if (const auto* text = node.as_string()) {
    texts.push_back(text->get());
  } else if (IsText(option)) {
    return "is not a string";
  } else if (const auto* integer = node.as_integer()) {
    texts.push_back(StrCat(integer->get()));
  } else if (const auto* number = node.as_floating_point()) {
    texts.push_back(NumberText(number->get()));
  } else {
    return "is not a number, nor a string such as \"64KiB\"";
  }
  return "";
}

// Adds the value of one key to `values`. Throws CLI::ConfigError.
void ReadEntry(const CLI::App& app, const std::string& path,
               const toml::key& key, const toml::node& node,
               FileValues& values) {
  const std::string name(key.str());
  const CLI::Option* option = app.get_option_no_throw("--" + name);
  if (option == nullptr || !option->get_configurable()) {
    Fail(path, key.source().begin, "unknown key " + Quote(name));
  }
  const toml::source_position at = node.source().begin;
  FileValue& value = values[option];
  value.source = StrCat(path, ":", at.line, ":", at.column, ": ", name);
  const auto append = [&](const toml::node& element) {
    const std::string rule = Append(*option, element, value.texts);
    if (rule.empty()) return;
    std::ostringstream written;
    if (element.is_value()) written << toml::node_view(element);
    Fail(path, element.source().begin,
         StrCat(name, ": ",
                element.is_value()   ? Quote(written.str())
                : element.is_array() ? "an array"
                                     : "a table",
                " ", rule));
  };
  const toml::array* array = IsList(*option) ? node.as_array() : nullptr;
  if (array == nullptr) {
    append(node);
  } else if (array->empty()) {
    Fail(path, at, name + ": the array is empty");
  } else {
    for (const toml::node& element : *array) append(element);
  }
}

}  // namespace

void ReadConfigFile(const CLI::App& app, const std::string& path,
                    FileValues& values) {
  const Result<std::string> text = ReadSmallFile({"--config", path});
  if (!text.ok()) throw CLI::FileError(text.status().message);
  if (std::ranges::count(*text, '.') > kMaxDots) {
    throw CLI::FileError(StrCat("--config: ", EscapeControls(path),
                                " has more than ", kMaxDots, " dots"));
  }
  const toml::parse_result parsed = toml::parse(std::string_view(*text));
  if (!parsed) {
    Fail(path, parsed.error().source().begin,
         std::string(parsed.error().description()));
  }
  std::exception_ptr first;
  for (const auto& [key, node] : parsed.table()) {
    try {
      ReadEntry(app, path, key, node, values);
    } catch (const CLI::ConfigError&) {
      if (first == nullptr) first = std::current_exception();
    }
  }
  if (first != nullptr) std::rethrow_exception(first);
}

std::string WriteConfigFile(const CLI::App& app) {
  std::ostringstream lines;
  for (const CLI::Option* option : app.get_options()) {
    if (!option->get_configurable()) continue;
    const std::string& name = option->get_single_name();
    if (IsSwitch(*option)) {
      const bool on = option->count() > 0 && option->as<bool>();
      lines << name << " = " << (on ? "true" : "false") << "\n";
      continue;
    }
    std::vector<std::string> texts = option->reduced_results();
    if (texts.empty()) texts.push_back(option->get_default_str());
    toml::array strings;
    for (const std::string& text : texts) {
      if (EscapeControls(text) != text) {
        throw CLI::ValidationError(
            option->get_name(),
            Quote(text) + " has control characters or is not UTF-8");
      }
      strings.push_back(text);
    }
    if (IsList(*option) && texts == std::vector<std::string>{""}) continue;
    lines << name << " = ";
    if (IsList(*option)) {
      lines << strings;
    } else if (IsText(*option)) {
      lines << toml::node_view(strings[0]);
    } else {
      lines << texts[0];
    }
    lines << "\n";
  }
  return lines.str();
}

}  // namespace topk
