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

CLI::Validator Whole(int64_t min, int64_t max) {
  const auto check = [=](std::string& text) {
    return CheckWhole(text, min, max);
  };
  return CLI::Validator(check, "");
}

}  // namespace topk::cli
