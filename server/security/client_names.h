// The names in client certificates, and the list of allowed names.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "topk/status.h"

namespace topk {

/// The kinds of subject alternative names.
enum class NameKind { kDns, kUri, kEmail, kIp };

/// A name in a certificate.
struct ClientName {
  NameKind kind;
  std::string_view text;
};

/// A list of names. A client certificate must contain at least one listed name.
class AllowedNames {
 public:
  /// Parses a list of names. The kind of each name follows from its text: an IP
  /// address, a URI (a scheme and a colon), an e-mail address (contains @), or
  /// a DNS name. A DNS name may begin with "*.", which matches any first label.
  /// Returns INVALID_ARGUMENT for any other text.
  static Result<AllowedNames> Parse(const std::vector<std::string>& names);

  /// Returns true if the list is empty. An empty list allows every certificate.
  bool empty() const { return names_.empty(); }

  /// Returns true if `name` is in the list. Case is ignored in DNS names and in
  /// the domain of e-mail addresses.
  bool Match(const ClientName& name) const;

 private:
  struct Name {
    NameKind kind;
    std::string text;
  };
  std::vector<Name> names_;
};

/// Returns OK if AllowedNames::Parse() accepts `name`.
Status CheckAllowedName(const std::string& name);

}  // namespace topk
