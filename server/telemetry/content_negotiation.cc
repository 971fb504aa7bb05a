#include "server/telemetry/content_negotiation.h"

#include <algorithm>
#include <optional>
#include <string>

#include "core/base/text.h"

namespace topk {
namespace {

// An element of a header, in lower case.
struct Choice {
  std::string_view name;
  std::string_view version;
  int quality = 1000;  // in thousandths
};

// Takes the text before a separator off a list.
std::string_view TakeItem(std::string_view& list, char separator) {
  const size_t end = std::min(list.find(separator), list.size());
  const std::string_view item = list.substr(0, end);
  list.remove_prefix(std::min(end + 1, list.size()));
  return Trimmed(item);
}

// Reads 0 to 1 with at most three decimals.
std::optional<int> ParseQuality(std::string_view text) {
  if (text.empty() || text.size() > 5) return std::nullopt;
  if (text[0] != '0' && text[0] != '1') return std::nullopt;
  if (text.size() > 1 && text[1] != '.') return std::nullopt;
  int quality = (text[0] - '0') * 1000;
  int unit = 100;
  for (size_t i = 2; i < text.size(); ++i) {
    if (text[i] < '0' || text[i] > '9') return std::nullopt;
    quality += (text[i] - '0') * unit;
    unit /= 10;
  }
  if (quality > 1000) return std::nullopt;
  return quality;
}

std::optional<Choice> ParseChoice(std::string_view element) {
  Choice choice;
  choice.name = TakeItem(element, ';');
  while (!element.empty()) {
    std::string_view value = TakeItem(element, ';');
    const std::string_view parameter = TakeItem(value, '=');
    if (value.size() > 1 && value.front() == '"' && value.back() == '"') {
      value = value.substr(1, value.size() - 2);
    }
    if (parameter == "version") choice.version = value;
    if (parameter != "q") continue;
    const auto quality = ParseQuality(value);
    if (!quality.has_value()) return std::nullopt;
    choice.quality = *quality;
  }
  return choice;
}

// Returns the highest quality of the elements that match; 0 without any.
template <class Matches>
int QualityOf(std::string_view header, const Matches& matches) {
  const std::string lower = InLowerCase(header);
  int highest = 0;
  for (std::string_view rest = lower; !rest.empty();) {
    const auto choice = ParseChoice(TakeItem(rest, ','));
    if (choice.has_value() && matches(*choice)) {
      highest = std::max(highest, choice->quality);
    }
  }
  return highest;
}

bool IsOpenMetrics(const Choice& choice) {
  return choice.name == "application/openmetrics-text" &&
         (choice.version.empty() || choice.version == "1.0.0");
}

bool IsTextFormat(const Choice& choice) {
  return choice.name == "*/*" || choice.name == "text/*" ||
         (choice.name == "text/plain" &&
          (choice.version.empty() || choice.version == "0.0.4"));
}

}  // namespace

bool PrefersOpenMetrics(std::string_view accept) {
  const int quality = QualityOf(accept, IsOpenMetrics);
  return quality > 0 && quality >= QualityOf(accept, IsTextFormat);
}

bool AcceptsGzip(std::string_view accept_encoding) {
  return QualityOf(accept_encoding, [](const Choice& choice) {
           return choice.name == "gzip";
         }) > 0;
}

}  // namespace topk
