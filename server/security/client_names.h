// The list of names that client certificates may have.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "topk/status.h"

namespace topk {

/// The kinds of subject alternative names.
inline constexpr std::string_view kDnsName = "DNS:";
inline constexpr std::string_view kUriName = "URI:";
inline constexpr std::string_view kEmailName = "email:";
inline constexpr std::string_view kIpName = "IP:";

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

  /// Returns true if a name of this kind is in the list. Case is ignored in DNS
  /// names.
  bool Match(std::string_view kind, std::string_view name) const;

 private:
  std::set<std::string> names_;  // with their kind, e.g. "DNS:a.example"
};

/// Returns "" if AllowedNames::Parse() accepts `name`, or an error message.
std::string CheckAllowedName(const std::string& name);

}  // namespace topk
