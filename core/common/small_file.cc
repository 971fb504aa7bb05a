#include "core/common/small_file.h"

#include <sys/stat.h>

#include <cerrno>
#include <climits>
#include <fstream>

#include "core/base/text.h"

namespace topk {

Result<std::string> ReadSmallFile(const NamedFile& file) {
  constexpr size_t kMaxBytes = size_t{1} << 20;
  const auto error = [&](const std::string& why) {
    return Status{
        Code::kNotFound, "FILE", file.flag,
        StrCat(file.flag, ": cannot read ",
               EscapeControls(file.path.substr(0, PATH_MAX)), ": ", why)};
  };
  struct stat info {};
  if (stat(file.path.c_str(), &info) != 0) return error(ErrnoText(errno));
  // Opening a pipe would wait for a writer.
  if (!S_ISREG(info.st_mode)) return error("not a regular file");
  std::string content(kMaxBytes + 1, '\0');
  std::ifstream stream(file.path, std::ios::binary);
  stream.read(content.data(), static_cast<std::streamsize>(content.size()));
  if (!stream.is_open() || stream.bad()) return error(ErrnoText(errno));
  content.resize(static_cast<size_t>(stream.gcount()));
  if (content.size() > kMaxBytes) return error("larger than 1 MiB");
  return content;
}

}  // namespace topk
