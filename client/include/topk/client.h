// The C++ client of topk.v1.TopKService.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "topk/request.h"
#include "topk/status.h"
#include "topk/v1/topk.pb.h"

namespace grpc {
class ChannelArguments;
class ChannelCredentials;
}  // namespace grpc

namespace topk {

/// Names and values of request headers, e.g. {"tenant", "a"}. Names consist of
/// lowercase letters, digits and _.-. Values are printable ASCII, or any bytes
/// if the name ends with "-bin".
using Metadata = std::vector<std::pair<std::string, std::string>>;

/// How often a call is attempted, and the pauses between the attempts. With the
/// defaults, all pauses take 2.1 s in total.
struct Retry {
  /// The maximum number of attempts, at least 1.
  int attempts = 4;
  /// The first pause.
  std::chrono::milliseconds initial{100};
  /// The longest pause, at least `initial`. The server may ask for longer ones.
  std::chrono::milliseconds maximum{2000};
  /// The factor by which each pause is longer than the previous one, at least
  /// 1.
  double multiplier = 4;
};

/// Configures a Client.
struct ClientOptions {
  /// The address of the servers: host:port, unix:path, dns:///name:port (round
  /// robin over all addresses of the name), a comma-separated list of IP
  /// addresses with ports, or xds:///name. For xds targets, the control plane
  /// configures retries and health checks.
  std::string target = "localhost:50051";
  /// The timeout of calls that do not set CallOptions::timeout. Calls with a
  /// timeout of 0 or less fail with DEADLINE_EXCEEDED without being sent.
  std::chrono::milliseconds timeout = std::chrono::minutes(1);
  /// How often a call is attempted; std::nullopt disables retries. A call is
  /// retried if it fails with UNAVAILABLE, or with RESOURCE_EXHAUSTED and a
  /// retry delay that ends before the deadline. If the delay ends later, the
  /// call returns the error at once. IsServing() is never retried.
  ///
  /// Retries are safe because TopK is idempotent. If a server goes away, a
  /// streamed tensor is sent again to another server, and ComputeTopKMany()
  /// continues with the unanswered requests. If a response is incomplete, e.g.
  /// because a proxy lost its server, the error is UNAVAILABLE with the reason
  /// ANSWER_BROKE_OFF.
  std::optional<Retry> retry = Retry();
  /// Whether an attempt waits for a connection until the deadline, instead of
  /// failing while no server can be reached.
  bool wait_for_ready = false;
  /// Headers to send with each call.
  Metadata metadata = {};
  /// Prefix of the user-agent header, before this client's name.
  std::string user_agent = {};

  /// Whether to use TLS 1.2 or later. Each of the next four options also
  /// enables TLS. The server's certificate must be signed by a certificate
  /// authority in `tls_ca` (default: the system's authorities), and be valid
  /// for `tls_server_name` (default: the name in the target;
  /// required if the target is a list of addresses).
  bool tls = false;
  /// PEM files with the certificate authorities, the client's certificate and
  /// its key. The client reloads files that change. Replace a certificate and
  /// its key together, e.g. by switching a symbolic link to their directory.
  /// Otherwise, new connections fail while the two files do not match.
  std::string tls_ca = {};
  std::string tls_cert = {};
  std::string tls_key = {};
  std::string tls_server_name = {};
  /// A file with a token to send with each call as "authorization: Bearer ...".
  /// The file is reloaded when it changes. Without TLS, the target must be on
  /// this machine, unless `token_over_plaintext` is set. To send a token from
  /// another source, set the header in `metadata`, or use call credentials.
  std::string token_file = {};
  bool token_over_plaintext = false;

