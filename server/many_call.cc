#include "server/many_call.h"

#include <grpcpp/support/async_stream.h>
#include <grpcpp/support/byte_buffer.h>
#include <tbb/parallel_for.h>

#include <utility>
#include <vector>

#include "server/call.h"
#include "server/intake.h"
#include "server/raw_message.h"
#include "server/status_map.h"

namespace topk {
namespace {

// What has arrived is answered as a group: computed in one pass, written into
// one buffer. Meanwhile the next group arrives.
class ManyCall final : public Call {
 public:
  ManyCall(TopKService& service, EventLoop& loop)
      : Call(service, loop,
             service.rpc_metrics().Find(TopKService::kComputeTopKMany)) {
    service_.rpc().RequestComputeTopKMany(&context_, &stream_, &loop_.queue(),
                                          &loop_.queue(), &arrived_);
  }

 private:
  void Begin() override {
    AcceptComputeTopKMany(service_, loop_);
    Read();
  }

  void Read() {
    Hold();
    stream_.Read(&incoming_, &received_);
  }

  void Receive(bool ok) {
    if (ok) count().Received();
    const Intake::Next next = intake_.Receive(ok, incoming_);
    if (next.read) Read();
    if (next.work) Work();
    Release();
  }

  // Answers what has been received; one group at a time.
  void Work() {
    const Intake::Taken taken = intake_.Take(group_);
    if (taken.read) Read();
    if (taken.end) return Finish({});
    if (!taken.any) return;
    int64_t bytes = 0;
    for (grpc::ByteBuffer& request : group_) {
      bytes += service_.WorkBytes(request);
    }
    Hold();
    service_.Run(bytes, [this, bytes] {
      Answer(bytes);
      Release();
    });
  }

  void Answer(int64_t bytes) {
    if (const Status gone = CheckAlive(); !gone.ok()) return Finish(gone);
    // One by one where all of them take less than handing them out.
    constexpr int64_t kWorthSharing = int64_t{128} << 10;
    answers_.resize(group_.size());
    const auto answer = [this](size_t i) { answers_[i] = Compute(group_[i]); };
    if (bytes > kWorthSharing) {
      tbb::parallel_for(size_t{0}, group_.size(), answer);
    } else {
      for (size_t i = 0; i < group_.size(); ++i) answer(i);
    }
    sent_ = 0;
    SendNext();
  }

  // One request, whatever is wrong with it, has one answer.
  grpc::ByteBuffer Compute(grpc::ByteBuffer& bytes) {
    RawMessage<v1::TopKRequest> request;
    Tally tally;
    v1::TopKResult result;
    const Status status = CatchBadAlloc([&]() -> Status {
      if (Status s = ReadRaw(bytes, request); !s.ok()) return s;
      return service_.Compute(request, tally, *result.mutable_response());
    });
    if (!status.ok()) *result.mutable_error() = ToRpcStatus(status);
    result.set_request_id(request.message.request_id());
    service_.Record(context_, "ComputeTopKMany", request.message, tally,
                    status);
    return WriteMessage(std::move(result));
  }

  void SendNext() {
    count().Sent();
    Hold();
    grpc::WriteOptions options;
    if (sent_ + 1 < answers_.size()) options.set_buffer_hint();
    stream_.Write(answers_[sent_++], options, &written_);
  }

  void Written(bool ok) {
    if (!ok) {
      Finish(Cancelled());
    } else if (sent_ < answers_.size()) {
      SendNext();
    } else {
      Work();
    }
    Release();
  }

  void Finish(const Status& status) {
    intake_.Stop();
    const grpc::Status end = ToGrpcStatus(status);
    count().Handled(end.error_code());
    Hold();
    stream_.Finish(end, &finished_);
  }

  void Finished(bool) { Release(); }

  grpc::ServerAsyncReaderWriter<grpc::ByteBuffer, grpc::ByteBuffer> stream_{
      &context_};
  grpc::ByteBuffer incoming_;
  Intake intake_;
  std::vector<grpc::ByteBuffer> group_;
  std::vector<grpc::ByteBuffer> answers_;
  size_t sent_ = 0;
  EventOf<ManyCall, &ManyCall::Receive> received_{this};
  EventOf<ManyCall, &ManyCall::Written> written_{this};
  EventOf<ManyCall, &ManyCall::Finished> finished_{this};
};

}  // namespace

void AcceptComputeTopKMany(TopKService& service, EventLoop& loop) {
  new ManyCall(service, loop);
}

}  // namespace topk
