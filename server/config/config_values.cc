#include "server/config/config_values.h"

#include <arpa/inet.h>

#include <charconv>
#include <cmath>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/number.h"
#include "core/base/text.h"
#include "core/common/target.h"
#include "core/common/usage_text.h"

namespace topk {
namespace {

std::string CheckHostPort(const std::string& address) {
  if (IsHostPort(address, 0)) return "";
  return StrCat(Quote(address), " is not host:port with a port of 0 .. 65535");
}

// Checks a listening address, and rewrites unix:///path as unix:/path.
std::string CheckListen(std::string& address) {
  constexpr std::string_view kUnix = "unix:";
  constexpr size_t kMaxUnixPath = 107;  // sun_path without the NUL
  if (!address.starts_with(kUnix)) return CheckHostPort(address);
  std::string path = address.substr(kUnix.size());
  if (path.starts_with("//")) {
    path.erase(0, 2);
    if (!path.starts_with('/')) {
      return StrCat(Quote(address), ": unix:// needs an absolute path, e.g. ",
                    "unix:///run/topkd.sock");
    }
  }
  if (path.empty()) return "unix: needs a path";
  if (path.find('%') != std::string::npos) {
    return StrCat(Quote(address),
                  ": the path of a unix socket must not contain ",
                  "%, which gRPC uses as an escape character");
  }
  if (path.size() > kMaxUnixPath) {
    return StrCat("the path of a unix socket has ", path.size(),
                  " bytes; it must have at most ", kMaxUnixPath);
  }
  address = StrCat(kUnix, path);
  return "";
}

// Accepts 0 and numbers in [least, most]. Rewrites numbers in shortest form.
CLI::Validator Number(double least, double most, const char* type,
                      const char* rule) {
  const auto check = [least, most, rule](std::string& text) -> std::string {
    const std::optional<double> number = ParseNumber(text);
    if (!number || (*number != 0 && !(*number >= least && *number <= most))) {
      return StrCat(Quote(text), " is not ", rule);
    }
    text = NumberText(*number);
    return "";
  };
  return {check, type};
}

// Returns the number of bytes in a unit, e.g. 1024 for "KiB", or 0 if the unit
// is unknown. Ignores case. "K" and "KB" are 1024 too.
int64_t UnitBytes(std::string_view text) {
  std::string unit = InLowerCase(text);
  if (unit.empty() || unit == "b") return 1;
  constexpr std::string_view kPrefixes = "kmgtpe";
  const size_t prefix = kPrefixes.find(unit.front());
  unit.erase(0, 1);
  if (prefix == std::string_view::npos ||
      !(unit.empty() || unit == "b" || unit == "ib")) {
    return 0;
  }
  return int64_t{1024} << (10 * prefix);
}

}  // namespace

std::string CheckCollector(std::string& url) {
  constexpr std::string_view kHostCharacters =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_";
  const size_t slashes = url.find("://");
  // URL schemes are case-insensitive (RFC 3986, 3.1).
  const std::string scheme = InLowerCase(url.substr(0, slashes));
  std::string address =
      slashes == std::string::npos ? "" : url.substr(slashes + 3);
  if (address.ends_with('/')) address.pop_back();
  if (!IsHostPort(address, 1)) address += ":4317";
  const std::string host = address.substr(0, address.rfind(':'));
  in6_addr bits;
  const bool ipv6 =
      host.starts_with('[') &&
      inet_pton(AF_INET6, host.substr(1, host.size() - 2).c_str(), &bits) == 1;
  if ((scheme != "http" && scheme != "https") || !IsHostPort(address, 1) ||
      !(ipv6 || host.find_first_not_of(kHostCharacters) == std::string::npos)) {
    return StrCat(Quote(url), " is not http://host:port or https://host:port");
  }
  url = StrCat(scheme, "://", address);
  return "";
}

CLI::Validator GrpcAddress() { return {CheckListen, "ADDRESS"}; }

CLI::Validator PlainAddress() { return {CheckHostPort, "ADDRESS"}; }

CLI::Validator Collector() { return {CheckCollector, "URL"}; }

CLI::Validator OctalMode() {
  const auto check = [](const std::string& text) -> std::string {
    unsigned mode = 0;
    const char* end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(text.data(), end, mode, 8);
    if (error == std::errc() && rest == end && mode <= 0777) return "";
    return Quote(text) + " is not a mode of 0 .. 0777 in octal";
  };
  return {check, "MODE"};
}

CLI::Validator ObjectPrefix() {
  return {[](const std::string& prefix) {
            return prefix.rfind('/') == 0
                       ? ""
                       : Quote(prefix) +
                             " must begin with a slash and have no other slash";
          },
          "PREFIX"};
}

CLI::Validator Fraction() {
  return Number(0, 1, "FRACTION", "a fraction from 0 to 1");
}

// Rejects rates between 0 and 1e-6, which must be mistakes.
CLI::Validator Rate() {
  return Number(1e-6, 1e15, "RATE", "a rate of 0 or 1e-6 .. 1e15 per second");
}

CLI::Validator Seconds(double least, double most) {
  const auto check = [least, most](std::string& text) -> std::string {
    // Shorter durations could be rounded to zero, which may mean "no limit".
    constexpr double kShortest = 1e-6;
    const size_t digits = text.find_last_of("0123456789.") + 1;
    const std::string_view unit = std::string_view(text).substr(digits);
    const double factor = unit.empty() || unit == "s" ? 1
                          : unit == "ms"              ? 1e-3
                          : unit == "m"               ? 60
                                                      : std::nan("");
    const double seconds = ParseNumber(std::string_view(text).substr(0, digits))
                               .value_or(std::nan("")) *
                           factor;
    // The condition is negated so that NaN is rejected.
    if (!(seconds >= least && seconds <= most) ||
        (seconds > 0 && seconds < kShortest)) {
      return StrCat(Quote(text),
                    " is not a duration such as 25, 1.5s, 500ms or ",
                    "1m, from ", NumberText(least), " s to ", NumberText(most),
                    " s; if it is not 0, it must be at least 0.001ms");
    }
    text = NumberText(seconds);
    return "";
  };
  return {check, "DURATION"};
}

CLI::Validator Bytes(int64_t least, int64_t most) {
  const auto check = [least, most](std::string& text) -> std::string {
    // Use a long double, because it represents every int64_t exactly.
    long double bytes = 0;
    const char* end = text.data() + text.size();
    const auto [rest, error] =
        std::from_chars(text.data(), end, bytes, std::chars_format::fixed);
    std::string unit(rest, end);
    unit.erase(0, unit.find_first_not_of(' '));
    const int64_t factor = UnitBytes(unit);
    bytes *= static_cast<long double>(factor);
    // The condition is negated so that NaN is rejected.
    if (error != std::errc() || factor == 0 ||
        !(bytes >= static_cast<long double>(least) &&
          bytes <= static_cast<long double>(most))) {
      return StrCat(Quote(text),
                    " is not a number of bytes such as 65536, 64KiB ",
                    "or 1.5GiB in the range of ", least, " to ", most);
    }
    // Round up, so that a positive number never becomes 0.
    text = StrCat(static_cast<int64_t>(std::ceil(bytes)));
    return "";
  };
  return {check, "BYTES"};
}

CLI::Validator Whole(int64_t least, int64_t most) {
  return {[least, most](std::string& text) {
            return CheckWhole(text, least, most);
          },
          StrCat("INT in [", least, " - ", most, "]")};
}

}  // namespace topk