  /// Custom credentials, which replace the TLS options above. If set, the TLS
  /// options must be unset.
  std::shared_ptr<grpc::ChannelCredentials> credentials = {};
  /// Arguments for the gRPC channel, which override this client's own. E.g.
  /// GRPC_ARG_ENABLE_HTTP_PROXY = 0 ignores the environment variable
  /// http_proxy. Clients in this process with equal options share a connection,
  /// unless GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL is 1.
  std::shared_ptr<const grpc::ChannelArguments> channel_arguments = {};
};

/// Configures one call.
struct CallOptions {
  /// The timeout of the call. Default: ClientOptions::timeout.
  std::optional<std::chrono::milliseconds> timeout = {};
  /// Whether to wait for a connection. Default: ClientOptions::wait_for_ready.
  std::optional<bool> wait_for_ready = {};
  /// Whether a blocking ComputeTopK() streams the tensor. Has no effect if
  /// Request::tensor() is not set. By default, tensors over 512 KiB are
  /// streamed, which is faster.
  std::optional<bool> stream = {};
  /// Headers to send, e.g. {"traceparent", "00-..."}. They replace headers of
  /// the client that have the same names.
  Metadata metadata = {};
  /// Cancels the call, even between attempts. The call ends with CANCELLED.
  std::stop_token stop = {};
};

/// A client of one or several servers. Thread-safe: create one and reuse it.
/// Connects at the first call, and distributes calls round-robin. Servers that
/// report NOT_SERVING get calls too, because a draining server still answers.
///
/// Each call returns the server's response or error. An error has the code, the
/// message, and the reason and field of the google.rpc details. If a response
/// does not follow the protocol, the error is INTERNAL with the reason
/// BAD_ANSWER and the response's field. The client trusts the server not to
/// send more than it should.
///
/// Calls that reach no server end with UNAVAILABLE or DEADLINE_EXCEEDED. If a
/// server stops reading a tensor, the call may return up to 10 s after its
/// deadline, when the connection is closed. Unix sockets are not closed, so the
/// call may last until the server continues or exits.
class Client {
 public:
  /// Returns the first error in the options, e.g. an unusable file or a token
  /// without TLS. The message names the option. Each call of a client with
  /// invalid options fails with this error.
  static Status Check(const ClientOptions& options);

  explicit Client(const ClientOptions& options);
  Client(Client&&) noexcept;
  Client& operator=(Client&&) noexcept;
  ~Client();

  /// Sends a request and returns the response. Does not copy the tensor.
  /// Streams tensors that CallOptions::stream selects, in chunks of 1 MiB or
  /// less, and sends other requests in one message. A message that exceeds the
  /// server's limit (--max-message-bytes, at least 16 MiB) fails with
  /// RESOURCE_EXHAUSTED.
  Result<Response> ComputeTopK(const Request& request,
                               const CallOptions& options = {}) const;

  /// Sends a request without waiting for the response. Calls `done` exactly
  /// once, on a thread of this client, or before this function returns if
  /// nothing is sent. Copies the tensor, which may be freed after this function
  /// returns, and sends one message. `done` must neither block, nor lock what
  /// the caller holds, nor destroy the client. The client's destructor cancels
  /// asynchronous calls and waits for them.
  void ComputeTopK(const Request& request, const CallOptions& options,
                   std::function<void(Result<Response>)> done) const;

  /// Sends many requests on one stream, without copying their tensors. The
  /// timeout covers the whole stream. Calls `done` on the calling thread with
  /// each request's index and result, in order, as soon as the result arrives.
  /// If the stream fails, calls `done` with the stream's error for each
  /// unanswered request, and returns the error.
  Status ComputeTopKMany(
      std::span<const Request> requests,
      const std::function<void(size_t, Result<Response>)>& done,
      const CallOptions& options = {}) const;

  /// Returns what the server supports.
  Result<v1::Capabilities> GetCapabilities(
      const CallOptions& options = {}) const;

  /// Returns whether `service` is SERVING. "" means the whole server. Returns
  /// NOT_FOUND if the server has no such service. Queries one server.
  Result<bool> IsServing(const std::string& service,
                         const CallOptions& options = {}) const;

 private:
  struct Impl;

  std::unique_ptr<Impl> impl_;
};

}  // namespace topk
