#include "core/common/usage_text.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "core/base/number.h"
#include "core/base/text.h"

namespace topk {
namespace {

// Matches `text` against `pattern`. Returns the shortest match of each "*", or
// nullopt if the text does not match.
std::optional<std::vector<std::string>> Match(std::string_view pattern,
                                              std::string_view text) {
  std::vector<std::string> found;
  for (size_t star = 0; star != pattern.npos;) {
    star = pattern.find('*');
    const std::string_view literal = pattern.substr(0, star);
    if (!text.starts_with(literal)) return std::nullopt;
    text.remove_prefix(literal.size());
    if (star == pattern.npos) break;
    pattern.remove_prefix(star + 1);
    const std::string_view next = pattern.substr(0, pattern.find('*'));
    // After the last "*", the rest of the pattern must match the text's end.
    const size_t end = next.size() == pattern.size()
                           ? text.size() - std::min(next.size(), text.size())
                           : text.find(next);
    if (end == text.npos) return std::nullopt;
    found.emplace_back(text.substr(0, end));
    text.remove_prefix(end);
  }
  if (!text.empty()) return std::nullopt;
  return found;
}

// Rewrites "[1 - 5]" as "1 to 5".
std::string RangeText(std::string_view range) {
  for (const std::string_view pattern : {"[* - *]", "[* to *]", "* to *"}) {
    if (const auto ends = Match(pattern, range)) {
      return StrCat((*ends)[0], " to ", (*ends)[1]);
    }
  }
  return std::string(range);
}

// Rewrites "{a,b}" as "a, b".
std::string SetText(std::string_view set) {
  std::string text;
  for (const char c : set) text += c == ',' ? ", " : std::string(1, c);
  return text;
}

std::string Rewrite(const std::string& message, const FindSource& find) {
  std::vector<std::string> found;
  const auto matches = [&](std::string_view pattern) {
    auto texts = Match(pattern, message);
    if (texts) found = *std::move(texts);
    return texts.has_value();
  };
  const auto source = [&] { return find(found[0]); };
  const auto value = [&](const std::string& rule) {
    return StrCat(source(), ": ", Quote(found[1]), " ", rule);
  };
  if (matches("Could not convert: * = *")) {
    return value("is not true or false");
  }
  if (matches("*: Value * not in range *")) {
    return value("is not a number in the range of " + RangeText(found[2]));
  }
  if (matches("*: * not in {*}")) {
    return value("is not one of " + SetText(found[2]));
  }
  if (matches("*: At Most 1 required *")) {
    return source() + ": more than one value";
  }
  if (matches("*: * required * missing")) {
    return source() + ": the value is missing";
  }
  if (matches("The following argument was not expected: *") ||
      matches("The following arguments were not expected: *")) {
    return "unexpected argument " + Quote(found[0]);
  }
  if (matches("A subcommand is required")) return "a command is required";
  if (message.starts_with("--") && matches("*: *")) {
    return StrCat(source(), ": ", found[1]);
  }
  return message;
}

}  // namespace

std::string UsageText(const std::string& message, const FindSource& find) {
  return EscapeControls(Rewrite(message, find));
}

std::string CheckWhole(std::string& text, int64_t least, int64_t most) {
  const std::optional<int64_t> number = ParseNumber<int64_t>(text);
  if (!number || *number < least || *number > most) {
    return StrCat(Quote(text), " is not a whole number in the range of ", least,
                  " to ", most);
  }
  text = StrCat(*number);
  return "";
}

bool IsArgument(int argc, const char* const* argv, std::string_view flag) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word.substr(0, word.find('=')) == flag) return true;
  }
  return false;
}

}  // namespace topk
