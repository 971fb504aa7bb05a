// Hides the differences between versions of gRPC (1.51 and later) and protobuf
// (3.21 and later). Only server/grpc_workarounds/ has other version checks.
#pragma once

#include <google/protobuf/arena.h>
#include <google/protobuf/stubs/common.h>
#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_credentials_options.h>
#include <grpcpp/version_info.h>

#include <memory>
#include <string>
#include <string_view>

/// True if the version of gRPC is at least 1.`minor`.
#define TOPK_GRPC_AT_LEAST(minor) \
  (GRPC_CPP_VERSION_MAJOR > 1 || GRPC_CPP_VERSION_MINOR >= (minor))

// Since 1.65, gRPC logs through Abseil instead of its own log function.
// protobuf has logged through Abseil since 4.22.
#if TOPK_GRPC_AT_LEAST(65)
#include <absl/log/globals.h>
#include <absl/log/initialize.h>
#include <absl/log/log_entry.h>
#include <absl/log/log_sink.h>
#include <absl/log/log_sink_registry.h>
#else
#include <grpc/support/log.h>
#if GOOGLE_PROTOBUF_VERSION < 4022000
#include <google/protobuf/stubs/logging.h>
#endif
#endif

namespace topk {

/// Returns a new message owned by `arena`. Protobuf 5.27 deprecated
/// CreateMessage(). Before 5.27, Create() did not allocate fields on the arena.
template <class Message>
Message& NewMessage(google::protobuf::Arena& arena) {
#if GOOGLE_PROTOBUF_VERSION >= 5027000
  return *google::protobuf::Arena::Create<Message>(&arena);
#else
  return *google::protobuf::Arena::CreateMessage<Message>(&arena);
#endif
}

/// Makes `provider` supply the root certificates, the identity certificate, or
/// both. The TLS credentials pick up new certificates from `provider`.
template <class Options>
void UseCertificates(
    Options& options,
    const std::shared_ptr<grpc::experimental::CertificateProviderInterface>&
        provider,
    bool roots, bool identity) {
  if constexpr (requires { options.set_root_certificate_provider(provider); }) {
    if (roots) options.set_root_certificate_provider(provider);
    if (identity) options.set_identity_certificate_provider(provider);
  } else {
    if (roots || identity) options.set_certificate_provider(provider);
    if (roots) options.watch_root_certs();
    if (identity) options.watch_identity_key_cert_pairs();
  }
}

/// Returns TLS options for a server whose certificate comes from `provider`. If
/// `roots` is true, `provider` also supplies the client CA certificates.
template <class Options = grpc::experimental::TlsServerCredentialsOptions>
Options MakeServerTlsOptions(
    const std::shared_ptr<grpc::experimental::CertificateProviderInterface>&
        provider,
    bool roots) {
  if constexpr (requires { Options::Create(provider); }) {
    Options options = *Options::Create(provider);
    UseCertificates(options, provider, roots, /*identity=*/true);
    return options;
  } else {
    Options options(provider);
    UseCertificates(options, provider, roots, /*identity=*/true);
    return options;
  }
}

/// The severity of a library's log message. The process ends after kFatal.
enum class LibrarySeverity { kInfo, kError, kFatal };

/// Receives log messages.
using LibraryLogHandler = void (*)(LibrarySeverity severity,
                                   std::string_view library,
                                   std::string_view text);

/// Redirects the log messages of gRPC and protobuf from stderr to `handler` for
/// the rest of the process's life. Call at most once.
inline void SetLibraryLogHandler(LibraryLogHandler handler) {
#if TOPK_GRPC_AT_LEAST(65)
  class Sink final : public absl::LogSink {
   public:
    explicit Sink(LibraryLogHandler handler) : handler_(handler) {}
    void Send(const absl::LogEntry& entry) override {
      const bool protobuf = entry.source_filename().find("google/protobuf") !=
                            absl::string_view::npos;
      const LibrarySeverity severity =
          entry.log_severity() == absl::LogSeverity::kFatal
              ? LibrarySeverity::kFatal
          : entry.log_severity() == absl::LogSeverity::kError
              ? LibrarySeverity::kError
              : LibrarySeverity::kInfo;
      const absl::string_view text = entry.text_message();
      handler_(severity, protobuf ? "protobuf" : "gRPC",
               {text.data(), text.size()});
    }

   private:
    const LibraryLogHandler handler_;
  };
  // Never destroyed, because library threads log until the process ends.
  absl::AddLogSink(new Sink(handler));
  absl::SetStderrThreshold(absl::LogSeverityAtLeast::kInfinity);
  absl::InitializeLog();
#else
  static LibraryLogHandler target;
  target = handler;
  gpr_set_log_function([](gpr_log_func_args* args) {
    const std::string_view text = args->message;
    target(args->severity != GPR_LOG_SEVERITY_ERROR ? LibrarySeverity::kInfo
           : text.starts_with("assertion failed")   ? LibrarySeverity::kFatal
                                                    : LibrarySeverity::kError,
           "gRPC", text);
  });
#if GOOGLE_PROTOBUF_VERSION < 4022000
  google::protobuf::SetLogHandler([](google::protobuf::LogLevel severity,
                                     const char*, int,
                                     const std::string& text) {
    target(
        severity == google::protobuf::LOGLEVEL_FATAL   ? LibrarySeverity::kFatal
        : severity == google::protobuf::LOGLEVEL_ERROR ? LibrarySeverity::kError
                                                       : LibrarySeverity::kInfo,
        "protobuf", text);
  });
#endif
#endif
}

}  // namespace topk
