#include "core/common/object_name.h"

#include <climits>

#include "core/base/text.h"

namespace topk {

Status CheckObjectName(const std::string& name, const std::string& field) {
  if (name.size() >= 2 && name.size() <= NAME_MAX && name.rfind('/') == 0 &&
      name.find('\0') == std::string::npos) {
    return {};
  }
  return InvalidArgument(
      "SHARED_MEMORY_NAME", field,
      StrCat(Quote(name),
             " is not the name of a shared memory object: it must be a slash "
             "and then 1 to ",
             NAME_MAX - 1, " bytes other than slash and NUL"));
}

}  // namespace topk
