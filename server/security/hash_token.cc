#include "server/security/hash_token.h"

#include <iostream>
#include <iterator>

#include "core/base/text.h"
#include "core/security/bearer_token.h"
#include "server/security/token_set.h"

namespace topk {

Result<std::string> HashTokenLine(const std::string& name, std::istream& in) {
  if (Status s = CheckTokenName(name); !s.ok()) return s;
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  const std::string_view token = TrimToken(text);
  if (Status s = CheckToken(token); !s.ok()) return s;
  return StrCat(name, ":", ToHex(HashToken(token)));
}

int RunHashToken(const std::string& name) {
  const Result<std::string> line = HashTokenLine(name, std::cin);
  if (!line.ok()) {
    std::cerr << "topkd hash-token: " << line.status().message << "\n";
    return 1;
  }
  std::cout << *line << std::endl;
  return std::cout ? 0 : 1;
}

}  // namespace topk
