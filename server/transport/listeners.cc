#include "server/transport/listeners.h"

#include "core/base/text.h"
#include "core/security/local_address.h"

namespace topk {

std::string WithPort(const std::string& address, int port) {
  if (IsUnixAddress(address)) return address;
  return StrCat(address.substr(0, address.rfind(':') + 1), port);
}

Status CannotBind(std::string_view reason, std::string_view field,
                  std::string_view doing, std::string_view address,
                  std::string_view why) {
  return {Code::kUnavailable, std::string(reason), std::string(field),
          StrCat("cannot ", doing, " ", address, ": ", why)};
}

}  // namespace topk
