#include "client/cli/errors.h"

#include <algorithm>
#include <climits>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <optional>
#include <system_error>

#include "core/base/text.h"

namespace topk::cli {
namespace {

// gRPC reports the cause of a failed connection as text only. This table maps
// the text to hints that name the command's flags.
struct Row {
  std::string_view words;
  // True if the hint is for TLS, false if it is for plaintext; null = for both.
  std::optional<bool> tls;
  std::string_view advice;
};
constexpr std::string_view kOtherName =
    "the server's certificate has another name: --tls-server-name NAME";
constexpr std::string_view kUnresolved =
    "the host name cannot be resolved; --target or TOPK_TARGET is HOST:PORT";
// Servers with too many connections cause the same errors by closing new ones.
constexpr std::string_view kUseTls =
    "the server may require TLS (--tls, or --tls-ca FILE), or have too many "
    "connections (topkd's --max-connections and --max-connections-per-client)";
constexpr std::string_view kUseCertificate =
    "the server may require a client certificate (--tls-cert FILE --tls-key "
    "FILE), or have too many connections (topkd's --max-connections and "
    "--max-connections-per-client)";
constexpr std::string_view kNoTls =
    "the server does not use TLS: leave out the --tls flags and TOPK_TLS"
    " variables";
constexpr std::string_view kPassAuthority =
    "pass the authority that signed the server's certificate: --tls-ca FILE";
constexpr Row kUnreachable[] = {
    {"Connection refused",
     {},
     "no server listens at that address: start topkd, or set --target or "
     "TOPK_TARGET; topk run --local needs no server"},
    {"No such file or directory",
     {},
     "the socket does not exist: start a server with topkd --listen "
     "unix:PATH"},
    {"DNS resolution failed", {}, kUnresolved},
    {"address lookup failed", {}, kUnresolved},  // since gRPC 1.83
    {"Failed parsing HTTP/2",
     {},
     "the port does not serve gRPC: use the port of topkd's --listen, not that "
     "of its metrics"},
    // OpenSSL and BoringSSL word these errors differently.
    {"wrong version number", true, kNoTls},
    {"WRONG_VERSION_NUMBER", true, kNoTls},
    {"certificate verify failed", true, kPassAuthority},
    {"CERTIFICATE_VERIFY_FAILED", true, kPassAuthority},
    {"Hostname Verification Check failed", true, kOtherName},
    {"is not in peer certificate", true, kOtherName},
    {"Socket closed", true, kUseCertificate},
    {"Socket closed", false, kUseTls},
    {"Connection reset", true, kUseCertificate},
    {"Connection reset", false, kUseTls},
};

std::string_view Unreachable(std::string_view message,
                             const ClientOptions& client) {
  const bool tls = UsesTls(client);
  for (const Row& row : kUnreachable) {
    if (message.find(row.words) != std::string_view::npos &&
        row.tls.value_or(tls) == tls) {
      return row.advice;
    }
  }
  return "";
}

// gRPC's messages for calls that found no connection.
constexpr std::string_view kNotConnected[] = {
    "failed to connect to all addresses",
    "connections to all backends failing",
    "DNS resolution failed",
    "address lookup failed",
};

}  // namespace

bool IsConnectFailure(const Status& status) {
  return std::any_of(std::begin(kNotConnected), std::end(kNotConnected),
                     [&](std::string_view words) {
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
