#include "core/common/target.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <optional>

#include "core/base/number.h"
#include "core/base/text.h"

namespace topk {
namespace {

// Rejects commas and spaces, which would split one address into several.
bool IsHost(std::string_view host) {
  const auto in_host = [](char c) { return c > ' ' && c < 0x7f && c != ','; };
  if (host.empty() || !std::ranges::all_of(host, in_host)) return false;
  // Reject colons: gRPC would parse "vsock:", "unix-abstract:" etc. as schemes.
  return host.starts_with('[') ? host.ends_with(']')
                               : host.find(':') == std::string_view::npos;
}

// Returns true if the host in `host_port` is a literal IP address: IPv6 in
// brackets if `ipv6` is true, otherwise IPv4.
bool IsAddress(std::string_view host_port, bool ipv6) {
  std::string host(host_port.substr(0, host_port.rfind(':')));
  if (ipv6) host = host.substr(1, host.find_first_of("%]") - 1);  // no zone
  std::array<unsigned char, sizeof(in6_addr)> address;
  return host_port.starts_with('[') == ipv6 &&
         inet_pton(ipv6 ? AF_INET6 : AF_INET, host.c_str(), address.data()) ==
             1;
}

}  // namespace

bool IsHostPort(std::string_view address, int min_port) {
  const size_t colon = address.rfind(':');
  if (colon == std::string_view::npos || !IsHost(address.substr(0, colon))) {
    return false;
  }
  const std::string_view digits = address.substr(colon + 1);
  const std::optional<int> port = ParseNumber<int>(digits);
  return port && *port >= min_port && *port <= 65535 &&
         !digits.starts_with('-');
}

std::string TargetError(std::string_view target) {
  std::string_view rest = target;
  for (const std::string_view scheme :
       {"unix:", "unix-abstract:", "vsock:", "xds:", "google-c2p:"}) {
    if (rest.starts_with(scheme)) return "";
  }
  for (const std::string_view scheme : {"dns:", "ipv4:", "ipv6:"}) {
    if (!rest.starts_with(scheme)) continue;
    rest.remove_prefix(scheme.size());
    // Format: scheme:[//authority/]addresses
    if (rest.starts_with("//")) rest.remove_prefix(rest.rfind('/') + 1);
    break;
  }
  const bool ipv6 = rest.starts_with('[');
  const bool literal = target.starts_with("ipv4:") ||
                       target.starts_with("ipv6:") ||
                       rest.find(',') != std::string_view::npos;
  bool same_family = !target.starts_with(ipv6 ? "ipv4:" : "ipv6:");
  while (true) {
    const size_t comma = rest.find(',');
    const std::string_view address = rest.substr(0, comma);
    if (!IsHostPort(address, 1)) break;
    same_family = same_family && (!literal || IsAddress(address, ipv6));
    if (comma == std::string_view::npos) {
      return same_family ? ""
                         : StrCat(Quote(target),
                                  " is not a list of IPv4 addresses, or of "
                                  "IPv6 addresses in brackets, each with "
                                  "a port");
    }
    rest.remove_prefix(comma + 1);
  }
  return StrCat(Quote(target), " is not host:port with a port of 1 .. 65535");
}

bool IsUnixAddress(std::string_view address) {
  return address.starts_with("unix:") || address.starts_with("unix-abstract:");
}

bool IsLoopback(std::string_view address) {
  if (address == "::1") return true;
  if (address.starts_with("[::1]")) {
    address.remove_prefix(5);
    return address.empty() || address.front() == ':';
  }
  // The prefix of an IPv4 client's address on a dual-stack socket.
  constexpr std::string_view kMapped = "::ffff:";
  if (address.starts_with(kMapped)) address.remove_prefix(kMapped.size());
  const std::string_view host = address.substr(0, address.find(':'));
  // A host name such as "127.example.com" is not a loopback address.
  return host == "localhost" ||
         (host.starts_with("127.") &&
          host.find_first_not_of("0123456789.") == std::string_view::npos);
}

}  // namespace topk
