// Credentials of a client, and its requirements for those of the servers.
#pragma once

#include <grpcpp/security/credentials.h>

#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "core/base/status.h"
#include "topk/client.h"

namespace topk {

/// Whether all of a target's addresses are of this machine: unix:, localhost,
/// 127.0.0.0/8 or ::1.
bool IsLocalTarget(const std::string& target);

/// Spells the name of an option such as "tls_ca" for a message.
using OptionName = std::string (*)(std::string_view name);

/// Returns the first error in the options: an invalid target, a file that
/// cannot be used, a token without TLS.
Status CheckOptions(const ClientOptions& options, OptionName name);

/// Returns the credentials of options that are good. Certificates are read
/// again, within a second or so, when their files change.
std::shared_ptr<grpc::ChannelCredentials> MakeCredentials(
    const ClientOptions& options);

/// The token of a file, which is read again every second at most: tokens that a
/// cluster hands out live for an hour. Thread-safe.
class TokenFile {
 public:
  /// "" = no token.
  explicit TokenFile(std::string path) : path_(std::move(path)) {
    if (!path_.empty()) Read();
  }

  /// Returns the header's value "Bearer ...", "" if there is no file. The last
  /// good token stays if the file goes bad.
  std::string Header();

  /// Returns the same after reading the file, however recently it was read.
  std::string ReadAgain();

 private:
  void Read();

  const std::string path_;
  std::mutex mutex_;
  std::string header_;
  std::chrono::steady_clock::time_point read_;
};

}  // namespace topk
