#include "server/telemetry/request_facts.h"

#include "core/base/dtype.h"
#include "core/base/text.h"
#include "core/dialects/registry.h"

namespace topk {

std::optional<int64_t> KOf(const v1::TopKRequest& request) {
  const Dialect* const dialect = FindDialect(request.attributes_case());
  return dialect == nullptr ? std::nullopt : dialect->peek(request).k;
}

std::optional<int64_t> ElementsOf(const v1::TopKRequest& request) {
  int64_t elements = 1;
  for (const int64_t size : request.tensor().shape()) {
    if (__builtin_mul_overflow(elements, size, &elements)) return std::nullopt;
  }
  return elements;
}

std::string DialectOf(const v1::TopKRequest& request) {
  const Dialect* const dialect = FindDialect(request.spec());
  return dialect == nullptr ? StrCat(static_cast<int>(request.spec().dialect()))
                            : std::string(dialect->name);
}

std::string DTypeOf(const v1::TopKRequest& request) {
  const int type = static_cast<int>(request.tensor().data_type());
  const DTypeInfo* info = FindDType(type);
  return info == nullptr ? StrCat(type) : std::string(info->name);
}

}  // namespace topk
