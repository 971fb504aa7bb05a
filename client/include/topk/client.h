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

/// How a client reaches its servers.
struct ClientOptions {
  /// host:port, unix:path, dns:///name:port (all of whose addresses are used in
  /// turn), a list of IP addresses with ports, separated by commas, or
  /// xds:///name, where retries and health are the control plane's to say.
  std::string target = "localhost:50051";
  /// How long a call may take, unless its own options say otherwise. With 0 or
  /// less, a call ends with DEADLINE_EXCEEDED without being sent.
  std::chrono::milliseconds timeout = std::chrono::minutes(1);
  /// Attempts of a call, except IsServing(), that ends with UNAVAILABLE, or
  /// with RESOURCE_EXHAUSTED and a retry delay that ends before the deadline: 1
  /// .. 5; 1 = no retry. A delay that ends later returns the server's error at
  /// once. A TopK is idempotent: a stream whose server goes away starts again
  /// at another one, or continues with the requests that have no answer. An
  /// answer that breaks off, as a proxy's whose server went away, is
  /// UNAVAILABLE with the reason ANSWER_BROKE_OFF.
  int max_attempts = 4;
  /// The prefix of the user-agent header, before gRPC's own name.
  std::string user_agent = {};
  /// Whether this client has its own connection; otherwise the clients of a
  /// process that have equal options share one.
  bool own_connection = false;
  /// Whether connections go through the proxy that a variable such as
  /// http_proxy names.
  bool use_http_proxy = true;

  /// TLS 1.2 or later, if this or any of the next four is set. The server is
  /// believed if an authority of `tls_ca`, or of this machine without it, has
  /// signed its certificate for the target's name, or `tls_server_name`.
  bool tls = false;
  /// PEM files of authorities, and of the client's own certificate and key.
  /// Read again when they change; a certificate and its key are to be replaced
  /// together (a directory, a symbolic link), or connections fail in between.
  std::string tls_ca = {};
  std::string tls_cert = {};
  std::string tls_key = {};
  std::string tls_server_name = {};
  /// A file with a token that each call carries, "authorization: Bearer ...";
  /// read again when it changes. Without TLS it is for targets on this machine
  /// alone, unless the flag says otherwise.
  std::string token_file = {};
  bool token_over_plaintext = false;

  /// Credentials of the caller's own, in place of the TLS options above.
  std::shared_ptr<grpc::ChannelCredentials> credentials = {};
  /// Creates the client's two channels, for calls and for health checks; null:
  /// grpc::CreateCustomChannel. Set it to change the arguments, to add
  /// interceptors, or to return a channel to a fake server.
  std::function<std::shared_ptr<grpc::ChannelInterface>(
      const std::string& target,
      const std::shared_ptr<grpc::ChannelCredentials>& credentials,
      const grpc::ChannelArguments& arguments)>
      make_channel = {};
};

/// Whether a client's calls go over TLS.
bool UsesTls(const ClientOptions& options);

/// How one call is made.
struct CallOptions {
  /// Unset: the client's.
  std::optional<std::chrono::milliseconds> timeout = {};
  /// ComputeTopK with a separate tensor: whether to stream it. Unset: it is
  /// streamed if it has more than 512 KiB, from where on streaming is faster,
  /// or if it exceeds the server's message limit.
  std::optional<bool> stream = {};
  /// Headers of the call, e.g. {"traceparent", "00-..."}; names in lower case.
  std::vector<std::pair<std::string, std::string>> metadata = {};
  /// Cancels the call, also between attempts: it ends with CANCELLED.
  std::stop_token stop = {};
};

