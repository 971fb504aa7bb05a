#include "server/config/config_values.h"

#include <charconv>
#include <string>
#include <string_view>

#include "core/base/text.h"

namespace topk {
namespace {

// host:port with a port in range; the host may be an IPv6 address in brackets.
std::string CheckHostPort(const std::string& address) {
  std::string wanted = Cat("\"", address, "\" is not host:port");
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos || colon == 0) return wanted;
  const std::string port = address.substr(colon + 1);
  if (port.empty() || port.size() > 5 ||
      port.find_first_not_of("0123456789") != std::string::npos ||
      std::stoi(port) > 65535) {
    return Cat(wanted, " with a port of 0 .. 65535");
  }
  return "";
}

std::string CheckListen(const std::string& address) {
  constexpr size_t kMaxUnixPath = 107;  // sun_path with its final NUL
  if (!address.starts_with("unix:")) return CheckHostPort(address);
  const size_t length = address.size() - 5;
  if (length == 0) return "unix: needs a path";
  return length <= kMaxUnixPath ? ""
                                : Cat("the path of a unix socket has at most ",
                                      kMaxUnixPath, " bytes, not ", length);
}

std::string CheckPlain(const std::string& address) {
  return address.empty() ? "" : CheckHostPort(address);
}

std::string CheckMetricsListen(const std::string& address) {
  if (address.empty()) return "";
  if (address.starts_with('[')) {
    return Cat("\"", address, "\": metrics are served over IPv4 only");
  }
  return CheckHostPort(address);
}

std::string CheckMode(const std::string& text) {
  unsigned mode = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, mode, 8);
  if (error != std::errc() || rest != end || mode > 0777) {
    return Cat("\"", text, "\" is not a mode of 0 .. 0777 in octal");
  }
  return "";
}

// CLI11's own range lets NaN through.
std::string CheckShare(const std::string& text) {
  double share = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, share);
  if (error == std::errc() && rest == end && share >= 0 && share <= 1) {
    return "";
  }
  return Cat("\"", text, "\" is not a share of 0 to 1");
}

std::string CheckPrefix(const std::string& prefix) {
  if (prefix.starts_with('/') && prefix.find('/', 1) == std::string::npos) {
    return "";
  }
  return Cat(Quote(prefix), " does not begin with the one slash that it has");
}

}  // namespace

CLI::Validator Address() { return {CheckListen, "ADDRESS"}; }

CLI::Validator PlainAddress() { return {CheckPlain, "ADDRESS"}; }

CLI::Validator HttpAddress() { return {CheckMetricsListen, "ADDRESS"}; }

CLI::Validator OctalMode() { return {CheckMode, "MODE"}; }

CLI::Validator Share() { return {CheckShare, "SHARE"}; }

CLI::Validator ObjectPrefix() { return {CheckPrefix, "PREFIX"}; }

CLI::Validator Seconds(double least, double most) {
  const auto check = [least, most](std::string& text) -> std::string {
    const char* end = text.data() + text.size();
    double seconds = 0;
    const auto [rest, error] = std::from_chars(text.data(), end, seconds);
    const std::string_view unit(rest, static_cast<size_t>(end - rest));
    if (unit == "ms") seconds /= 1000;
    if (unit == "m") seconds *= 60;
    const bool known =
        unit.empty() || unit == "s" || unit == "ms" || unit == "m";
    // Written so that NaN, which compares with nothing, is refused.
    if (error != std::errc() || !known ||
        !(seconds >= least && seconds <= most)) {
      return Cat("\"", text, "\" is not a duration such as 25, 1.5s, 500ms or ",
                 "1m in the range of ", CLI::detail::to_string(least), " s to ",
                 CLI::detail::to_string(most), " s");
    }
    text = CLI::detail::to_string(seconds);
    return "";
  };
  return CLI::Validator(check, "DURATION");
}

CLI::Validator Bytes(int64_t least, int64_t most) {
  const CLI::AsSizeValue size(/*kb_is_1000=*/false);
  const CLI::Range range(least, most);
  const auto check = [size, range](std::string& text) -> std::string {
    std::string error = size(text);
    return error.empty() ? range(text) : error;
  };
  return CLI::Validator(check, "BYTES");
}

}  // namespace topk
