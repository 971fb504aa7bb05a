// Streaming calls that answer messages in groups: ComputeTopKMany and
// ModelStreamInfer.
#pragma once

#include <grpcpp/support/byte_buffer.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "server/calls/read_ahead_queue.h"
#include "server/calls/request.h"
#include "server/calls/service_call.h"

namespace topk {

/// Sends one response per request, in order. Waiting requests are answered as a
/// group while the next group is received. A poller handles a few small
/// requests at a time; a worker handles all others in one pass. A request holds
/// its charge until its response is sent.
class GroupCall final : public ServiceCall {
 public:
  using MakeCodec = std::function<std::unique_ptr<Codec>()>;

  /// `service` must outlive the call. `make_codec` returns the codec for one
  /// request.
  GroupCall(TopKService& service, Call& call, MakeCodec make_codec)
      : ServiceCall(service, call, Kind::kMany),
        make_codec_(std::move(make_codec)) {}

 private:
  // A request, its error if any, and its progress.
  struct Item {
    std::unique_ptr<Request> request;
    Status status;
    int64_t bytes = 0;  // size of the message
    bool prepared = false;
    bool computed = false;  // its response or error is ready
  };

  void OnRead(bool ok, grpc::ByteBuffer& message) final;
  void Interrupt(const Status& status) final;
  // No-op: each request is recorded individually.
  void RecordIncomplete(const Status&) final {}
  Item Admitted(grpc::ByteBuffer& message);
  void AnswerGroup();
  void AnswerMore();
  void ComputeHere();
  void PrepareOnWorker();
  void ComputeOnWorker(Size nanoseconds);
  void Prepare(Item& item, Reader reader);
  void Compute(Item& item);
  Size PrepareNanoseconds();
  template <class Do>
  void ForEach(Size nanoseconds, Do do_item);
  void RecordUnanswered(std::span<const Item> items, const Status& status);
  void SendNext();
  void OnWritten(bool ok) final;
  void FinishStream(const Status& status);

  // The unsent part of the group.
  std::span<Item> Rest() { return std::span(group_).subspan(sent_); }

  const MakeCodec make_codec_;
  ReadAheadQueue<Item> queue_;
  std::vector<Item> group_;
  size_t sent_ = 0;      // items of group_ sent
  size_t computed_ = 0;  // items of group_ ready to send
};

}  // namespace topk
