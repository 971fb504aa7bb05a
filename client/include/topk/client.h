// The C++ client of topk.v1.TopKService.
#pragma once

#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <future>
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
class ChannelInterface;
}  // namespace grpc

namespace topk {

/// Configures a Client.
struct ClientOptions {
  /// The address of the servers: host:port, unix:path, dns:///name:port (round
  /// robin over all addresses of the name), a comma-separated list of IP
  /// addresses with ports, or xds:///name. With xds, the control plane
  /// configures retries and health checks.
  std::string target = "localhost:50051";
  /// The timeout of calls, unless CallOptions sets another. If it is 0 or less,
  /// calls fail with DEADLINE_EXCEEDED without being sent.
  std::chrono::milliseconds timeout = std::chrono::minutes(1);
  /// Maximum attempts per call, 1 to 5; 1 disables retries. A call is retried
  /// if it fails with UNAVAILABLE, or with RESOURCE_EXHAUSTED and a retry delay
  /// that ends before the deadline. If the delay ends later, the error is
  /// returned at once. IsServing() is never retried.
  ///
  /// Retries are safe because TopK is idempotent. If a server goes away,
  /// StreamTopK() starts again on another server, and ComputeTopKMany()
  /// continues with the unanswered requests. If a response breaks off, e.g.
  /// because a proxy lost its server, the error is UNAVAILABLE with the reason
  /// ANSWER_BROKE_OFF.
  int max_attempts = 4;
  /// Prefix of the user-agent header, before gRPC's own name.
  std::string user_agent = {};
  /// Whether this client has its own connection. Otherwise, clients in this
  /// process with equal options share one.
  bool own_connection = false;
  /// Whether to connect through the HTTP proxy set by environment variables
  /// such as http_proxy.
  bool use_http_proxy = true;

  /// Uses TLS 1.2 or later. Any of the next four options implies it. The
  /// server's certificate must be signed by an authority in `tls_ca` (default:
  /// this machine's authorities) and have the name `tls_server_name` (default:
  /// the target's).
  bool tls = false;
  /// PEM files: the certificate authorities, and the client's own certificate
  /// and key. Changed files are reloaded. Replace a certificate and its key
  /// together, e.g. in a directory behind a symbolic link, or connections fail
  /// in between.
  std::string tls_ca = {};
  std::string tls_cert = {};
  std::string tls_key = {};
  std::string tls_server_name = {};
  /// A file with a token to send with each call as "authorization: Bearer ...".
  /// The file is reloaded when it changes. Without TLS, the target must be on
  /// this machine, unless `token_over_plaintext` is set.
  std::string token_file = {};
  bool token_over_plaintext = false;

  /// Custom credentials. They replace the TLS options above, which must then be
  /// unset.
  std::shared_ptr<grpc::ChannelCredentials> credentials = {};
  /// Creates the client's two channels, for calls and for health checks.
  /// Default: grpc::CreateCustomChannel. Set it to change the arguments, to add
  /// interceptors, or to return a channel to a fake server.
  std::function<std::shared_ptr<grpc::ChannelInterface>(
      const std::string& target,
      const std::shared_ptr<grpc::ChannelCredentials>& credentials,
      const grpc::ChannelArguments& arguments)>
      make_channel = {};
};

/// Returns whether the options enable TLS.
bool UsesTls(const ClientOptions& options);

/// Configures one call.
struct CallOptions {
  /// The timeout of the call. Default: ClientOptions::timeout.
  std::optional<std::chrono::milliseconds> timeout = {};
  /// Whether ComputeTopK() streams a separate tensor. If unset, a tensor is
  /// streamed if it is larger than 512 KiB, where streaming is faster, or if
  /// the request exceeds the server's message limit.
  std::optional<bool> stream = {};
  /// Request headers, e.g. {"traceparent", "00-..."}. Names must be lower case.
  std::vector<std::pair<std::string, std::string>> metadata = {};
  /// Cancels the call, even between attempts. The call ends with CANCELLED.
  std::stop_token stop = {};
};

/// A client of one or several servers. Thread-safe: create one and reuse it.
/// Connects at the first call. Distributes calls round-robin and skips servers
/// whose health check reports NOT_SERVING.
///
/// Each call returns the server's response, or its error with the code, the
/// message, and the reason and field of the google.rpc details. If a response
/// cannot belong to its request, the error is INTERNAL with the reason
/// BAD_ANSWER and the response's field. Received messages take at most 64 MiB
/// plus four times the largest possible responses to the calls in flight.
/// Compressed messages are rejected.
///
/// Calls that reach no server end with UNAVAILABLE or DEADLINE_EXCEEDED. If a
/// server stops reading a tensor, the call may return up to 10 s after its
/// deadline; the connection is then closed. A Unix socket is never closed, so
/// the call may last until the server continues or ends.
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

