#include "client/cli/errors.h"

#include <algorithm>
#include <climits>
#include <filesystem>
#include <iostream>
#include <system_error>

#include "core/base/text.h"

namespace topk::cli {
namespace {

// Returns a hint for a failed connection, with the flags to set. gRPC reports
// the cause only as text.
std::string_view Unreachable(std::string_view message,
                             const ClientOptions& client) {
  const auto has = [message](std::string_view words) {
    return message.find(words) != std::string_view::npos;
  };
  const bool tls = UsesTls(client);
  if (has("Connection refused")) {
    return "no server listens at that address: start topkd, or set --target or "
           "TOPK_TARGET; topk run --local needs no server";
  }
  if (has("No such file or directory")) {
    return "the socket does not exist: start a server with topkd --listen "
           "unix:PATH";
  }
  // gRPC 1.83 and later use the second text.
  if (has("DNS resolution failed") || has("address lookup failed")) {
    return "the host name cannot be resolved; --target or TOPK_TARGET is "
           "HOST:PORT";
  }
  // gRPC reports the first text for HTTP/1, and the second for other protocols.
  if (has("Trying to connect an http1.x server") ||
      has("Failed parsing HTTP/2")) {
    return "the port does not serve gRPC: use the port of topkd's --listen, "
           "not that of its metrics";
  }
  // OpenSSL and BoringSSL word the same errors differently.
  if (tls && (has("wrong version number") || has("WRONG_VERSION_NUMBER"))) {
    return "the server does not use TLS: leave out the --tls flags and "
           "TOPK_TLS variables";
  }
  if (tls &&
      (has("certificate verify failed") || has("CERTIFICATE_VERIFY_FAILED"))) {
    return "pass the authority that signed the server's certificate: --tls-ca "
           "FILE";
  }
  if (tls && (has("Hostname Verification Check failed") ||
              has("is not in peer certificate"))) {
    return "the server's certificate has another name: --tls-server-name NAME";
  }
  if (!has("Socket closed") && !has("Connection reset")) return "";
  return tls ? "the server may require a client certificate (--tls-cert FILE "
               "--tls-key FILE), or have too many connections (topkd's "
               "--max-connections and --max-connections-per-client)"
             : "the server may require TLS (--tls, or --tls-ca FILE), or have "
               "too many connections (topkd's --max-connections and "
               "--max-connections-per-client)";
}

// gRPC's messages for calls that could not connect.
constexpr std::string_view kNotConnected[] = {
    "failed to connect to all addresses",
    "connections to all backends failing",
    "DNS resolution failed",
    "address lookup failed",
};

}  // namespace

bool IsConnectFailure(const Status& status) {
  return std::ranges::any_of(kNotConnected, [&](std::string_view words) {
    return status.message.find(words) != std::string::npos;
  });
}

std::string Advice(const Status& status, const ClientOptions& client) {
  switch (status.code) {
    case Code::kUnavailable:
      return std::string(Unreachable(status.message, client));
    case Code::kDeadlineExceeded:
      return StrCat("no response from ", client.target,
                    " in time: check the target, or raise --timeout SECONDS");
    case Code::kUnauthenticated:
      if (status.reason == "CERTIFICATE_NOT_VALID") {
        return "renew the certificate of --tls-cert";
      }
      return client.token_file.empty()
                 ? "the server requires a token: --token-file FILE"
                 : StrCat("the server does not accept the token in ",
                          client.token_file);
    case Code::kUnimplemented:
      if (status.reason == "SHARED_MEMORY_NOT_ALLOWED") {
        return "leave out --shared-memory (bench: --path shm), or start the "
               "server with topkd --allow-shared-memory";
      }
      // UNIMPLEMENTED errors from topkd always have a reason.
      return status.reason.empty() ? "the server is not topkd, or has a "
                                     "different version: see topk info"
                                   : "";
    default:
      return "";
  }
}

ExitCode Report(const Status& status, const ClientOptions* client,
                std::string_view request_id) {
  std::cerr << "topk: " << CodeName(status.code);
  if (!status.field.empty()) std::cerr << ": " << EscapeControls(status.field);
  std::cerr << ": " << EscapeControls(status.message);
  if (!status.reason.empty()) {
    std::cerr << " [" << EscapeControls(status.reason) << "]";
  }
  if (!request_id.empty()) {
    std::cerr << " (request " << EscapeControls(request_id.substr(0, 128))
              << ")";
  }
  if (status.retry_after.count() > 0) {
    std::cerr << "; retry in " << status.retry_after.count() << " ms";
  }
  std::cerr << "\n";
  if (client != nullptr) {
    const std::string advice = Advice(status, *client);
    if (!advice.empty()) {
      std::cerr << "hint: " << EscapeControls(advice) << "\n";
    }
  }
  switch (status.code) {
    case Code::kInvalidArgument:
    case Code::kUnimplemented:
    case Code::kResourceExhausted:
    case Code::kPermissionDenied:
    case Code::kUnauthenticated:
      return kRejected;
    case Code::kUnavailable:
    case Code::kDeadlineExceeded:
      return kUnavailable;
    default:
      return kFailed;
  }
}

ExitCode ReportInput(const std::string& path, const Status& status) {
  std::cerr << "topk: " << EscapeControls(path.substr(0, PATH_MAX)) << ": "
            << EscapeControls(status.message) << "\n";
  std::error_code error;
  const std::filesystem::path file(path);
  if (status.code == Code::kNotFound && file.is_relative() &&
      !std::filesystem::exists(file, error)) {
    std::cerr << "hint: the file was searched in "
              << std::filesystem::current_path(error).string() << "\n";
  }
  return kInputFile;
}

ExitCode ReportUsage(const Status& status) {
  std::cerr << "topk: " << EscapeControls(status.message) << "\n";
  return kUsage;
}

}  // namespace topk::cli
