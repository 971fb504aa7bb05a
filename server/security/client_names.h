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

/// The names of which a client's certificate needs one.
class AllowedNames {
 public:
  /// Parses names. The kind of a name follows from its text: an IP address, a
  /// URI (a scheme and a colon), an e-mail address (an @), or else a DNS name,
  /// which may begin with *. for any first label. INVALID_ARGUMENT for any
  /// other text.
  static Result<AllowedNames> Parse(const std::vector<std::string>& names);

  /// Returns whether the list is empty, so that every certificate is allowed.
  bool empty() const { return names_.empty(); }

  /// Returns whether the list has the name. Case does not matter in DNS names,
  /// nor after the @ of an e-mail address.
  bool Match(const ClientName& name) const;

 private:
  struct Name {
    NameKind kind;
    std::string text;
  };
  std::vector<Name> names_;
};

/// Returns OK for a name that AllowedNames::Parse() accepts.
Status CheckAllowedName(const std::string& name);

}  // namespace topk
