#include "server/telemetry/request_stats.h"

#include <string_view>

#include "core/base/dtype.h"
#include "core/base/text.h"
#include "core/dialects/registry.h"

namespace topk {

void RequestStats::AddResponse(const v1::TopKResponse& answer) {
  RecordStage(Stage::kDecode);
  const v1::ExecutionInfo& execution = answer.execution();
  (*this)[Stage::kCompute] = execution.compute_nanoseconds();
  int64_t& decode = (*this)[Stage::kDecode];
  decode = std::max<int64_t>(decode - execution.compute_nanoseconds(), 0);
  answer_bytes = static_cast<int64_t>(answer.values().data().size() +
                                      answer.indices().data().size());
  backend = execution.backend();
  kernel = execution.kernel();
}

std::optional<int64_t> ElementsOf(const v1::TopKRequest& request) {
  int64_t elements = 1;
  for (const int64_t size : request.tensor().shape()) {
    if (size < 0 || __builtin_mul_overflow(elements, size, &elements)) {
      return std::nullopt;
    }
  }
  return elements;
}

std::vector<std::pair<const char*, PropertyValue>> PropertiesOf(
    const v1::TopKRequest& request, const RequestStats& stats) {
  std::vector<std::pair<const char*, PropertyValue>> properties;
  const auto add_number = [&](const char* name, std::optional<int64_t> number) {
    if (number.has_value()) properties.emplace_back(name, *number);
  };
  const auto add_text = [&](const char* name, std::string_view text) {
    if (text.empty()) return;
    properties.emplace_back(name, std::string(text.substr(0, kMaxText)));
  };
  add_text("request_id", request.request_id());
  // A request that was rejected before parsing has no spec and no tensor.
  if (request.has_spec()) {
    const Dialect* const dialect = FindDialect(request.spec());
    const auto number = static_cast<int>(request.spec().dialect());
    add_text("dialect", dialect == nullptr ? StrCat(number) : dialect->name);
    add_number("version", request.spec().version());
  }
  if (request.has_tensor()) {
    add_text("dtype", TypeName(request.tensor().data_type()));
    add_number("elements", ElementsOf(request));
    add_number("request_bytes", stats.tensor_bytes);
  }
  add_number("k", stats.k);
  add_text("backend", stats.backend);
  add_text("kernel", stats.kernel);
  return properties;
}

}  // namespace topk
