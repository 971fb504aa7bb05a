#include "core/common/usage_text.h"

#include <cctype>
#include <optional>

#include "core/base/number.h"
#include "core/base/text.h"

namespace topk {

std::string UsageText(const std::string& message, const FindSource& find) {
  constexpr std::string_view kNotConverted = "Could not convert: ";
  constexpr std::string_view kEquals = " = ";
  std::string text = message;
  if (text.starts_with(kNotConverted)) {  // e.g. --tls=maybe
    text.erase(0, kNotConverted.size());
    if (const size_t equals = text.find(kEquals); equals != text.npos) {
      text.replace(equals, kEquals.size(), ": not true or false: ");
    }
  }
  const size_t colon = text.find(": ");
  if (text.starts_with("--") && colon != text.npos) {
    text.replace(0, colon, find(text.substr(0, colon)));
  }
  // CLI11 repeats a value of any length. Keep the flag and the rule.
  constexpr size_t kEnd = 500;
  if (text.size() > 2 * kEnd) {
    text.replace(kEnd, text.size() - 2 * kEnd, "...");
  }
  return EscapeControls(text);
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

std::string CheckSwitch(const std::string& text) {
  const bool is_word = !text.empty() && std::isalpha(text.front()) != 0;
  return is_word || text == "0" || text == "1"
             ? ""
             : Quote(text) + " is not true or false";
}

std::string EmptyFlag(int argc, const char* const* argv) {
  for (int i = 1; i < argc; ++i) {
    std::string_view word = argv[i];
    word = word.substr(0, word.find_last_not_of(',') + 1);
    if (word.starts_with("--") && word.find('=') + 1 == word.size()) {
      return std::string(word.substr(0, word.size() - 1));
    }
  }
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
