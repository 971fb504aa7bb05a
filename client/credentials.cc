#include "client/credentials.h"

#include <grpc/grpc.h>
#include <grpc/slice.h>
#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_credentials_options.h>

#include <algorithm>
#include <string_view>

#include "core/base/text.h"
#include "core/common/bearer_token.h"
#include "core/common/certificates.h"
#include "core/common/small_file.h"
#include "core/common/target.h"
#include "proto/library_versions.h"

namespace topk {
namespace {

constexpr unsigned kReloadSeconds = 1;

bool HasCertificate(const ClientOptions& options) {
  return !options.tls_cert.empty() || !options.tls_key.empty();
}

Result<std::string> ReadToken(const std::string& path) {
  const Result<std::string> content = ReadSmallFile({"token_file", path});
  if (!content.ok()) return content.status();
  const std::string_view token = TrimToken(*content);
  if (Status s = CheckToken(token); !s.ok()) {
    s.message = StrCat("token_file: ", EscapeControls(path), ": ", s.message);
    return s;
  }
  return std::string(token);
}

Result<PemFile> ReadPem(NamedFile file) {
  Result<std::string> text = ReadSmallFile(file);
  if (!text.ok()) return text.status();
  return PemFile{std::move(file), *std::move(text)};
}

Status CheckClientCertificate(const ClientOptions& options) {
  if (options.tls_cert.empty() || options.tls_key.empty()) {
    const std::string missing =
        options.tls_cert.empty() ? "tls_cert" : "tls_key";
    return InvalidArgument("TLS_FILE", missing,
                           StrCat("tls_cert and tls_key must be set together; ",
                                  missing, " is missing"));
  }
  const Result<PemFile> certificate = ReadPem({"tls_cert", options.tls_cert});
  if (!certificate.ok()) return certificate.status();
  const Result<PemFile> key = ReadPem({"tls_key", options.tls_key});
  if (!key.ok()) return key.status();
  const auto checked = CheckKeyPair(*certificate, *key);
  return checked.ok() ? Status{} : checked.status();
}

bool UsesTls(const ClientOptions& options) {
  return options.tls || HasCertificate(options) || !options.tls_ca.empty() ||
         !options.tls_server_name.empty();
}

}  // namespace

bool IsSecure(const ClientOptions& options) {
  return UsesTls(options) || options.credentials != nullptr;
}

Status CheckMetadata(const Metadata& metadata) {
  const auto invalid = [](auto... why) {
    return InvalidArgument("OPTION", "metadata", StrCat("metadata: ", why...));
  };
  const auto slice = [](const std::string& text) {
    return grpc_slice_from_static_buffer(text.data(), text.size());
  };
  for (const auto& [key, value] : metadata) {
    if (grpc_header_key_is_legal(slice(key)) == 0) {
      return invalid("the key ", Quote(key),
                     " must consist of lowercase letters, digits and _.-");
    }
    if (key.starts_with("grpc-")) {
      return invalid("the key ", Quote(key), " is reserved for gRPC");
    }
    if (!key.ends_with("-bin") &&
        grpc_header_nonbin_value_is_legal(slice(value)) == 0) {
      return invalid("the value of ", Quote(key), " must be printable ASCII");
    }
  }
  return {};
}

bool IsLocalTarget(const std::string& target) {
  if (IsUnixAddress(target)) return true;
  std::string_view rest = target;
  // The form of a target is [scheme:[//authority/]]addresses. A target with an
  // authority is not local, because the authority resolves the addresses.
  for (const std::string_view scheme : {"dns:", "ipv4:", "ipv6:"}) {
    if (rest.starts_with(scheme)) {
      rest.remove_prefix(scheme.size());
      break;
    }
  }
  if (rest.starts_with("//")) {
    if (!rest.starts_with("///")) return false;
    rest.remove_prefix(3);
  }
  while (true) {
    const size_t comma = rest.find(',');
    if (!IsLoopback(rest.substr(0, comma))) return false;
    if (comma == std::string_view::npos) return true;
    rest.remove_prefix(comma + 1);
  }
}

Status Client::Check(const ClientOptions& options) {
  if (const std::string error = TargetError(options.target); !error.empty()) {
    return InvalidArgument("TARGET", "target", StrCat("target: ", error));
  }
  if (const auto& retry = options.retry;
      retry && (retry->attempts < 1 || retry->initial.count() < 0 ||
                retry->maximum < retry->initial || !(retry->multiplier >= 1))) {
    return InvalidArgument("OPTION", "retry",
                           "retry: attempts and multiplier must be at least 1, "
                           "initial at least 0, and maximum at least initial");
  }
  if (Status s = CheckMetadata(options.metadata); !s.ok()) return s;
  if (UsesTls(options) && options.credentials != nullptr) {
    return InvalidArgument("OPTION", "credentials",
                           "credentials: leave out the TLS options, which the "
                           "credentials replace");
  }
  if (UsesTls(options) && IsUnixAddress(options.target)) {
    return InvalidArgument("TLS_TARGET", "target",
                           StrCat("tls: ", Quote(options.target),
                                  " is a Unix socket, which has no TLS"));
  }
  if (UsesTls(options) && options.tls_server_name.empty() &&
      options.target.find(',') != std::string::npos) {
    return InvalidArgument("TLS_TARGET", "tls_server_name",
                           "tls_server_name: required with TLS if the target "
                           "is a list of addresses");
  }
  if (!options.tls_ca.empty()) {
    const Result<PemFile> ca = ReadPem({"tls_ca", options.tls_ca});
    if (!ca.ok()) return ca.status();
    const auto read = ReadCertificates(*ca);
    if (!read.ok()) return read.status();
  }
  if (HasCertificate(options)) {
    if (Status s = CheckClientCertificate(options); !s.ok()) return s;
  }
  if (options.token_file.empty()) return {};
  if (!IsSecure(options) && !options.token_over_plaintext &&
      !IsLocalTarget(options.target)) {
    return InvalidArgument(
        "TOKEN_OVER_PLAINTEXT", "token_file",
        StrCat("token_file: the token would go to ", Quote(options.target),
               " without TLS; use tls, or token_over_plaintext if the network "
               "is trusted"));
  }
  const Result<std::string> token = ReadToken(options.token_file);
  return token.ok() ? Status{} : token.status();
}

std::shared_ptr<grpc::ChannelCredentials> MakeCredentials(
    const ClientOptions& options) {
  using grpc::experimental::FileWatcherCertificateProvider;
  if (options.credentials != nullptr) return options.credentials;
  if (!UsesTls(options)) return grpc::InsecureChannelCredentials();
  grpc::experimental::TlsChannelCredentialsOptions tls;
  if (!options.tls_ca.empty() || HasCertificate(options)) {
    // Without tls_ca, gRPC trusts the system's certificate authorities.
    UseCertificates(
        tls,
        std::make_shared<FileWatcherCertificateProvider>(
            options.tls_key, options.tls_cert, options.tls_ca, kReloadSeconds),
        !options.tls_ca.empty(), HasCertificate(options));
  }
  return grpc::experimental::TlsCredentials(tls);
}

std::string TokenFile::Header(std::chrono::seconds max_age) {
  if (path_.empty()) return "";
  const std::lock_guard lock(mutex_);
  const auto now = std::chrono::steady_clock::now();
  if (now - read_ >= max_age) Read();
  return header_;
}

void AddHeaders(const Metadata& call, const Metadata& client, TokenFile& token,
                grpc::ClientContext& context) {
  const auto has = [](const Metadata& metadata, const std::string& name) {
    return std::ranges::find(metadata, name, &Metadata::value_type::first) !=
           metadata.end();
  };
  for (const auto& [name, value] : call) context.AddMetadata(name, value);
  for (const auto& [name, value] : client) {
    if (!has(call, name)) context.AddMetadata(name, value);
  }
  constexpr char kToken[] = "authorization";
  if (has(call, kToken) || has(client, kToken)) return;
  if (std::string header = token.Header(); !header.empty()) {
    context.AddMetadata(kToken, header);
  }
}

void TokenFile::Read() {
  read_ = std::chrono::steady_clock::now();
  const Result<std::string> token = ReadToken(path_);
  if (token.ok()) header_ = StrCat("Bearer ", *token);
}

}  // namespace topk
