#include "client/cli/number_flag.h"

#include <optional>
#include <string>

#include "core/base/number.h"
#include "core/base/text.h"
#include "core/common/usage_text.h"

namespace topk::cli {

CLI::Validator Number(double min, double max) {
  const std::string least = NumberText(min);
  const std::string most = NumberText(max);
  const auto check = [=](const std::string& text) -> std::string {
    const std::optional<double> number = ParseNumber(text);
    if (number && *number >= min && *number <= max) return "";
    return StrCat(Quote(text), " is not a number in the range of ", least,
                  " to ", most);
  };
  return CLI::Validator(check, StrCat("FLOAT in [", least, " - ", most, "]"));
}

CLI::Validator Duration(double max_seconds) {
  const auto check = [=](std::string& text) -> std::string {
    const size_t digits = text.find_last_of("0123456789.") + 1;
    const std::string unit = text.substr(digits);
    const double seconds = unit.empty() || unit == "s" ? 1
                           : unit == "ms"              ? 1e-3
                           : unit == "us"              ? 1e-6
                                                       : 0;
    const double number =
        ParseNumber(text.substr(0, digits)).value_or(0) * seconds;
    if (!(number > 0 && number <= max_seconds)) {
      return StrCat(Quote(text),
                    " is not a duration such as 0.5, 2s, 5ms or 800us, above 0 "
                    "and at most ",
                    NumberText(max_seconds), " s");
    }
    text = NumberText(number);
    return "";
  };
  return CLI::Validator(check, "DURATION");
}

CLI::Validator Whole(int64_t min, int64_t max) {
  const auto check = [=](std::string& text) {
    return CheckWhole(text, min, max);
  };
  return CLI::Validator(check, "");
}

}  // namespace topk::cli
