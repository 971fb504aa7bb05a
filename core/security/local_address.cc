#include "core/security/local_address.h"

namespace topk {

bool IsUnixAddress(std::string_view address) {
  return address.starts_with("unix:") || address.starts_with("unix-abstract:");
}

bool IsLoopback(std::string_view address) {
  if (address == "::1") return true;
  if (address.starts_with("[::1]")) {
    address.remove_prefix(5);
    return address.empty() || address.front() == ':';
  }
  // The address of an IPv4 client on a dual-stack socket.
  constexpr std::string_view kMapped = "::ffff:";
  if (address.starts_with(kMapped)) address.remove_prefix(kMapped.size());
  const std::string_view host = address.substr(0, address.find(':'));
  // A host name may also begin with "127.".
  return host == "localhost" ||
         (host.starts_with("127.") &&
          host.find_first_not_of("0123456789.") == std::string_view::npos);
}

}  // namespace topk
