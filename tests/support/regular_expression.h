// Regular expressions that compile fast.
#pragma once

#include <regex.h>

#include <stdexcept>
#include <string>
#include <vector>

namespace topk::testing {

/// A regular expression as POSIX extends it. std::regex, which each use
/// instantiates, takes seconds to compile.
class RegularExpression {
 public:
  explicit RegularExpression(const std::string& pattern) {
    if (regcomp(&compiled_, ("^(" + pattern + ")$").c_str(), REG_EXTENDED)) {
      throw std::invalid_argument(pattern);
    }
  }
  ~RegularExpression() { regfree(&compiled_); }
  RegularExpression(const RegularExpression&) = delete;
  RegularExpression& operator=(const RegularExpression&) = delete;

  /// Matches a whole text without NULs; returns what its groups matched, the
  /// whole first, or nothing if it does not match.
  std::vector<std::string> Match(const std::string& text) const {
    std::vector<regmatch_t> found(compiled_.re_nsub + 1);
    if (regexec(&compiled_, text.c_str(), found.size(), found.data(), 0)) {
      return {};
    }
    std::vector<std::string> groups;
    for (const auto& [begin, end] : found) {
      groups.push_back(begin < 0 ? "" : text.substr(begin, end - begin));
    }
    groups.erase(groups.begin());  // the one around the pattern
    return groups;
  }

 private:
  regex_t compiled_;
};

}  // namespace topk::testing