  /// Sends a request and reads its tensor in place. Uses one message or, for a
  /// large tensor, a stream.
  Result<Response> ComputeTopK(const Request& request,
                               const CallOptions& options = {}) const;

  /// As above, but returns at once and calls `done` exactly once: on a gRPC
  /// thread, or before returning if nothing is sent. The tensor is copied, so
  /// it may be freed after the return, and is sent in one message. `done` must
  /// neither block nor destroy the client. The client's destructor cancels such
  /// calls and waits for them.
  void ComputeTopK(const Request& request, const CallOptions& options,
                   std::function<void(Result<Response>)> done) const;

  /// As above, but returns a future. The future's destructor does not block.
  std::future<Result<Response>> ComputeTopKAsync(
      const Request& request, const CallOptions& options = {}) const;

  /// Sends a request in one message. Returns RESOURCE_EXHAUSTED, without
  /// sending the request, if it exceeds the server's message limit. The client
  /// queries the limit once, before the first large request.
  Result<v1::TopKResponse> ComputeTopK(const v1::TopKRequest& request,
                                       const CallOptions& options = {}) const;

  /// As above, but reads the tensor in place and sends it in one message or as
  /// a stream. `header` is the request, without a tensor source. This is a
  /// template so that `{}` as the second argument means CallOptions.
  template <std::convertible_to<std::span<const std::byte>> Tensor>
  Result<v1::TopKResponse> ComputeTopK(const v1::TopKRequest& header,
                                       const Tensor& tensor,
                                       const CallOptions& options = {}) const {
    return ComputeSeparateTensor(header, tensor, options);
  }

  /// Streams a tensor of any size, read in place, in chunks of 1 MiB, or less
  /// if the server's message limit is lower. `header` is the request, without a
  /// tensor source.
  Result<v1::TopKResponse> StreamTopK(const v1::TopKRequest& header,
                                      std::span<const std::byte> tensor,
                                      const CallOptions& options = {}) const;

  /// Sends many requests on one stream and reads their tensors in place. The
  /// timeout covers the whole stream. Calls `done` on the calling thread with
  /// each request's index and result, in order, as soon as the result arrives.
  /// If the stream fails, returns its error and calls `done` with that error
  /// for each unanswered request.
  Status ComputeTopKMany(
      std::span<const Request> requests,
      const std::function<void(size_t, Result<Response>)>& done,
      const CallOptions& options = {}) const;

  /// Sends many requests on one stream. The timeout covers the whole stream.
  /// Returns one result per request, in order. If the stream fails, the
  /// unanswered requests have its error.
  std::vector<Result<v1::TopKResponse>> ComputeTopKMany(
      std::span<const v1::TopKRequest> requests,
      const CallOptions& options = {}) const;

  /// Returns what the server supports.
  Result<v1::Capabilities> GetCapabilities(
      const CallOptions& options = {}) const;

  /// Returns whether `service` ("" = the whole server) is SERVING, or NOT_FOUND
  /// if the server has no such service. Also reaches servers that are not
  /// serving. If there are several servers, asks any of them.
  Result<bool> IsServing(const std::string& service,
                         const CallOptions& options = {}) const;

 private:
  struct Impl;

  Result<v1::TopKResponse> ComputeSeparateTensor(
      const v1::TopKRequest& header, std::span<const std::byte> tensor,
      const CallOptions& options) const;

  std::unique_ptr<Impl> impl_;
};

}  // namespace topk
