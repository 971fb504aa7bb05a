// The names in a client's certificate, and which of them may call.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/base/status.h"

namespace topk {

/// The kinds of a certificate's subject alternative names.
enum class NameKind { kDns, kUri, kEmail, kIp };

/// One of a certificate's names.
struct ClientName {
  NameKind kind;
  std::string_view text;
};

/// Names that may call.
class AllowedNames {
 public:
  /// Parses names. The type of each follows from its text: an IP address, a URI
  /// (with a scheme and a colon), an e-mail address (with an @), or else a DNS
  /// name, which may begin with *. for any one label. INVALID_ARGUMENT for any
  /// other text.
  static Result<AllowedNames> Parse(const std::vector<std::string>& names);

  /// Whether the list is empty, so that all callers are allowed.
  bool empty() const { return names_.empty(); }

  /// Whether this name of a certificate is one of them. DNS names are compared
  /// without regard to case, and so is what follows the @.
  bool Match(const ClientName& name) const;

 private:
  struct Name {
    NameKind kind;
    std::string text;
  };
  std::vector<Name> names_;
};

/// Returns OK for a name that AllowedNames can have.
Status CheckAllowedName(const std::string& name);

}  // namespace topk
