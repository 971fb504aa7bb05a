#include <google/protobuf/text_format.h>
#include <google/protobuf/util/json_util.h>
#include <grpcpp/support/channel_arguments.h>

#include <iomanip>
#include <iostream>
#include <memory>
#include <string>

#include "client/cli/commands.h"
#include "core/base/dtype.h"
#include "core/base/text.h"

namespace topk::cli {
namespace {

std::string TypeNames(const google::protobuf::RepeatedField<int>& types) {
  std::string names;
  for (const int type : types) {
    names += (names.empty() ? "" : " ") + TypeName(type);
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
  std::string limits;
  google::protobuf::TextFormat::Printer printer;
  printer.SetInitialIndentLevel(1);
  static_cast<void>(printer.PrintToString(capabilities.limits(), &limits));
  out << "\nlimits\n"
      << limits << "\norder\n  " << EscapeControls(capabilities.ordering_rule())
      << "\n";
}

ExitCode Health(const ClientOptions& client, const std::string& service) {
  const ExitCode code = CheckClientFlags(client);
  if (code != kOk) return code;
  const Result<bool> serving = Client(client).IsServing(service);
  if (!serving.ok()) return Report(serving.status());
  std::cout << (*serving ? "SERVING" : "NOT_SERVING") << "\n";
  return *serving ? kOk : kUnavailable;
}

ExitCode Info(const ClientOptions& client, bool json) {
  const ExitCode code = CheckClientFlags(client);
  if (code != kOk) return code;
  const Result<v1::Capabilities> capabilities =
      Client(client).GetCapabilities();
  if (!capabilities.ok()) return Report(capabilities.status());
  if (!json) {
    PrintCapabilities(*capabilities, std::cout);
    return kOk;
  }
  std::string text;
  const auto converted =
      google::protobuf::util::MessageToJsonString(*capabilities, &text);
  if (!converted.ok()) {
    return Report({Code::kInternal, "", "", converted.ToString()});
  }
  std::cout << text << "\n";
  return kOk;
}

}  // namespace

void AddHealth(CLI::App& app, ExitCode& status) {
  CLI::App& command = *app.add_subcommand(
      "health",
      "Prints the health status of a server. Does not use an HTTP proxy");
  const auto no_proxy = std::make_shared<grpc::ChannelArguments>();
  no_proxy->SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  const auto client = std::make_shared<ClientOptions>(
      ClientOptions{.channel_arguments = no_proxy});
  const auto service = std::make_shared<std::string>();
  command.add_option("--service", *service,
                     "Service to check; default: the whole server");
  AddClientFlags(command, *client);
  command.remove_option(command.get_option("--max-attempts"));  // no retries
  command.callback(
      [client, service, &status] { status = Health(*client, *service); });
}

void AddInfo(CLI::App& app, ExitCode& status) {
  CLI::App& command = *app.add_subcommand(
      "info", "Prints a server's dialects, types, backends and limits");
  const auto client = std::make_shared<ClientOptions>();
  const auto json = std::make_shared<bool>(false);
  command.add_flag("--json", *json, "Print JSON");
  AddClientFlags(command, *client);
  command.callback([client, json, &status] { status = Info(*client, *json); });
}

}  // namespace topk::cli
