// The C++ client of topk.v1.TopKService.
#pragma once

#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "topk/v1/topk.pb.h"

namespace topk {

/// How a client reaches its servers.
struct ClientOptions {
  /// host:port, unix:path, dns:///name:port (all of whose addresses are used in
  /// turn), a list of IP addresses with ports, separated by commas, or
  /// xds:///name, where retries and health are the control plane's to say.
  std::string target = "localhost:50051";
  /// How long a call may take, unless its own options say otherwise. With 0 or
  /// less, a call ends with DEADLINE_EXCEEDED without being sent.
  std::chrono::milliseconds deadline = std::chrono::minutes(1);
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
  /// The W3C traceparent that each call carries; "" = none.
  std::string traceparent = {};
};

/// Whether a client's calls go over TLS.
bool UsesTls(const ClientOptions& options);

/// How one call is made.
struct CallOptions {
  /// Unset: the client's.
  std::optional<std::chrono::milliseconds> deadline = {};
  /// ComputeTopK with a separate tensor: whether to stream it. Unset: it is
  /// streamed if it has more than 512 KiB, from where on streaming is faster,
  /// or if it exceeds the server's message limit.
  std::optional<bool> stream = {};
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
  ~Client();

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

  /// Answers many tensors on one stream, which the deadline bounds as a whole.
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
