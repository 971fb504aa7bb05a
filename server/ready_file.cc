#include "server/ready_file.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/base/text.h"

namespace topk {

Status WriteReadyFile(const std::string& path,
                      const std::vector<std::string>& listen,
                      const std::map<std::string, std::string>& others) {
  nlohmann::json content = {{"listen", listen}};
  for (const auto& [name, address] : others) {
    if (!address.empty()) content[name] = address;
  }
  const std::string temporary = Cat(path, ".", getpid());
  std::ofstream file(temporary);
  file << content.dump() << "\n";
  file.close();
  if (!file || std::rename(temporary.c_str(), path.c_str()) != 0) {
    const int error = errno;
    std::remove(temporary.c_str());
    return Status{Code::kUnavailable, "READY_FILE", "ready_file",
                  Cat("cannot write ", path, ": ", ErrnoText(error))};
  }
  return {};
}

}  // namespace topk
