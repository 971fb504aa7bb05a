// Regular expressions that compile quickly.
#pragma once

#include <regex.h>

#include <stdexcept>
#include <string>
#include <vector>

namespace topk::testing {

/// A POSIX extended regular expression. Used instead of std::regex, which adds
/// seconds to the compile time of every user.
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

  /// Matches a whole text, which must not contain NULs. Returns the full match
  /// and then the groups, or an empty vector if there is no match.
  std::vector<std::string> Match(const std::string& text) const {
    std::vector<regmatch_t> found(compiled_.re_nsub + 1);
    if (regexec(&compiled_, text.c_str(), found.size(), found.data(), 0)) {
      return {};
    }
    std::vector<std::string> groups;
    for (const auto& [begin, end] : found) {
      groups.push_back(begin < 0 ? "" : text.substr(begin, end - begin));
    }
    groups.erase(groups.begin());  // remove the group around the whole pattern
    return groups;
  }

 private:
  regex_t compiled_;
};

}  // namespace topk::testing
