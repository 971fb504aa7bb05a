#include "server/security/client_names.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "core/base/text.h"

namespace topk {
namespace {

// Returns an IP address in the format that gRPC uses for certificate names, or
// "" if `text` is not an IP address.
std::string IpText(const std::string& text) {
  std::array<unsigned char, sizeof(in6_addr)> address;
  char written[INET6_ADDRSTRLEN];
  for (const int family : {AF_INET, AF_INET6}) {
    if (inet_pton(family, text.c_str(), address.data()) == 1 &&
        inet_ntop(family, address.data(), written, sizeof(written))) {
      return written;
    }
  }
  return "";
}

bool IsDnsName(std::string_view name) {
  if (name.starts_with("*.")) name.remove_prefix(2);
  // Labels must not be empty, and names in certificates have no trailing dot.
  return !name.empty() && !name.starts_with('.') && !name.ends_with('.') &&
         name.find("..") == std::string_view::npos &&
         std::ranges::all_of(name, [](unsigned char c) {
           return std::isalnum(c) || c == '-' || c == '.' || c == '_';
         });
}

}  // namespace

Result<AllowedNames> AllowedNames::Parse(
    const std::vector<std::string>& names) {
  AllowedNames allowed;
  for (const std::string& name : names) {
    const size_t at = name.find('@');
    const size_t colon = name.find(':');
    if (const std::string ip = IpText(name); !ip.empty()) {
      allowed.names_.insert(StrCat(kIpName, ip));
    } else if (colon != std::string::npos && colon > 0) {
      allowed.names_.insert(StrCat(kUriName, name));
    } else if (at != std::string::npos && at > 0 && at + 1 < name.size()) {
      allowed.names_.insert(StrCat(kEmailName, name));
    } else if (IsDnsName(name)) {
      allowed.names_.insert(StrCat(kDnsName, InLowerCase(name)));
    } else {
      return InvalidArgument("TLS_ALLOWED_SAN", "tls_allowed_san",
                             StrCat(Quote(name),
                                    " is not a DNS name (such as a.example or "
                                    "*.example), URI, e-mail or IP address"));
    }
  }
  return allowed;
}

bool AllowedNames::Match(std::string_view kind, std::string_view name) const {
  if (kind != kDnsName) return names_.contains(StrCat(kind, name));
  const std::string lower = InLowerCase(name);
  const size_t label = lower.find('.');
  return names_.contains(StrCat(kind, lower)) ||
         (label != std::string::npos && label > 0 &&
          names_.contains(StrCat(kind, "*", lower.substr(label))));
}

std::string CheckAllowedName(const std::string& name) {
  const Result<AllowedNames> parsed = AllowedNames::Parse({name});
  return parsed.ok() ? "" : parsed.status().message;
}

}  // namespace topk
