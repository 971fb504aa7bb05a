#include "server/config/otel_variables.h"

#include <unistd.h>

#include <charconv>
#include <map>
#include <optional>
#include <string_view>

#include "core/base/number.h"
#include "core/base/text.h"
#include "core/common/target.h"

namespace topk {
namespace {

using Attributes = std::map<std::string, std::string>;
using Variable = std::function<std::string(const std::string&)>;

void Warn(TraceConfig& config, const std::string& name, std::string_view value,
          std::string_view fault) {
  config.warnings.push_back(
      StrCat(name, "=", Quote(value), " is ignored: ", fault));
}

// Decodes e.g. %41 as A. Returns nullopt unless two hex digits follow each %.
std::optional<std::string> PercentDecoded(std::string_view text) {
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      decoded += text[i];
      continue;
    }
    if (text.size() - i < 3) return std::nullopt;
    unsigned byte = 0;
    const char* const end = text.data() + i + 3;
    const auto [rest, error] = std::from_chars(end - 2, end, byte, 16);
    if (error != std::errc() || rest != end) return std::nullopt;
    decoded += static_cast<char>(byte);
    i += 2;
  }
  return decoded;
}

// Parses name=value,name=value. Returns nullopt if the text is malformed.
std::optional<Attributes> ParseAttributes(std::string_view text) {
  Attributes attributes;
  while (!text.empty()) {
    const std::string_view item = text.substr(0, text.find(','));
    text.remove_prefix(std::min(item.size() + 1, text.size()));
    if (Trimmed(item).empty()) continue;
    const size_t equals = item.find('=');
    if (equals == std::string_view::npos) return std::nullopt;
    const auto name = PercentDecoded(Trimmed(item.substr(0, equals)));
    const auto value = PercentDecoded(Trimmed(item.substr(equals + 1)));
    if (!name || name->empty() || !value) return std::nullopt;
    attributes[EscapeControls(*name)] = EscapeControls(*value);
  }
  return attributes;
}

void ReadResource(const Variable& variable, TraceConfig& config) {
  char host[256] = "";
  gethostname(host, sizeof(host) - 1);
  config.resource = {{"service.name", "topkd"},
                     {"service.version", TOPK_VERSION},
                     {"host.name", EscapeControls(host)}};
  constexpr char kAttributes[] = "OTEL_RESOURCE_ATTRIBUTES";
  const std::string text = variable(kAttributes);
  if (const auto attributes = ParseAttributes(text)) {
    for (const auto& [name, value] : *attributes) config.resource[name] = value;
  } else {
    Warn(config, kAttributes, text,
         "it must be name=value,..., percent-encoded");
  }
  const std::string service = variable("OTEL_SERVICE_NAME");
  if (!service.empty()) {
    config.resource["service.name"] = EscapeControls(service);
  }
}

void ReadSampler(const Variable& variable, TraceConfig& config) {
  constexpr char kSampler[] = "OTEL_TRACES_SAMPLER";
  constexpr char kRatio[] = "OTEL_TRACES_SAMPLER_ARG";
  constexpr std::string_view kParentBased = "parentbased_";
  const std::string text = variable(kSampler);
  if (text.empty()) return;
  std::string_view sampler = text;
  const bool follow_parent = sampler.starts_with(kParentBased);
  if (follow_parent) sampler.remove_prefix(kParentBased.size());
  if (sampler != "always_on" && sampler != "always_off" &&
      sampler != "traceidratio") {
    Warn(config, kSampler, text,
         "it is not always_on, always_off or traceidratio, with or without "
         "parentbased_");
    return;
  }
  config.follow_parent = follow_parent;
  if (sampler == "always_off") config.ratio = 0;
  const std::string argument =
      sampler == "traceidratio" ? variable(kRatio) : "";
  if (argument.empty()) return;
  const std::optional<double> ratio = ParseNumber(argument);
  if (ratio && *ratio >= 0 && *ratio <= 1) {
    config.ratio = *ratio;
  } else {
    Warn(config, kRatio, argument, "it is not a fraction from 0 to 1");
  }
}

void ReadEndpoint(const Variable& variable, TraceConfig& config) {
  for (const char* name :
       {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"}) {
    std::string url = variable(name);
    if (url.empty() || !config.endpoint.empty()) continue;
    if (const std::string fault = CheckCollector(url); !fault.empty()) {
      Warn(config, name, url, fault);
    } else {
      config.endpoint = url;
    }
  }
}

}  // namespace

std::string CheckCollector(std::string& url) {
  const size_t slashes = url.find("://");
  // URL schemes are case-insensitive (RFC 3986, 3.1).
  const std::string scheme = InLowerCase(url.substr(0, slashes));
  std::string address =
      slashes == std::string::npos ? "" : url.substr(slashes + 3);
  if (address.ends_with('/')) address.pop_back();
  if (!IsHostPort(address, 1)) address += ":4317";
  if ((scheme != "http" && scheme != "https") || !IsHostPort(address, 1) ||
      address.find_first_of("/?@%") != std::string::npos) {
    return StrCat(Quote(url), " is not http://host:port or https://host:port");
  }
  url = StrCat(scheme, "://", address);
  return "";
}

TraceConfig ReadTraceConfig(const std::string& endpoint,
                            const Variable& variable) {
  TraceConfig config;
  config.endpoint = endpoint;
  if (endpoint.empty()) ReadEndpoint(variable, config);
  if (config.endpoint.empty()) return config;
  ReadSampler(variable, config);
  ReadResource(variable, config);
  return config;
}

}  // namespace topk
