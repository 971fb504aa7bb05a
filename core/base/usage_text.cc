#include "core/base/usage_text.h"

#include <regex>

#include "core/base/text.h"

namespace topk {
namespace {

// The rule that a value breaks if CLI11 cannot convert it.
std::string ConversionRule(const std::string& type) {
  if (type.empty()) return "is not true or false";
  if (type.starts_with("UINT")) {
    return "is not a whole number of at least 0, or is too large";
  }
  if (type.starts_with("INT")) {
    return "is not a whole number, or is out of range";
  }
  return "is not a number, or is out of range";
}

}  // namespace

std::string UsageText(
    const std::string& message,
    const std::function<UsageFlag(const std::string&)>& find) {
  static const std::regex kUnconverted(R"(Could not convert: (\S+) = (.*))");
  static const std::regex kNotInSet(R"((\S+): (.*) not in \{(.*)\})");
  static const std::regex kNotInRange(
      R"((\S+): Value (.*) not in range \[?(\S+) (?:to|-) ([^\s\]]+)\]?)");
  static const std::regex kRepeated(R"((\S+): At Most 1 required .*)");
  static const std::regex kNoValue(R"((\S+): \d+ required .* missing)");
  static const std::regex kUnexpected(
      R"(The following arguments? (?:was|were) not expected: (.*))");
  static const std::regex kNoCommand("A subcommand is required");
  static const std::regex kUnreadable(R"((.*) was not readable \(missing\?\))");
  static const std::regex kOther(R"((--\S+): (.*))");
  static const std::regex kComma(",");
  std::smatch found;
  const auto matches = [&](const std::regex& pattern) {
    return std::regex_match(message, found, pattern);
  };
  const auto value = [&](const std::string& rule) {
    return StrCat(find(found[1]).source, ": ", Quote(found[2].str()), " ",
                  rule);
  };
  if (matches(kUnconverted)) return value(ConversionRule(find(found[1]).type));
  if (matches(kNotInSet)) {
    return value("is not one of " +
                 std::regex_replace(found[3].str(), kComma, ", "));
  }
  if (matches(kNotInRange)) {
    return value(StrCat("is not a number in the range of ", found[3].str(),
                        " to ", found[4].str()));
  }
  if (matches(kRepeated)) {
    return find(found[1]).source + ": more than one value";
  }
  if (matches(kNoValue))
    return find(found[1]).source + ": the value is missing";
  if (matches(kUnexpected)) {
    return "unexpected argument " + Quote(found[1].str());
  }
  if (matches(kNoCommand)) return "a command is required";
  if (matches(kUnreadable)) return "cannot read " + Quote(found[1].str());
  if (matches(kOther)) {
    return StrCat(find(found[1]).source, ": ", found[2].str());
  }
  return message;
}

bool IsArgument(int argc, const char* const* argv, std::string_view flag) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word.substr(0, word.find('=')) == flag) return true;
  }
  return false;
}

}  // namespace topk
