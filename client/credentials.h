// A client's credentials and headers, and checks of its options.
#pragma once

#include <grpcpp/client_context.h>
#include <grpcpp/security/credentials.h>

#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "topk/client.h"
#include "topk/status.h"

namespace topk {

/// Returns whether all addresses of a target are on this machine: unix:,
/// localhost, 127.0.0.0/8 or ::1.
bool IsLocalTarget(const std::string& target);

/// Returns whether the options enable TLS, or set other credentials.
bool IsSecure(const ClientOptions& options);

/// Returns INVALID_ARGUMENT for the first header that gRPC does not accept. The
/// message does not contain the header's value, which may be secret.
Status CheckMetadata(const Metadata& metadata);

/// Returns the credentials for `options`, which must be valid. Certificate
/// files are reloaded within about a second of a change.
std::shared_ptr<grpc::ChannelCredentials> MakeCredentials(
    const ClientOptions& options);

/// A file with a token. The file is read repeatedly, because tokens issued by a
/// cluster expire after an hour. Thread-safe.
class TokenFile {
 public:
  /// The path of the file; "" = no token.
  explicit TokenFile(std::string path) : path_(std::move(path)) {
    if (!path_.empty()) Read();
  }

  /// Returns the authorization header "Bearer ...", or "" if there is no file.
  /// Reads the file again if the last read was `max_age` or longer ago. Keeps
  /// the last valid token if the file becomes invalid.
  std::string Header(std::chrono::seconds max_age = std::chrono::seconds(1));

 private:
  void Read();

  const std::string path_;
  std::mutex mutex_;
  std::string header_;
  std::chrono::steady_clock::time_point read_;
};

/// Adds the headers of a call, those of its client that have other names, and
/// the token unless one of these headers is "authorization".
void AddHeaders(const Metadata& call, const Metadata& client, TokenFile& token,
                grpc::ClientContext& context);

}  // namespace topk