/// A connection to one or several servers. Thread-safe; make one and keep it.
/// Calls go to the servers in turn (round robin), past those whose health check
/// says NOT_SERVING. Connects at the first call.
///
/// Every call returns the server's answer, or its error with the code, the
/// reason and field of its google.rpc details, and the message. A response that
/// cannot belong to its request is INTERNAL with the reason BAD_ANSWER and the
/// response's field; no more is received than 64 MiB and four times the largest
/// responses that the calls in flight allow, and nothing that is compressed.
/// Calls that reach no server end with UNAVAILABLE or DEADLINE_EXCEEDED. A
/// server that stops reading while it is sent a tensor may delay a call by 10 s
/// past its deadline; the connection is then closed. Over a Unix socket, which
/// is never closed, the delay lasts until the server continues or ends.
class Client {
 public:
  /// Returns the first error in the options, e.g. a file that cannot be used or
  /// a token without TLS. The message names the option. Each call of a client
  /// with such options ends with this error.
  static Status Check(const ClientOptions& options);

  explicit Client(const ClientOptions& options);
  Client(Client&&) noexcept;
  Client& operator=(Client&&) noexcept;
  ~Client();

  /// Sends the tensor from where it lies, in one message or, if it is large, as
  /// a stream.
  Result<Response> ComputeTopK(const Request& request,
                               const CallOptions& options = {}) const;

  /// As above, but returns at once and calls `done` exactly once: on a thread
  /// of gRPC's, or before the function returns if nothing is sent. The tensor
  /// is copied, so it may be freed after the return, and is sent in one
  /// message. `done` must neither block nor destroy the client, whose
  /// destructor cancels such calls and waits for them.
  void ComputeTopK(const Request& request, const CallOptions& options,
                   std::function<void(Result<Response>)> done) const;

  /// As above, but the response is in a future, whose destructor does not
  /// wait.
  std::future<Result<Response>> ComputeTopKAsync(
      const Request& request, const CallOptions& options = {}) const;

  /// Answers one tensor with one message. RESOURCE_EXHAUSTED, without sending
  /// it, for a request that exceeds the server's limit of messages, for which a
  /// client asks once, before the first large one.
  Result<v1::TopKResponse> ComputeTopK(const v1::TopKRequest& request,
                                       const CallOptions& options = {}) const;

  /// As above, but reads the tensor in place, and sends it in one message or
  /// streams it. The header is a request whose tensor has no source. A template
  /// so that `{}` as the second argument means CallOptions.
  template <std::convertible_to<std::span<const std::byte>> Tensor>
  Result<v1::TopKResponse> ComputeTopK(const v1::TopKRequest& header,
                                       const Tensor& tensor,
                                       const CallOptions& options = {}) const {
    return ComputeSeparateTensor(header, tensor, options);
  }

  /// Answers a tensor of any size, sent from where it lies in chunks of 1 MiB,
  /// or less where the server takes no such messages.
  /// The header is a request whose tensor has no source.
  Result<v1::TopKResponse> StreamTopK(const v1::TopKRequest& header,
                                      std::span<const std::byte> tensor,
                                      const CallOptions& options = {}) const;

  /// Sends many tensors, from where they lie, on one stream, which the timeout
  /// bounds as a whole. Calls `done` on this thread with the index of each
  /// request, in order, as soon as its response is there. Returns the error
  /// that broke the stream, if one did; requests without a response are `done`
  /// with that error.
  Status ComputeTopKMany(
      std::span<const Request> requests,
      const std::function<void(size_t, Result<Response>)>& done,
      const CallOptions& options = {}) const;

  /// Answers many tensors on one stream, which the timeout bounds as a whole.
  /// Returns as many results, in order; if the stream breaks, the rest have its
  /// error.
  std::vector<Result<v1::TopKResponse>> ComputeTopKMany(
      std::span<const v1::TopKRequest> requests,
      const CallOptions& options = {}) const;

  /// Returns what the server serves.
  Result<v1::Capabilities> GetCapabilities(
      const CallOptions& options = {}) const;

  /// Returns whether a service ("" = the whole server) is SERVING, or NOT_FOUND
  /// for one that the server lacks. Reaches a server also while it does not
  /// serve; of several, any one.
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
