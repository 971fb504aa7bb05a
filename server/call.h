// One call, from its arrival to its end.
#pragma once

#include <grpcpp/server_context.h>

#include <atomic>
#include <optional>

#include "core/base/status.h"
#include "server/event_loop.h"
#include "server/rpc_metrics.h"
#include "server/topk_service.h"

namespace topk {

/// What all kinds of calls have. Deletes itself when gRPC owes it no event.
class Call : public EventSource {
 public:
 protected:
  /// Waits for a call: the derived class asks for one, with `arrived_` as its
  /// tag. The service and the loop outlive it.
  Call(TopKService& service, EventLoop& loop, const RpcMetrics::Method& method);
  virtual ~Call();

  /// The call is here: lets another one wait.
  virtual void Accept() = 0;
  /// Serves it.
  virtual void Begin() = 0;
  /// Ends it with an error instead.
  virtual void Refuse(const Status& status) = 0;

  /// The call has ended; CheckAlive() says how.
  virtual void Ended() {}

  /// An event is owed; it has come.
  void Hold() { ++owed_; }
  void Release();

  /// Returns OK while the client waits; CANCELLED, or DEADLINE_EXCEEDED if that
  /// is why, once it does not.
  Status CheckAlive() const;

  /// The status of a call whose client has gone.
  static Status Cancelled();

  /// Who calls, once it has begun.
  const Caller& caller() const { return caller_; }

  /// The call's counts, once it has begun.
  const RpcCount& count() const { return *count_; }

  TopKService& service_;
  grpc::ServerContext context_;

 private:
  void Arrive(bool ok);
  void End(bool ok);

  std::atomic<int> owed_ = 0;
  std::atomic<bool> cancelled_ = false;
  const RpcMetrics::Method& method_;
  std::optional<RpcCount> count_;
  Caller caller_;
  EventOf<Call, &Call::End> ended_{this};

 protected:
  EventOf<Call, &Call::Arrive> arrived_{this};
};

}  // namespace topk
