// A client's credentials, and checks of its security options.
#pragma once

#include <grpcpp/security/credentials.h>

#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "topk/client.h"
#include "topk/status.h"

namespace topk {

/// Returns whether all addresses of a target are on this machine: unix:,
/// localhost, 127.0.0.0/8 or ::1.
bool IsLocalTarget(const std::string& target);

/// Returns the name that error messages use for an option such as "tls_ca".
using OptionName = std::string (*)(std::string_view name);

/// Returns the first error in the options, e.g. an invalid target, an unusable
/// file, or a token without TLS.
Status CheckOptions(const ClientOptions& options, OptionName name);

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

}  // namespace topk
