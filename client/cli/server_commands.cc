#include "client/cli/server_commands.h"

#include <google/protobuf/util/json_util.h>

#include <iomanip>
#include <iostream>

#include "client/cli/errors.h"
#include "core/base/dtype.h"
#include "core/base/text.h"

namespace topk::cli {
namespace {

std::string TypeNames(const google::protobuf::RepeatedField<int>& types) {
  std::string names;
  for (const int type : types) {
    const DTypeInfo* row = FindDType(type);
    names += names.empty() ? "" : " ";
    names += row != nullptr ? std::string(row->name) : std::to_string(type);
  }
  return names;
}

constexpr int kNameColumns = 18;

void PrintCapabilities(const v1::Capabilities& capabilities,
                       std::ostream& out) {
  out << "build " << EscapeControls(capabilities.build_version())
      << "\n\noperators\n";
  for (const v1::OperatorCapability& row : capabilities.operators()) {
    out << "  " << std::left << std::setw(kNameColumns)
        << EscapeControls(row.name()) << "elements "
        << TypeNames(row.data_types()) << "; indices "
        << TypeNames(row.index_types()) << "\n";
  }
  out << "\nbackends\n";
  for (const v1::BackendCapability& row : capabilities.backends()) {
    out << "  " << std::setw(kNameColumns) << EscapeControls(row.name())
        << EscapeControls(row.instruction_set());
    if (row.thread_count() > 0) out << ", " << row.thread_count() << " threads";
    out << "\n";
  }
  const v1::Limits& limits = capabilities.limits();
  out << "\nlimits\n"
      << "  message           " << limits.max_message_bytes() << " bytes\n"
      << "  tensor            " << limits.max_elements() << " elements, "
      << limits.max_rank() << " dimensions\n"
      << "  response          " << limits.max_output_bytes() << " bytes, "
      << limits.max_selected_elements() << " elements\n"
      << "  in flight         " << limits.max_inflight_calls() << " calls, "
      << limits.max_inflight_bytes() << " bytes\n"
      << "  per client        " << limits.max_client_inflight_calls()
      << " calls, " << limits.max_client_inflight_bytes() << " bytes\n"
      << "  shared memory     " << (limits.shared_memory() ? "yes" : "no")
      << "\n  CUDA memory       " << (limits.cuda_memory() ? "yes" : "no")
      << "\n\norder\n  " << EscapeControls(capabilities.ordering_rule())
      << "\n";
}

}  // namespace

ExitCode Health(const ClientOptions& client, const std::string& service) {
  const Result<bool> serving = Client(client).IsServing(service);
  if (!serving.ok()) return Report(serving.status(), &client);
  std::cout << (*serving ? "SERVING" : "NOT_SERVING") << "\n";
  return *serving ? kOk : kUnavailable;
}

ExitCode Info(const ClientOptions& client, bool json) {
  const Result<v1::Capabilities> capabilities =
      Client(client).GetCapabilities();
  if (!capabilities.ok()) return Report(capabilities.status(), &client);
  if (!json) {
    PrintCapabilities(*capabilities, std::cout);
    return kOk;
  }
  std::string text;
  const auto converted =
      google::protobuf::util::MessageToJsonString(*capabilities, &text);
  if (!converted.ok()) {
    return Report({Code::kInternal, "", "", converted.ToString()}, &client);
  }
  std::cout << text << "\n";
  return kOk;
}

}  // namespace topk::cli
